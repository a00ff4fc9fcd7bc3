//! The step loops over a train controller and a rollout controller: produce, train, publish, evaluate, record, save, resume.
