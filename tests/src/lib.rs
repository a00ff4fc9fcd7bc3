//! What the end-to-end tests share: fakes for the two expensive boundaries, a small configuration around real data, and the real
//! trainer as a process.

mod fakes;
mod outcome;
mod process;
mod small_run;
mod trainer;

use std::path::PathBuf;

pub use fakes::{FakeRollout, FakeTrain, Recorded};
pub use outcome::{Outcome, assert_same_end};
pub use process::{Ended, Receiver, Running};
pub use small_run::SmallRun;
pub use trainer::{Trainer, program};

/// The repository's `fixtures` directory.
pub fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}

/// A number that the environment gives a test, to make it longer by hand.
///
/// # Panics
/// When it is not a number.
pub fn from_env(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// The README's examples run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[derive(Debug)]
pub struct Readme;
