//! Checkpoint directories that are complete or absent.
//!
//! ```
//! use std::{collections::BTreeSet, num::NonZeroUsize};
//! use piton_checkpoint::{Error, Keep, Overwrite, Store, StoreOptions};
//!
//! # fn main() -> Result<(), Error> {
//! # let temp = tempfile::tempdir().unwrap();
//! # let root = temp.path().join("checkpoints");
//! let now_unix_ms = || 1_700_000_000_000; // your clock
//! let mut store = Store::open(&root, StoreOptions::new("run-1", "config-digest", now_unix_ms))?;
//! for step in 1..=3 {
//!     store.save(step, Overwrite::Refuse, |stage| -> Result<(), Error> {
//!         stage.write("weights/model.bin", &[7; 100])?;
//!         stage.write_json("train_state.json", &[("cur_step", step)])
//!     })?;
//!     store.prune(Keep::Last(NonZeroUsize::MIN), &BTreeSet::new())?;
//! }
//! let latest = store.latest()?.expect("three were saved");
//! assert_eq!(latest.step(), 3);
//! assert_eq!(latest.read("weights/model.bin")?, [7; 100]); // hash checked
//! assert_eq!(store.reader().steps()?, [3]);
//! # Ok(())
//! # }
//! ```

mod abandon;
mod checkpoint;
mod damage;
mod dir;
mod error;
mod file;
mod hash;
mod hook;
mod lock;
mod manifest;
mod name;
mod options;
mod prune;
mod reader;
mod render;
mod retention;
mod safetensors;
mod save;
mod seal;
mod stage;
mod store;
mod syscall;
mod verify;

pub use checkpoint::{Checkpoint, Pin};
pub use damage::{BadFile, Damage, ManifestDamage, Reason, Rejected};
pub use error::{Error, SaveError};
pub use hash::CHUNK_BYTES;
pub use hook::{FileHook, Op, Verdict};
pub use manifest::{FORMAT, FileEntry, Manifest};
pub use name::{MANIFEST, check_path, checkpoint_name, parse_checkpoint_name};
pub use options::StoreOptions;
pub use prune::Pruned;
pub use reader::{Discovery, Reader};
pub use render::{RenderOptions, render};
pub use retention::{Keep, Plan, plan};
pub use save::Overwrite;
pub use stage::{Stage, StageFile};
pub use store::{Store, free_bytes};
pub use verify::Report;
