//! What the loop says while it works; the command line draws bars from it, a test collects it.

use std::collections::BTreeMap;
use std::path::Path;

/// Something the loop reports, as it happens.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum ProgressEvent<'a> {
    /// Everything is built; the first step comes next.
    Started {
        /// Where files go.
        exp_dir: &'a Path,
        /// Completed steps so far; 0 for a new run.
        cur_step: u64,
        /// Steps of the whole run.
        total_train_steps: u64,
    },
    /// A checkpoint was passed over, or something differs from the run resumed. Worth a line on the screen.
    Warning {
        /// In words.
        text: &'a str,
    },
    /// An evaluation begins.
    Evaluating {
        /// The train step whose weights are evaluated.
        step: u64,
    },
    /// An evaluation is done.
    Evaluated {
        /// The train step whose weights were evaluated.
        step: u64,
        /// Its metrics, with the prefix `eval/`.
        metrics: &'a BTreeMap<String, f64>,
    },
    /// A train step is done and recorded.
    Step {
        /// The step.
        step: u64,
        /// Steps of the whole run.
        total_train_steps: u64,
        /// The tracker's line.
        metrics: &'a BTreeMap<String, f64>,
    },
    /// A checkpoint is durable.
    Saved {
        /// Its step.
        step: u64,
        /// Where it is.
        path: &'a Path,
    },
    /// An export is durable.
    Exported {
        /// Its step.
        step: u64,
        /// Where it is.
        path: &'a Path,
    },
    /// The run stopped early and its state is durable.
    SavedAfterStop {
        /// The last completed step.
        step: u64,
        /// The checkpoint that holds it.
        path: &'a Path,
        /// What asked for the stop.
        reason: &'a str,
    },
}

/// Receives [`ProgressEvent`]s.
pub trait Progress {
    /// Takes one event; must not block for long.
    fn event(&mut self, event: ProgressEvent<'_>);
}

/// Says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn event(&mut self, _event: ProgressEvent<'_>) {}
}
