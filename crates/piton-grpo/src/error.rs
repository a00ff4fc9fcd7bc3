//! What can go wrong in the learner, the warm-up and the local rollout engine.

use std::path::PathBuf;

use thiserror::Error;

/// Result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything this crate refuses, with what was found and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A sample does not fit into one forward pass.
    #[error(
        "sample {rollout_id} has {tokens} tokens, prompt and response together, but pack_max_length is {limit}; \
         raise pack_max_length to {tokens} or more, or allow shorter responses"
    )]
    SampleTooLong {
        /// The sample.
        rollout_id: u64,
        /// Its length.
        tokens: usize,
        /// `pack_max_length`.
        limit: usize,
    },
    /// A sample whose arrays contradict each other; a defect of whoever made it.
    #[error("sample {rollout_id}: {fault}")]
    Sample {
        /// The sample.
        rollout_id: u64,
        /// What was found and what was expected.
        fault: String,
    },
    /// An update that is not finite, in a run that stops for it. Weights and moments are as they were before the update.
    #[error(
        "the update is not finite (loss {loss}, gradient norm {grad_norm}) and optim_cfg.on_non_finite is \"stop\"; resume with \
         \"skip\" or a lower learning rate"
    )]
    NonFinite {
        /// The loss over the update's tokens.
        loss: f64,
        /// The norm of the gradient before clipping.
        grad_norm: f64,
    },
    /// Settings that have no meaning; every bad field has its line.
    #[error("{context}:\n{}", faults.iter().map(|fault| format!("  {fault}")).collect::<Vec<_>>().join("\n"))]
    Settings {
        /// Which settings.
        context: &'static str,
        /// One line a field: its key, what was found, what to write instead.
        faults: Vec<String>,
    },
    /// A checkpoint that this learner cannot continue from.
    #[error("resume from {}: {fault}", path.display())]
    Resume {
        /// The file, or the checkpoint's directory.
        path: PathBuf,
        /// What was found, what was expected.
        fault: String,
    },
    /// A prompt that leaves no room for a response.
    #[error(
        "generate: the prompt has {prompt} tokens and context_length is {limit}, so no token of a response fits; \
         shorten or drop the prompt, or raise context_length"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// `context_length`.
        limit: usize,
    },
    /// The rollout engine does not hold the weights that the trainer believes it holds.
    #[error(
        "{operation}: the rollout engine holds the weights of train step {found}, expected those of {expected}; \
         publish them with update_weights first"
    )]
    WrongVersion {
        /// What was being done.
        operation: &'static str,
        /// Train step of the engine's weights.
        found: u64,
        /// Train step that the trainer names.
        expected: u64,
    },
    /// The rollout thread has ended, so nothing can be generated or published any more.
    #[error("{operation}: the rollout thread has ended: {reason}")]
    RolloutEnded {
        /// What was asked of it.
        operation: &'static str,
        /// Why it ended.
        reason: String,
    },
    /// The engine failed while this request was in it.
    #[error("{operation}: {reason}")]
    Engine {
        /// What was asked of it.
        operation: &'static str,
        /// The engine's message.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A warm-up that cannot begin, or ends where it should not.
    #[error("warm-up: {0}")]
    Warmup(String),
    /// Rows or tokenizer.
    #[error(transparent)]
    Data(#[from] piton_data::Error),
    /// A checkpoint's file could not be read or written.
    #[error(transparent)]
    Checkpoint(#[from] piton_checkpoint::Error),
    /// Model or engine.
    #[error(transparent)]
    Model(#[from] piton_lm::Error),
    /// Optimizer or tensor files.
    #[error(transparent)]
    Tensors(#[from] piton_torch::Error),
    /// libtorch refused an operation.
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
}
