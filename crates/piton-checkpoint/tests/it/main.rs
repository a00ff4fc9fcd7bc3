//! The store, through its public interface.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod archive;
mod archive_faults;
mod archive_kill;
mod background;
mod commit;
mod damage;
mod diff;
mod discover;
mod faults;
mod foreign;
mod format;
mod identity;
mod kill;
mod large;
mod lock;
mod pins;
mod prune;
mod retention;
mod rollback;
mod support;
mod upkeep;
