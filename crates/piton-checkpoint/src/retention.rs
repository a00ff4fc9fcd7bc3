//! Which checkpoints to keep: a decision without a disk.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

/// How many checkpoints to keep. Zero cannot be said: the last good one is never deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// Every one.
    All,
    /// The newest so many.
    Last(NonZeroUsize),
}

/// The decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Steps that stay.
    pub keep: BTreeSet<u64>,
    /// Steps that go, ascending: the oldest first.
    pub remove: BTreeSet<u64>,
}

/// Divides the `valid` steps. `pinned` ones stay in addition to what `keep` says.
///
/// ```
/// use piton_checkpoint::{Keep, plan};
/// let valid = [9, 10, 11].into();
/// let plan = plan(&valid, Keep::Last(1.try_into()?), &[9].into());
/// assert_eq!(plan.remove, [10].into());
/// # Ok::<(), std::num::TryFromIntError>(())
/// ```
pub fn plan(valid: &BTreeSet<u64>, keep: Keep, pinned: &BTreeSet<u64>) -> Plan {
    let count = match keep {
        Keep::All => valid.len(),
        Keep::Last(count) => count.get(),
    };
    let mut kept: BTreeSet<u64> = valid.iter().rev().take(count).copied().collect();
    kept.extend(valid.intersection(pinned));
    let remove = valid.difference(&kept).copied().collect();
    Plan { keep: kept, remove }
}
