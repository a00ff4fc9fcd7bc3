//! Everything that can go wrong, with the operation, the path and what to do.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::archive::{PairDamage, RejectedPair};
use crate::damage::{Damage, Rejected};
use crate::hook::Op;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process writes to this store.
    #[error("store {} is in use by {holder}; stop that run or use another directory", root.display())]
    Locked {
        /// The store's root.
        root: PathBuf,
        /// What the holder wrote about itself.
        holder: String,
    },
    /// The store belongs to another run.
    #[error("store {} belongs to run {found:?}, not to {asked:?}; use another directory, or adopt it with StoreOptions::adopt()", root.display())]
    OtherRun {
        /// The store's root.
        root: PathBuf,
        /// The run that the store names.
        found: String,
        /// The run that wanted to open it.
        asked: String,
    },
    /// A later version of this crate made the store.
    #[error("store {} has layout {found}, newer than this program writes; use the program that made it", root.display())]
    NewerLayout {
        /// The store's root.
        root: PathBuf,
        /// The layout it says.
        found: u64,
    },
    /// This process may not write in the store.
    #[error("store {} cannot be written: {source}; it has {owner}, this process is {process}: use another directory, or have its owner change that", root.display())]
    NotWritable {
        /// The store's root.
        root: PathBuf,
        /// Owner and mode of the root.
        owner: String,
        /// Who this process is to the system.
        process: String,
        /// What was refused.
        source: Box<Error>,
    },
    /// The step is already committed and valid.
    #[error("checkpoint {} already exists; save with Overwrite::Exchange to replace it", path.display())]
    AlreadyExists {
        /// The step asked for.
        step: u64,
        /// The checkpoint that stands there.
        path: PathBuf,
    },
    /// A later step is in the store, so this one would not be the newest.
    #[error("cannot save step {step}: step {newest} is in {}; call set_aside_after({}) to go on from there", root.display(), step.saturating_sub(1))]
    StepNotMonotonic {
        /// The step asked for.
        step: u64,
        /// The highest step in the store.
        newest: u64,
        /// The store's root.
        root: PathBuf,
    },
    /// The disk is full.
    #[error("{op} {} failed: no space left on device: needed {needed} bytes, {free} free; make room (the earlier checkpoints are intact)", path.display())]
    NoSpace {
        /// What was being done.
        op: Op,
        /// To which path.
        path: PathBuf,
        /// Bytes the failed operation needed.
        needed: u64,
        /// Bytes that were free to this user.
        free: u64,
    },
    /// The user's or the project's share of the disk is used up, whatever is free on it.
    #[error("{op} {} failed: disk quota exceeded; free some of it, or use another directory (the earlier checkpoints are intact)", path.display())]
    Quota {
        /// What was being done.
        op: Op,
        /// To which path.
        path: PathBuf,
    },
    /// The file system is mounted read-only, perhaps by the kernel after an I/O error.
    #[error("{op} {} failed: the file system is read-only; check the kernel log and remount, or use another directory", path.display())]
    ReadOnly {
        /// What was being done.
        op: Op,
        /// To which path.
        path: PathBuf,
    },
    /// Any other failed system call.
    #[error("{op} {} failed: {source}{}", path.display(), advice(source))]
    Io {
        /// What was being done.
        op: Op,
        /// To which path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The checkpoint is visible, but whether it survives a power cut is unknown.
    #[error(
        "step {step} was written and renamed, but the directory could not be synced, so a power cut may lose it: {source}; the next save that succeeds settles it"
    )]
    DurabilityUncertain {
        /// The step.
        step: u64,
        /// Why the last sync failed.
        source: Box<Error>,
    },
    /// A file of a checkpoint is not what the manifest says.
    #[error("checkpoint file {} is damaged: {damage}; use an older checkpoint", path.display())]
    Corrupt {
        /// The step of the checkpoint.
        step: u64,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
    },
    /// Checkpoints exist and none of them is whole. Starting afresh is the user's decision, never the library's.
    #[error("no valid checkpoint in {}: {}; restore one, or move them away to start afresh", root.display(), list(rejected))]
    NoValidCheckpoint {
        /// The store's root.
        root: PathBuf,
        /// All that were found, newest first, with the reason for each.
        rejected: Vec<Rejected>,
    },
    /// The checkpoint asked for is not valid.
    #[error("checkpoint {rejected}; choose another step")]
    Rejected {
        /// The checkpoint and the reason.
        rejected: Box<Rejected>,
    },
    /// There is no checkpoint at the step asked for.
    #[error("no checkpoint at step {step} in {}; steps there: {there:?}", root.display())]
    NoSuchStep {
        /// The step asked for.
        step: u64,
        /// The store's root.
        root: PathBuf,
        /// The steps in the store, ascending.
        there: Vec<u64>,
    },
    /// The checkpoint is whole but has no such file.
    #[error("checkpoint {} has no file {name:?}; it has {there:?}", path.display())]
    NoSuchFile {
        /// The checkpoint.
        path: PathBuf,
        /// The file asked for.
        name: String,
        /// The files it has.
        there: Vec<String>,
    },
    /// A path that a checkpoint cannot hold.
    #[error(
        "cannot have {name:?} in a checkpoint: {reason}; use a relative path such as weights/model.safetensors"
    )]
    InvalidPath {
        /// The path as given or found.
        name: String,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// A metric that a manifest cannot hold.
    #[error("cannot record metric {name:?} = {value}: {reason}; leave it out where there is none")]
    Metric {
        /// Its name as given.
        name: String,
        /// Its value as given.
        value: f64,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// A [`StageFile`](crate::StageFile) was dropped before `finish`.
    #[error("file {name:?} was not finished: call finish() on every StageFile before the save ends")]
    Unfinished {
        /// The file.
        name: String,
    },
    /// A file changed between being written and being committed.
    #[error(
        "file {name:?} of the stage was changed after it was written: found {found}, {expected} bytes were written"
    )]
    ChangedInStage {
        /// The file.
        name: String,
        /// Bytes written through the stage.
        expected: u64,
        /// What is there now.
        found: String,
    },
    /// A value could not be written as JSON, or a verified file could not be read as JSON.
    #[error("{name} as JSON: {source}")]
    Json {
        /// The file.
        name: String,
        /// Line, column and reason.
        source: serde_json::Error,
    },
    /// The content of a save in the background could not be produced.
    #[error("the save of step {step} was given up, because its content could not be produced: {source}")]
    Content {
        /// The step.
        step: u64,
        /// The caller's reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A save's outcome was asked for twice.
    #[error("how the save of step {step} ended was already told, by the store")]
    AlreadyTold {
        /// The step.
        step: u64,
    },
    /// A thread of the store panicked; the save that it worked on failed, and the next one works again.
    #[error(
        "the thread that writes checkpoints panicked; this save is lost, the earlier checkpoints are intact"
    )]
    WriterPanicked,
    /// A name that archive pairs cannot have.
    #[error("cannot name archives {name:?}: {reason}; use the file name of the model without .zip")]
    ArchiveName {
        /// The name as given.
        name: String,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// There is a valid pair of this name.
    #[error("archive {} already exists; save with Overwrite::Exchange to replace it", path.display())]
    ArchiveExists {
        /// The zip that stands there.
        path: PathBuf,
    },
    /// The pair is visible, but whether it survives a power cut is unknown.
    #[error("archive {} was written and renamed, but the directory could not be synced, so a power cut may lose it: {source}; the next save that succeeds settles it", path.display())]
    ArchiveUncertain {
        /// The zip.
        path: PathBuf,
        /// Why the sync failed.
        source: Box<Error>,
    },
    /// There is no archive of this name or number.
    #[error("no archive {}; numbers there: {there:?}", path.display())]
    NoSuchArchive {
        /// The zip asked for.
        path: PathBuf,
        /// The numbered pairs in the directory, ascending.
        there: Vec<u64>,
    },
    /// The archive asked for cannot be used.
    #[error("archive {rejected}; choose another one, or replace it with Overwrite::Exchange")]
    ArchiveRejected {
        /// The pair and the reason.
        rejected: Box<RejectedPair>,
    },
    /// Archives exist and none of them is whole. Starting afresh is the user's decision, never the library's.
    #[error("no valid archive {name}_ckpt_*.zip in {}: {}; restore one, or move them away to start afresh", dir.display(), list(rejected))]
    NoValidArchive {
        /// The directory.
        dir: PathBuf,
        /// The pairs' name.
        name: String,
        /// All that were found, newest first, with the reason for each.
        rejected: Vec<RejectedPair>,
    },
    /// A directory tree could not be listed.
    #[error("list {} failed: {source}", path.display())]
    Walk {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: walkdir::Error,
    },
}

/// An error of [`Store::save`](crate::Store::save): the store's, or the caller's own while filling the stage.
#[derive(Debug, thiserror::Error)]
pub enum SaveError<E> {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
    /// The closure that fills the stage failed; nothing was committed.
    #[error("the save was given up, because its content could not be produced: {0}")]
    Content(E),
}

impl From<SaveError<Error>> for Error {
    fn from(error: SaveError<Error>) -> Self {
        match error {
            SaveError::Store(error) | SaveError::Content(error) => error,
        }
    }
}

impl Error {
    /// The system's error number behind this, if there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Io { source, .. } => source.raw_os_error(),
            Self::NoSpace { .. } => Some(Errno::NOSPC.raw_os_error()),
            Self::Quota { .. } => Some(Errno::DQUOT.raw_os_error()),
            Self::ReadOnly { .. } => Some(Errno::ROFS.raw_os_error()),
            Self::DurabilityUncertain { source, .. }
            | Self::ArchiveUncertain { source, .. }
            | Self::NotWritable { source, .. } => source.errno(),
            Self::ArchiveRejected { rejected } => match rejected.reason {
                PairDamage::Unreadable(errno) => Some(errno),
                _ => None,
            },
            Self::Walk { source, .. } => source.io_error()?.raw_os_error(),
            _ => None,
        }
    }

    /// True when the same save may work later with new files: a full disk, a passing fault of a network disk.
    pub fn is_transient(&self) -> bool {
        const PASSING: [Errno; 8] = [
            Errno::IO,
            Errno::NOSPC,
            Errno::DQUOT,
            Errno::STALE,
            Errno::TIMEDOUT,
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
        ];
        self.errno().is_some_and(|errno| PASSING.iter().any(|passing| passing.raw_os_error() == errno))
    }

    pub(crate) fn call(op: Op, path: &Path, errno: Errno) -> Self {
        let path = path.to_owned();
        match errno {
            Errno::ROFS => Self::ReadOnly { op, path },
            Errno::DQUOT => Self::Quota { op, path },
            errno => Self::Io { op, path, source: errno.into() },
        }
    }

    pub(crate) fn is(&self, errno: Errno) -> bool {
        self.errno() == Some(errno.raw_os_error())
    }
}

fn advice(source: &io::Error) -> &'static str {
    match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::IO) => "; what reached the disk is unknown: check the kernel log and the disk's health",
        Some(Errno::ACCESS | Errno::PERM) => "; check owner and mode of the directory",
        Some(Errno::MFILE | Errno::NFILE) => "; close files or raise the limit (ulimit -n)",
        Some(Errno::XDEV) => {
            "; the store crosses a mount or lies in a lower layer of an overlay: put all of it on one file system"
        }
        Some(Errno::NOTDIR | Errno::LOOP) => "; a symbolic link or a file stands where a directory should be",
        Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => {
            "; this file system cannot do it: use a local one (ext4, xfs, btrfs)"
        }
        _ => "",
    }
}

fn list(rejected: &[impl ToString]) -> String {
    rejected.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
