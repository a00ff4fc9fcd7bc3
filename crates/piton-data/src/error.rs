//! Everything that can go wrong in this crate.

use std::io;
use std::path::PathBuf;

use crate::{Difference, Faults};

/// Everything that can go wrong in this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}; check that the file exists and may be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A prompt file has no line at all.
    #[error(
        "no prompts in {path}: found an empty file, expected one JSON object a line; check how the file was made"
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Lines of a prompt file that are no rows; all of them, up to [`crate::FAULTS_KEPT`].
    #[error("cannot use the prompts in {path}: {faults}")]
    Rows {
        /// The file.
        path: PathBuf,
        /// What is wrong where.
        faults: Faults,
    },
    /// A file of a tokenizer directory is missing a part, or has a wrong one.
    #[error("cannot use the tokenizer file {path}: found {found}, expected {expected}; {fix}")]
    TokenizerFile {
        /// The file.
        path: PathBuf,
        /// What is there.
        found: String,
        /// What should be there.
        expected: String,
        /// What to do about it.
        fix: String,
    },
    /// Text that the tokenizer cannot encode, or token ids it cannot decode.
    #[error("cannot {operation} with the tokenizer in {path}: {reason}")]
    Tokenize {
        /// `encode` or `decode`.
        operation: &'static str,
        /// The tokenizer's directory.
        path: PathBuf,
        /// What the tokenizer said.
        reason: String,
    },
    /// The chat template refuses a conversation.
    #[error("cannot render a conversation with the chat template of {path}: {reason}")]
    Render {
        /// Where the template stands.
        path: PathBuf,
        /// What the template said, with its line.
        reason: String,
    },
    /// A tokenizer directory without a chat template was asked for one.
    #[error(
        "no chat template in {path}: found neither chat_template.jinja nor `chat_template` in tokenizer_config.json; \
         add one of them"
    )]
    NoTemplate {
        /// The tokenizer's directory.
        path: PathBuf,
    },
    /// Every prompt of a file is over the limit.
    #[error(
        "no prompts left of {path}: all {rows} are longer than max_length = {max_length} tokens; \
         the shortest has {shortest}, so raise max_length to at least that"
    )]
    AllTooLong {
        /// The file.
        path: PathBuf,
        /// How many rows it has.
        rows: usize,
        /// The limit, in tokens.
        max_length: usize,
        /// The length of the shortest prompt, in tokens.
        shortest: usize,
    },
    /// A batch that needs more different prompts than there are.
    #[error(
        "too few prompts for task {task}: found {rows}, expected at least train_batch_size = {batch}; \
         add rows, raise max_length, or set train_batch_size to {rows} or less"
    )]
    FewerRowsThanBatch {
        /// The task.
        task: String,
        /// How many prompts there are.
        rows: usize,
        /// How many a step takes.
        batch: usize,
    },
    /// A saved sampler state that belongs to other data or another order.
    #[error(
        "cannot resume the sampler of task {task}: {}; go back to the data and settings of the run, \
         or accept the change explicitly, and its position is kept", list(.differences)
    )]
    SamplerChanged {
        /// The task.
        task: String,
        /// Everything that differs.
        differences: Vec<Difference>,
    },
    /// A saved sampler state of a format that this version does not know.
    #[error(
        "cannot resume the sampler of task {task}: found state version {found}, expected {expected}; use the version that wrote it"
    )]
    SamplerVersion {
        /// The task.
        task: String,
        /// The version in the state.
        found: u32,
        /// The version this crate writes.
        expected: u32,
    },
}

fn list(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
