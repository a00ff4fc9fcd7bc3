//! What can go wrong: a full buffer, a damaged state.

use std::fmt;
use std::num::NonZeroUsize;

/// The buffer is full; the item that was to be put comes back.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("put into replay buffer: it is full at {capacity} groups; take some first or raise its capacity")]
pub struct Full<T> {
    /// What was not put.
    pub item: T,
    /// How many groups the buffer holds at most.
    pub capacity: NonZeroUsize,
}

/// Without the item, which can be large and need not have `Debug`.
impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Full").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

/// Why a saved state was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Written in another format.
    #[error(
        "load replay buffer: found version {found}, expected {expected}; load it with the release that wrote it"
    )]
    Version {
        /// The version in the state.
        found: u32,
        /// The version this crate reads and writes.
        expected: u32,
    },
    /// More records than the capacity allows.
    #[error(
        "load replay buffer: found {found} records, expected at most {capacity}, its capacity; raise `capacity`"
    )]
    OverCapacity {
        /// Records in the state.
        found: usize,
        /// Capacity in the state.
        capacity: NonZeroUsize,
    },
    /// Uids do not strictly increase along `records`.
    #[error(
        "load replay buffer: uid {found} stands after {before}, expected uids to increase; the state is damaged"
    )]
    UidOrder {
        /// The uid out of order.
        found: u64,
        /// The uid of the record before it.
        before: u64,
    },
    /// `next_uid` would give a uid again, or is so large that it cannot have been counted up to.
    #[error(
        "load replay buffer: next_uid is {found}, expected more than the last uid and less than 2^63; \
         the state is damaged"
    )]
    NextUid {
        /// `next_uid` in the state.
        found: u64,
    },
}
