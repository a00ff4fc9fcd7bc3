//! The step loops over a train controller and a rollout controller: produce, train, publish, evaluate, record, save, resume.

mod controller;

pub use controller::{FitContext, FitOutcome, ResumeRequest, SaveRequest, Target, TrainController, TrainSample};
