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
//!         stage.write_json("train_state.json", &serde_json::json!({ "cur_step": step }))
//!     })?;
//!     store.prune(Keep::Last(NonZeroUsize::MIN), &BTreeSet::new())?;
//! }
//! let latest = store.latest()?.expect("three were saved"); // every byte was checked
//! assert_eq!(latest.step(), 3);
//! assert_eq!(latest.read("weights/model.bin")?, [7; 100]); // and again, before it is returned
//! assert_eq!(store.reader().steps()?, [3]);
//! # Ok(())
//! # }
//! ```
//!
//! When [`Store::save`] returns `Ok`, the checkpoint survives a power cut. Until then nothing of it is visible. A kill
//! or a full disk at any moment leaves the earlier ones as they were, and the next [`Store::open`] cleans up.
//! [`Store::latest`] never returns damaged bytes, and if checkpoints exist but none is whole, that is an error.
//!
//! # On disk
//!
//! ```text
//! <root>/
//!   ckpt-step-12/                    committed; the name matches ^ckpt-step-(0|[1-9][0-9]*)$ and fits 64 bits
//!     MANIFEST.json                  written last
//!     train_state.json               any files, at any depth
//!     weights/model.safetensors
//!   pins/ckpt-step-3.keep            never pruned; holds a note for people
//!   .store.json                      layout version and run id; another run is refused, see [`StoreOptions::adopt`]
//!   .store.lock                      flock of the one writer; says who it is; never removed
//!   .tmp-ckpt-step-13-<run>-<pid>-<n>/     a save in progress, or what a kill left of one
//!   .trash-ckpt-step-3-<run>-<pid>-<n>/    being deleted
//!   .tmp-file-<run>-<pid>-<n>              a small file on its way
//!   abandoned-12-1/ckpt-step-14/     set aside by a rollback to step 12; never deleted
//!   anything else                    not ours: never read, moved or deleted
//! ```
//!
//! There is no index: the directory is the list, ordered by number. `<run>` is the first 8 hex digits of the BLAKE3 of
//! the run id. Modes follow the umask.
//!
//! `MANIFEST.json`, format 2, is UTF-8 JSON, indented by two spaces, members in this order:
//!
//! | member | |
//! |---|---|
//! | `format` | 2. A reader refuses a higher number and ignores members it does not know |
//! | `run_id`, `config_digest` | text, as the caller gave them |
//! | `step` | equals the number in the directory's name |
//! | `parent_step` | the newest valid step when it was written, or `null` |
//! | `created_unix_ms` | for people and for [`Keep::Within`]; nothing sorts by it |
//! | `environment` | text by name: what exact resumption depends on |
//! | `metrics` | numbers by name, all finite: what [`Keep::Best`] compares |
//! | `files` | ascending by path (bytewise), each `path`, `size` in bytes, `blake3` of the whole, and for a file over 4 MiB `chunks`: for each 4 MiB the chaining value of that subtree of the file's BLAKE3 |
//! | `self_blake3` | the BLAKE3 of every byte before this member's line |
//!
//! Digests are 64 lower-case hex digits. The file ends in exactly the line `  "self_blake3": "<digest>"`, a `}` and a
//! newline, so that no bit of it can change unseen. Paths are relative, `/`-separated, at most 16 components deep, none
//! of them starting with a dot. Files that the manifest does not list are reported by [`Checkpoint::verify`] and
//! otherwise ignored. Only the manifest depends on the clock, the run or the attempt: equal states are equal files.
//!
//! The chunk values merge to the whole one, so each byte is hashed once, on as many threads as there are chunks. Format 1,
//! which is read for ever, had no `metrics`, and its `chunks` were the BLAKE3 of each 4 MiB by itself.
//!
//! `fixtures/checkpoints/make_v1.py` and `make_v2.py` are second implementations, in Python; what they wrote is loaded by
//! tests for ever.
//!
//! # A commit, in order
//!
//! 1. Make the stage beside the checkpoints. Write and hash each file. Sync each file.
//! 2. Write the manifest, sync it. Sync every directory of the stage from below.
//! 3. Rename the stage to its name with `RENAME_NOREPLACE` (or swap it with the old one, for [`Overwrite::Exchange`]).
//! 4. Sync the root. Now it is durable, and `save` returns.
//!
//! A file whose fsync failed is never synced again, since the kernel may have dropped its pages: the save fails, and
//! the next one writes new files. Pruning renames to `.trash-`, syncs the root and only then deletes; it removes nothing
//! unless a newer checkpoint stands that this process committed or has read in full.
//!
//! # What stays
//!
//! [`Store::prune`] takes a [`Retention`], reasons to keep a checkpoint, as values or as text:
//!
//! | | text | value |
//! |---|---|---|
//! | all of them | `all` | [`Keep::All`] |
//! | the newest three | `3`, `last 3` | [`Keep::Last`] |
//! | every thousandth step | `every 1000` | [`Keep::EverySteps`] |
//! | the last day's | `last 24h` | [`Keep::Within`] |
//! | the best two by a metric given to [`Stage::metric`] | `best 2 by return`, `best 2 by lowest loss` | [`Keep::Best`] |
//! | whatever any of these keeps | `last 3, every 1000` | [`Keep::or`] |
//!
//! The newest valid checkpoint stays whatever they say, `0` and `-1` are errors that say to write `all`, and while one is
//! being saved the disk holds it beside those that stay. [`plan`] decides without a disk and gives every reason for every
//! step; [`Reader::plan`] shows what a prune would do. [`Reader::pin`] keeps a checkpoint from every policy until it is
//! unpinned, beside a running writer and in every copy of the store; [`Checkpoint::pin`] does so while a process reads
//! it, and dies with that process. `piton checkpoint` (crate `piton`) does all this from a shell: `ls`, `verify`, `fsck`,
//! `diff`, `prune --dry-run`, `pin`, `unpin`.
//!
//! # Archives in pairs
//!
//! [`Archives`] is for a model that other programs load as one zip, as Stable-Baselines3 does:
//!
//! ```text
//! <dir>/
//!   q3_ckpt_000000064.zip      the number is the caller's, at least 9 digits; [`StoredZip`] writes such a zip
//!   q3_ckpt_000000064.json     the caller's metadata, model_sha256 and three more members, see [`Archives::save`]
//!   q3.zip, q3.json            the final pair, replaced at each save
//!   .q3.lock                   flock of the one writer of this name; never removed
//!   .q3.tmp-<pid>-<n>          a file on its way
//!   .q3.prev.json              the former JSON, while a pair is being replaced
//! ```
//!
//! Both files are written and synced, then the JSON gets its name, then the zip, then the directory is synced: whoever
//! sees the zip sees its JSON. A replacement keeps the former JSON until it is durable, so [`ArchiveReader`] gets the old
//! pair or the new one at every moment; another program that looks between the two renames sees a `model_sha256` that does
//! not fit, and should look again. [`Archives::prune`] removes zips first, then their JSONs; [`prune_archives`] does it by
//! name alone. `fixtures/archives/make_v1.py` is the second implementation.
//!
//! For a snapshot test of your own, [`render`] turns a checkpoint into text that is equal on every machine; its page has an
//! example with `insta` to copy.
//!
//! # In the background
//!
//! [`BackgroundStore`] saves on a thread of its own: `save` copies what the caller writes into memory that is kept from
//! save to save and returns a [`SaveHandle`], to be awaited, waited for or dropped. [`Stage::link_from`] gives a file that
//! did not change, such as a sealed segment of a replay buffer, a second name instead of a second copy. Files over 1 MiB
//! are written past the page cache where the file system allows it, hashed beside the writing.
//!
//! # Measured
//!
//! `cargo bench -p piton-checkpoint --bench throughput`: 1 GiB, best of 5, each beside its limit in one run on two cores
//! with a load of 1 to 3 (2026-12-01, ext4):
//!
//! | | | beside |
//! |---|---|---|
//! | `save`, durable and hashed | 1.97 GB/s | 2.10 GB/s of bare writes past the cache and one fsync: 94 % |
//! | `latest`, every byte checked | 2.11 GB/s | more than bare reads past the cache at the same time (1.23 GB/s) |
//! | `save` in the background, until it returns | 102 ms | 90 ms of a warm memcpy: 1.13 times |
//! | five files of 100 kB, durable | 1.99 ms | 1.48 ms of the bare writes, fsyncs and rename: 1.34 times |
//! | memory beyond the state, in the background | 1.03 times the state | |
//!
//! That memory is for one file; for 100 of 1.15 MB, 60 of 3 MB, 40 of 6 MB and 200 of 1 MB it is 1.02 to 1.05 times the
//! state. The end of a file that would leave most of a 4 MiB buffer unused is copied to memory of its own size, which is
//! not kept: put a state into few files where the stall matters.
//!
//! With 100,000 names of others in the root (`--bench listing`, load 2, median of 100), `latest` takes 41 ms and so does
//! `open`; without them 0.04 ms and 1.1 ms. The crate's README has what kills, faults
//! and power cuts did to the store and to others.
//!
//! # Not here
//!
//! No tensors (a checkpoint is files; [`render`] and [`diff`] alone look into safetensors), no network file systems as a
//! target (their fsync and rename promise less), no clock, no policy for when to save, and no Windows. A plain [`Store`]
//! has a thread for the duration of a large save only.

mod abandon;
mod archive;
mod background;
mod buffer;
mod checkpoint;
mod damage;
mod diff;
mod dir;
mod error;
mod file;
mod hash;
mod hook;
mod identity;
mod lock;
mod manifest;
mod name;
mod options;
mod pins;
mod pipe;
mod prune;
mod reader;
mod render;
mod retention;
mod safetensors;
mod save;
mod seal;
mod slot;
mod stage;
mod store;
mod survey;
mod syscall;
mod verify;

pub use archive::{
    Archive, ArchiveFile, ArchiveOptions, ArchiveReader, Archives, FoundArchive, PairDamage, PairId,
    RejectedPair, StoredZip, prune_archives,
};
pub use background::BackgroundStore;
pub use checkpoint::{Checkpoint, Pin};
pub use damage::{BadFile, Damage, ManifestDamage, Reason, Rejected};
pub use diff::{FileChange, TensorChange, diff};
pub use error::{Error, SaveError};
pub use hash::CHUNK_BYTES;
pub use hook::{FileHook, Op, Verdict};
pub use identity::Identity;
pub use manifest::{FORMAT, FileEntry, Manifest};
pub use name::{MANIFEST, check_path, checkpoint_name, parse_checkpoint_name};
pub use options::StoreOptions;
pub use prune::Pruned;
pub use reader::{Discovery, Reader};
pub use render::{RenderOptions, render};
pub use retention::{Keep, Listed, Order, Plan, Retention, RetentionError, Why, plan};
pub use save::Overwrite;
pub use slot::{SaveHandle, Saved};
pub use stage::{Stage, StageFile};
pub use store::{Store, free_bytes};
pub use survey::Survey;
pub use verify::Report;
