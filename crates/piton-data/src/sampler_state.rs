//! What a checkpoint keeps of a sampler.

use std::fmt;
use std::num::NonZeroUsize;

use piton_rng::Seed;
use serde::{Deserialize, Serialize};

/// The state of a [`Sampler`](crate::Sampler), as `sampler.json` of a checkpoint keeps it.
///
/// Only `position` moves; the rest says which data and order it is a position in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerState {
    /// The format, [`SamplerState::VERSION`].
    pub version: u32,
    /// The task; its name enters the order.
    pub task: String,
    /// Draws so far, over all epochs.
    pub position: u64,
    /// Rows of the data set.
    pub rows: NonZeroUsize,
    /// [`Prompts::digest`](crate::Prompts::digest) of the data, or empty.
    pub dataset_digest: String,
    /// Whether each epoch has its own order, or that of the file.
    pub shuffle: bool,
    /// The seed of the run.
    pub seed: Seed,
}

/// One thing in which two sampler states differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The field, as in `sampler.json`.
    pub field: &'static str,
    /// Its value in the checkpoint.
    pub saved: String,
    /// Its value in this run.
    pub now: String,
}

impl SamplerState {
    /// The format that this version reads and writes.
    pub const VERSION: u32 = 1;

    /// Compares everything but version and position.
    pub(crate) fn differences(&self, now: &Self) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut compare = |field, saved: &dyn ToString, now: &dyn ToString| {
            let (saved, now) = (saved.to_string(), now.to_string());
            if saved != now {
                found.push(Difference { field, saved, now });
            }
        };
        compare("task", &self.task, &now.task);
        compare("rows", &self.rows, &now.rows);
        compare("dataset_digest", &self.dataset_digest, &now.dataset_digest);
        compare("shuffle", &self.shuffle, &now.shuffle);
        compare("seed", &self.seed.0, &now.seed.0);
        found
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was {} and is now {}", self.field, self.saved, self.now)
    }
}
