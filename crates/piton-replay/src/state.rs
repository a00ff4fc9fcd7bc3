//! A buffer as a plain value, and the checks on the way back.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::Error;

/// Everything a buffer is: the value to save, with the records in the order they were put.
///
/// To resume with another capacity, change it here before
/// [`FifoBuffer::from_state`](crate::FifoBuffer::from_state).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferState<T> {
    /// Format of this value; [`BufferState::VERSION`] when written by this crate.
    pub version: u32,
    /// How many records fit.
    pub capacity: NonZeroUsize,
    /// The uid of the next record put: more than every uid ever given, also to records long taken.
    pub next_uid: u64,
    /// `[len]` records, uids increasing.
    pub records: Vec<Record<T>>,
}

/// One group in a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record<T> {
    /// Counts puts over all tasks from 0 and is never given twice, also across restarts.
    pub uid: u64,
    /// Name of the task that the group belongs to.
    pub task: String,
    /// The group.
    pub item: T,
}

impl<T> BufferState<T> {
    /// The format that this crate reads and writes.
    pub const VERSION: u32 = 1;

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.version != Self::VERSION {
            return Err(Error::Version { found: self.version, expected: Self::VERSION });
        }
        if self.records.len() > self.capacity.get() {
            return Err(Error::OverCapacity { found: self.records.len(), capacity: self.capacity });
        }
        if let Some([before, after]) = self.records.array_windows().find(|[a, b]| a.uid >= b.uid) {
            return Err(Error::UidOrder { found: after.uid, before: before.uid });
        }
        let last = self.records.last().map(|record| record.uid);
        if last.is_some_and(|last| last >= self.next_uid) || self.next_uid >= 1 << 63 {
            return Err(Error::NextUid { found: self.next_uid });
        }
        Ok(())
    }
}
