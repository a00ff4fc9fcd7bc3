//! What can go wrong with a model, a model directory or a batch.

use std::path::PathBuf;

use thiserror::Error;

/// Result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything this crate refuses, with what was found and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was attempted: `read`, `write`, `create`, `list`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A config.json is not valid JSON or lacks a field.
    #[error("{}: {reason}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Every fault found, joined by `; `.
        reason: String,
    },
    /// A value of the configuration that this crate does not compute.
    #[error("unsupported model configuration: {0}")]
    Unsupported(String),
    /// Tensors of a model do not match its configuration; all faults are listed.
    #[error("{origin}: the weights do not fit the configuration:\n{}", faults.iter().map(|fault| format!("  {fault}")).collect::<Vec<_>>().join("\n"))]
    Weights {
        /// Where the tensors came from: a path, or `weights in memory`.
        origin: String,
        /// One line a fault: name, expected, found.
        faults: Vec<String>,
    },
    /// A tokenizer can produce ids for which the model has no embedding row.
    #[error("the tokenizer can produce ids up to {largest}, but the model has {rows} embedding rows (ids 0 to {}); use the tokenizer the model was made with, or a model with vocab_size of at least {}", rows.saturating_sub(1), largest + 1)]
    Tokenizer {
        /// Largest id that the tokenizer can produce.
        largest: usize,
        /// `vocab_size` of the model.
        rows: usize,
    },
    /// A request that no model could serve: an empty prompt, an id out of range, a length past the limit.
    #[error("{0}")]
    Input(String),
    /// The tensor glue refused something.
    #[error(transparent)]
    Glue(#[from] piton_torch::Error),
    /// libtorch refused an operation.
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
