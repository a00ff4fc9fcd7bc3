//! The GRPO learner: packing, log-probabilities, losses and optimizer steps.
