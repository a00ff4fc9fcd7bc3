//! What ends a run with an error.

use std::path::PathBuf;

use piton_agent::BoxError;

/// An error of the trainer. Whatever it says, the checkpoints that were durable before still are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is wrong.
    #[error("configuration:\n  {}", .0.join("\n  "))]
    Config(Vec<String>),
    /// The configuration differs from the run's in a way that a resume cannot follow.
    #[error(
        "the configuration differs from the one this run was started with in what a resume cannot change:\n  {}\n\
         start a new run (another work_dir, or without auto_resume), set these keys back, or, for what alters the course of \
         training only, allow the change by name (allow_change, --allow-change KEY)", .0.join("\n  ")
    )]
    ConfigChanged(Vec<String>),
    /// Producing or evaluating failed.
    #[error(transparent)]
    Agent(#[from] piton_agent::Error),
    /// The checkpoint store failed.
    #[error(transparent)]
    Checkpoint(#[from] piton_checkpoint::Error),
    /// Saving failed.
    #[error("saving step {step} failed; the checkpoints before it stand")]
    Save {
        /// The step.
        step: u64,
        /// The cause.
        #[source]
        source: BoxError,
    },
    /// The run around the training failed: its directory, lock, tracker or events.
    #[error(transparent)]
    Run(#[from] piton_run::Error),
    /// A controller failed.
    #[error("{controller}: {call} failed at step {step}")]
    Controller {
        /// "train controller" or "rollout controller".
        controller: &'static str,
        /// The call.
        call: &'static str,
        /// The step.
        step: u64,
        /// What it said.
        #[source]
        source: BoxError,
    },
    /// A state document in a checkpoint cannot be read.
    #[error("{path}: {message}")]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A step's batch came out empty.
    #[error("step {step}: no group was produced, so there is nothing to train on")]
    EmptyBatch {
        /// The step.
        step: u64,
    },
    /// Too few prompts for a batch.
    #[error(
        "train_batch_size is {batch}, more than the usable prompts of all tasks together ({prompts}): \
         write at most {prompts}, or add prompts"
    )]
    TooFewPrompts {
        /// The batch size.
        batch: usize,
        /// Usable prompts of all tasks.
        prompts: usize,
    },
    /// A file or directory could not be worked with.
    #[error("{operation} {path}")]
    Io {
        /// What was being done.
        operation: &'static str,
        /// Where.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}
