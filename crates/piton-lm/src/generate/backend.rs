//! What the scheduler asks of a device: rows of several sequences, computed in one forward.

use rayon::ThreadPool;

use super::sampling::{Choice, Sampled};
use crate::{Result, Weights};

/// Weights on a device, and the arithmetic.
pub(crate) trait Backend {
    /// Keys and values of one sequence or one shared prompt.
    type Cache: std::fmt::Debug + Send + Sync;

    /// A cache of no positions.
    fn empty_cache(&mut self) -> Result<Self::Cache>;

    /// Takes back a cache that nothing refers to.
    fn give_back(&mut self, cache: Self::Cache);

    /// Copies `weights` in place.
    fn load(&mut self, weights: &Weights) -> Result<()>;

    /// Runs the rows of all `units`, extends their caches, and gives the last row's logits to each unit's head.
    fn forward(&mut self, pool: &ThreadPool, units: &mut [Unit<'_, Self::Cache>]) -> Result<()>;
}

/// Consecutive tokens of one sequence: its rows in a forward.
#[derive(Debug)]
pub(crate) struct Unit<'a, C> {
    /// At least one.
    pub(crate) tokens: &'a [u32],
    /// The shared prompt before them and its length; absent for the rows of a prompt.
    pub(crate) prompt: Option<(&'a C, usize)>,
    /// Positions already in `cache`.
    pub(crate) cached: usize,
    /// Gets the rows' keys and values.
    pub(crate) cache: &'a mut C,
    /// What the last row is for.
    pub(crate) head: Head<'a>,
}

/// What becomes of the logits of a unit's last row.
#[derive(Debug)]
pub(crate) enum Head<'a> {
    /// They are not wanted: more of the sequence follows in a later forward.
    Skip,
    /// They are kept for every sample of the prompt.
    Keep(&'a mut Vec<f32>),
    /// A token is chosen; `None` stays when they are not finite.
    Sample(Choice<'a>, &'a mut Option<Sampled>),
}

impl<C> Unit<'_, C> {
    /// The sequence position of the first of `tokens`.
    pub(crate) fn position(&self) -> usize {
        self.cached + self.prompt.as_ref().map_or(0, |(_, length)| *length)
    }
}

impl Head<'_> {
    pub(crate) fn wants_logits(&self) -> bool {
        !matches!(self, Self::Skip)
    }

    pub(crate) fn take(&mut self, logits: &[f32], scratch: &mut Vec<f32>) {
        match self {
            Self::Skip => {}
            Self::Keep(kept) => {
                kept.clear();
                kept.extend_from_slice(logits);
            }
            Self::Sample(choice, sampled) => **sampled = choice.pick(logits, scratch),
        }
    }
}
