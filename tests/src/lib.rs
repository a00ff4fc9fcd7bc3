//! What the end-to-end tests share: fakes for the two expensive boundaries, and a small configuration around real data.

mod fakes;
mod small_run;

use std::path::PathBuf;

pub use fakes::{FakeRollout, FakeTrain, Recorded};
pub use small_run::SmallRun;

/// The repository's `fixtures` directory.
pub fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}
