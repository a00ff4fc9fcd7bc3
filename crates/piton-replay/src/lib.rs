//! Bounded, serialisable replay buffers, generic over the item.
//!
//! What is put in is a *group* (in RL: all answers to one prompt), whatever type the caller has for it.
//!
//! ```text
//!              put(task, item) -> uid                         take(task, n) -> at most n items, oldest first
//!   producer ───────────────────────> "chain-sum": 4 7 8  ───────────────────────────────────> trainer
//!                                     "sorting":   5 6
//!              Full { item } when capacity is reached         state() <-> from_state(): a plain value
//! ```
//!
//! ```
//! use std::num::NonZeroUsize;
//! use piton_replay::FifoBuffer;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut buffer = FifoBuffer::new(NonZeroUsize::new(3).ok_or("zero")?);
//! for group in ["a", "b", "c"] {
//!     buffer.put("chain-sum", group.to_owned())?;
//! }
//! let refused = buffer.put("chain-sum", "d".to_owned()).unwrap_err();
//! assert_eq!(refused.item, "d"); // nothing is lost: the item comes back
//! assert_eq!(buffer.take("chain-sum", 2), ["a", "b"]);
//!
//! let saved = serde_json::to_string(&buffer.state())?;
//! let mut resumed = FifoBuffer::from_state(serde_json::from_str(&saved)?)?;
//! assert_eq!(resumed.put("chain-sum", "d".to_owned())?, 3); // uids go on, they never restart
//! assert_eq!(resumed.take("chain-sum", 9), ["c", "d"]);
//! # Ok(())
//! # }
//! ```
//!
//! The same contents give the same bytes in any serde format, however the buffer came to hold them.
//!
//! # What it does not do
//!
//! It does not lock, wait or wake anyone: wrap it in the mutex or channel of your runtime. It writes no files; hand
//! `state()` to a checkpoint store. It does not look into items, so it knows neither rewards nor policy versions.

mod error;
mod fifo;
mod state;

pub use error::{Error, Full};
pub use fifo::FifoBuffer;
pub use state::{BufferState, Record};
