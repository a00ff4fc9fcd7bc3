//! The run around a training job: directory, lock, stop signals, trackers, events, environment record.
//!
//! ```text
//! <work_dir>/
//!   run.lock                            RunLock: one run per work_dir
//!   meta.json                           Meta: cache, rebuilt from the tree
//!   20261130204824/                     Experiment: one exp_dir, resumed in place
//!     logs/exp_tracking/tracker.jsonl   JsonlTracker: {"step":3,"loss":0.25}, each step once
//!     logs/events.jsonl                 EventLog: {"time":"...","event":"save","step":3,...}
//!     logs/environment.json             EnvironmentRecord
//!     train_rollout/train_rollout_3.jsonl     write_lines_atomic; set_aside_after cuts back
//! ```
//!
//! ```
//! use piton_run::{Experiment, FixedClock, Holder, JsonlTracker, Keep, Metrics, RunLock, Stop, experiments};
//!
//! # let tmp = tempfile::tempdir()?;
//! # let work_dir = tmp.path();
//! let clock = FixedClock::new("2026-11-30T20:48:24Z".parse()?);
//! let stop = Stop::manual(); // in a program: Stop::install()?
//! let _lock = RunLock::acquire(work_dir, &Holder::this_process("demo", &clock))?;
//! let experiment = Experiment::create(work_dir, piton_run::Clock::now(&clock))?;
//! let mut tracker = JsonlTracker::open(&experiment.tracker_path(), Keep::All)?;
//! for step in 1..=3 {
//!     tracker.append(step, &Metrics::from([("loss".to_owned(), 1.0 / step as f64)]))?;
//!     if stop.is_requested() { break; }
//! }
//!
//! // Later: the newest experiment, resumed from its checkpoint of step 2.
//! let newest = &experiments(work_dir)?[0];
//! assert_eq!(newest.name(), "20261130204824");
//! let tracker = JsonlTracker::open(&newest.tracker_path(), Keep::UpTo(2))?;
//! assert_eq!(tracker.steps(), [1, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It deliberately does not write or judge checkpoints (`piton-checkpoint` does), draw progress bars, start threads
//! or read the environment; the clock is read in [`clock`] alone. Unix only.

pub mod clock;
pub mod config;

mod atomic;
mod cut;
mod environment;
mod error;
mod events;
mod experiment;
mod lock;
mod meta;
mod signals;
mod space;
mod stop;
mod tracker;
mod trajectory;
mod worker;

pub use atomic::{sweep_temporaries, write_atomic, write_lines_atomic};
pub use clock::{Clock, FixedClock, SystemClock};
pub use cut::Keep;
pub use environment::EnvironmentRecord;
pub use error::{Error, Result};
pub use events::{Event, EventLog, TimedEvent, read_events};
pub use experiment::{Experiment, experiments};
pub use lock::{Holder, RunLock};
pub use meta::{ExpInfo, Meta};
pub use signals::{StopSignal, block_stop_signals, pending_stop_signal, unblock_stop_signals};
pub use space::free_bytes;
pub use stop::{SAME_REQUEST_MS, Stop, StopReason};
pub use tracker::{JsonlTracker, Metrics, Repair, Tracker};
pub use trajectory::set_aside_after;
pub use worker::Worker;
