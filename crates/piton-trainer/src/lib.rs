//! The step loops over a train controller and a rollout controller: produce, train, publish, evaluate, record, save, resume.

mod batch;
mod colocate;
mod config;
mod controller;
mod error;
mod evaluate;
mod export;
mod fit;
mod lengths;
mod metrics;
mod open;
mod progress;
mod run_config;
mod state;
mod trajectory;

pub use batch::train_samples;
pub use colocate::{ColocateTrainer, Controllers, FitReport, RunContext};
pub use config::*;
pub use controller::{
    FitContext, FitOutcome, ResumeRequest, SaveRequest, Target, TrainController, TrainSample,
};
pub use error::Error;
pub use metrics::{VOLATILE_PREFIXES, is_volatile};
pub use progress::{Progress, ProgressEvent, Silent};
