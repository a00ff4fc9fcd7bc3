//! The prompts of a data set as token ids.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use piton_rng::Seed;
use rayon::prelude::*;

use crate::dataset::hash_row;
use crate::fault::{Fault, Place};
use crate::{Dataset, Error, Faults, Row, Sampler, Tokenizer};

/// The rows of a data set whose prompts fit, with the ids of each prompt; at least one.
#[derive(Clone, Debug)]
pub struct Prompts {
    path: PathBuf,
    kept: Vec<Prompt>,
    counts: Counts,
    digest: String,
}

/// One row with its prompt as token ids.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// The row.
    pub row: Row,
    /// The line of the file it stands in, from 1.
    pub line: usize,
    /// Ids of the rendered conversation, with the assistant's turn opened.
    pub token_ids: Vec<u32>,
}

/// What became of the rows of a file: `read = kept + skipped`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Rows of the file.
    pub read: usize,
    /// Rows that are used.
    pub kept: usize,
    /// Rows left out because the prompt is longer than `max_length` tokens.
    pub skipped: usize,
}

impl Prompts {
    /// Renders and tokenizes every prompt, in parallel, and leaves out those over `max_length` tokens.
    ///
    /// Say the [`counts`](Self::counts) to the user: rows are left out silently here.
    ///
    /// # Errors
    /// [`Error::Rows`] naming every line whose prompt the chat template refuses or renders to nothing;
    /// [`Error::AllTooLong`] when nothing is left; [`Error::NoTemplate`].
    pub fn tokenize(
        dataset: &Dataset,
        tokenizer: &Tokenizer,
        max_length: Option<usize>,
    ) -> Result<Self, Error> {
        let encoded: Vec<_> =
            dataset.rows().par_iter().map(|row| tokenizer.encode_chat(&row.prompt, true)).collect();
        let mut lengths = Vec::with_capacity(encoded.len());
        let (mut kept, mut faults) = (Vec::new(), Faults::default());
        for (index, (ids, row)) in encoded.into_iter().zip(dataset.rows()).enumerate() {
            let line = index + 1;
            match ids {
                Ok(ids) if ids.is_empty() => faults.push(no_tokens(line)),
                Ok(token_ids) => {
                    lengths.push(token_ids.len());
                    if max_length.is_none_or(|limit| token_ids.len() <= limit) {
                        kept.push(Prompt { row: row.clone(), line, token_ids });
                    }
                }
                Err(Error::NoTemplate { path }) => return Err(Error::NoTemplate { path }),
                Err(error) => faults.push(refused(line, &error)),
            }
        }
        let path = dataset.path().to_path_buf();
        if faults.total > 0 {
            return Err(Error::Rows { path, faults });
        }
        let rows = dataset.len();
        if let (true, Some(max_length), Some(shortest)) =
            (kept.is_empty(), max_length, lengths.into_iter().min())
        {
            return Err(Error::AllTooLong { path, rows, max_length, shortest });
        }
        let counts = Counts { read: rows, kept: kept.len(), skipped: rows - kept.len() };
        let digest = digest(&kept);
        Ok(Self { path, kept, counts, digest })
    }

    /// The file the prompts come from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The prompts in the order of the file.
    #[must_use]
    pub fn as_slice(&self) -> &[Prompt] {
        &self.kept
    }

    /// How many prompts there are, at least one.
    #[expect(clippy::len_without_is_empty, reason = "prompts without a single one cannot be made")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// How many rows were read, kept and skipped.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The BLAKE3 hash of the kept rows and their token ids, in hexadecimal.
    ///
    /// So it sees a change of the data, of `max_length`, of the tokenizer and of the chat template.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Makes a shuffling sampler of these prompts that carries their digest.
    #[must_use]
    pub fn sampler(&self, task: impl Into<String>, seed: Seed) -> Sampler {
        let rows = NonZeroUsize::new(self.len()).expect("prompts are at least one: checked in tokenize");
        Sampler::new(task, rows, seed).with_digest(&self.digest)
    }
}

fn digest(prompts: &[Prompt]) -> String {
    let mut hasher = blake3::Hasher::new();
    for prompt in prompts {
        hash_row(&mut hasher, &prompt.row);
        hasher.update(&(prompt.token_ids.len() as u64).to_le_bytes());
        for id in &prompt.token_ids {
            hasher.update(&id.to_le_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}

fn no_tokens(line: usize) -> Fault {
    Fault {
        line,
        place: Place::Field("prompt".into()),
        found: "a prompt of no tokens".into(),
        expected: "at least one".into(),
        fix: "write a message, or correct the chat template".into(),
    }
}

fn refused(line: usize, error: &Error) -> Fault {
    let found = match error {
        Error::Render { path, reason } => {
            format!("a conversation that {} refuses ({reason})", path.display())
        }
        other => other.to_string(),
    };
    Fault {
        line,
        place: Place::Field("prompt".into()),
        found,
        expected: "one that the chat template accepts".into(),
        fix: "change the messages or the template".into(),
    }
}
