//! What can go wrong while producing.

use std::path::PathBuf;

use crate::rollout::BoxError;

/// Why one group failed. It is dropped, counted and replaced; the run goes on.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// The rollout controller failed.
    #[error("generating sample {rollout_id} failed")]
    Generate {
        /// The sample.
        rollout_id: u64,
        /// What the controller said.
        #[source]
        source: BoxError,
    },
    /// The controller answered something that cannot be trained on.
    #[error("the answer to sample {rollout_id} cannot be used: {reason}")]
    Answer {
        /// The sample.
        rollout_id: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The judger failed.
    #[error("judging sample {rollout_id} failed")]
    Judge {
        /// The sample.
        rollout_id: u64,
        /// What the judger said.
        #[source]
        source: BoxError,
    },
    /// The judger took too long.
    #[error("judging sample {rollout_id} took longer than {seconds} s")]
    JudgeTimeout {
        /// The sample.
        rollout_id: u64,
        /// The judger's limit.
        seconds: f64,
    },
    /// The whole group took too long.
    #[error("group {group_id} was not finished after {seconds} s (rollout_config.rollout_timeout)")]
    GroupTimeout {
        /// The group.
        group_id: u64,
        /// The limit.
        seconds: f64,
    },
}

/// Why a manager could not be built, restored, or produce.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error("configuration:\n  {}", .0.join("\n  "))]
    Config(Vec<String>),
    /// The data of a task cannot be used.
    #[error("task {task:?}")]
    Data {
        /// The task.
        task: String,
        /// What is wrong, with file and line.
        #[source]
        source: Box<piton_data::Error>,
    },
    /// Prompts are over the limit, and the configuration says that none may be.
    #[error("task {task:?}: {message}")]
    TooLong {
        /// The task.
        task: String,
        /// How many, of which file, and what to do.
        message: String,
    },
    /// A saved state does not belong to this configuration.
    #[error("task {task:?}: the saved state does not fit: {message}")]
    State {
        /// The task.
        task: String,
        /// What differs.
        message: String,
    },
    /// Group after group failed.
    #[error("task {task:?}: {failed} groups failed one after the other; the last one: {last}")]
    TooManyFailures {
        /// The task.
        task: String,
        /// How many.
        failed: usize,
        /// The last error, with its causes.
        last: String,
    },
    /// The rollout controller refused a call.
    #[error("rollout controller: {call} failed")]
    Controller {
        /// The call.
        call: &'static str,
        /// What it said.
        #[source]
        source: BoxError,
    },
    /// The buffer is full.
    #[error("the replay buffer is full at {capacity} groups: raise its capacity or lower train_batch_size")]
    BufferFull {
        /// Its capacity.
        capacity: usize,
    },
    /// The async runtime could not be started.
    #[error("starting the runtime for agent loops failed")]
    Runtime(#[source] std::io::Error),
    /// A tokenizer directory cannot be used.
    #[error("tokenizer directory {path}")]
    Tokenizer {
        /// The directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<piton_data::Error>,
    },
}

/// An error with all its causes on one line.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
