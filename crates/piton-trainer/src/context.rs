//! What goes into a run besides its configuration, and what comes out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use piton_agent::RolloutController;
use piton_run::{Clock, EnvironmentRecord, Stop, SystemClock};

use crate::controller::TrainController;
use crate::progress::{Progress, Silent};

/// The engines a trainer works with.
pub struct Controllers {
    /// The learner.
    pub train: Box<dyn TrainController>,
    /// The rollout engine.
    pub rollout: Arc<dyn RolloutController>,
}

impl std::fmt::Debug for Controllers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controllers").finish_non_exhaustive()
    }
}

/// What surrounds a run: everything that comes from outside the configuration.
pub struct RunContext {
    /// Asks the run to end early.
    pub stop: Stop,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Hears what happens.
    pub progress: Box<dyn Progress>,
    /// What the user ran; told to whoever finds the work_dir locked.
    pub command: String,
    /// What exactness depends on (libtorch, processor level, threads); stands in every manifest.
    pub environment: BTreeMap<String, String>,
    /// The machine, written to `logs/environment.json`.
    pub record: Option<EnvironmentRecord>,
    /// Keys whose change a resume accepts although it alters the course of training.
    pub allow_change: Vec<String>,
}

impl Default for RunContext {
    /// No signals, no output, the system's clock.
    fn default() -> Self {
        Self {
            stop: Stop::manual(),
            clock: Arc::new(SystemClock),
            progress: Box::new(Silent),
            command: "a program using piton-trainer".to_owned(),
            environment: BTreeMap::new(),
            record: None,
            allow_change: Vec::new(),
        }
    }
}

impl std::fmt::Debug for RunContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunContext").field("command", &self.command).finish_non_exhaustive()
    }
}

/// What came of [`ColocateTrainer::fit`](crate::ColocateTrainer::fit).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FitReport {
    /// Steps completed, those of earlier processes included.
    pub cur_step: u64,
    /// Steps of the whole run.
    pub total_train_steps: u64,
    /// Steps trained by this process.
    pub trained_steps: u64,
    /// Wall seconds in `fit`.
    pub seconds: f64,
    /// What asked for the stop, if the run ended early.
    pub stopped_by: Option<String>,
    /// The newest checkpoint.
    pub checkpoint: Option<PathBuf>,
    /// Saves of this process that failed; the run went on.
    pub failed_saves: u64,
    /// The newest export of this process.
    pub export: Option<PathBuf>,
    /// Step and metrics of this process's first evaluation.
    pub first_evaluation: Option<(u64, BTreeMap<String, f64>)>,
    /// Step and metrics of its last evaluation.
    pub last_evaluation: Option<(u64, BTreeMap<String, f64>)>,
    /// The tracker line of its last step.
    pub last_metrics: BTreeMap<String, f64>,
}
