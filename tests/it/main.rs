//! End-to-end tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod architecture;
mod bad_input;
mod colocate_checkpoint;
mod damage;
mod exact;
mod failed_saves;
mod interop;
mod kill_resume;
mod signals;
mod snapshots;
mod start;
mod steps;
mod tasks;
mod two_runs;
