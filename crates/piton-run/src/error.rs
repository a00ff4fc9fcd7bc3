//! The one error type of this crate.

use std::io;
use std::path::{Path, PathBuf};

use crate::lock::Holder;

/// What can go wrong around a run. Messages name the operation, the path and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("cannot {op} `{path}`: {source}{hint}", path = path.display(), hint = hint(source))]
    Io {
        /// What was tried, as a verb: `"write"`, `"rename to"`.
        op: &'static str,
        /// The file or folder it was tried on.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },

    /// Another process is using the work_dir.
    #[error(
        "work_dir `{work_dir}` is in use by {holder}; wait for that run, stop it (kill -TERM saves a checkpoint), or choose another work_dir",
        work_dir = work_dir.display(),
        holder = describe(holder.as_deref())
    )]
    Held {
        /// The folder that was asked for.
        work_dir: PathBuf,
        /// Who holds it; `None` when the holder had not written its name yet.
        holder: Option<Box<Holder>>,
    },

    /// A name that is not an experiment's.
    #[error(
        "`{name}` is not an experiment name: expected 14 digits YYYYmmddHHMMSS, optionally followed by -1, -2, ..."
    )]
    ExperimentName {
        /// What was given.
        name: String,
    },

    /// An experiment that is not on disk.
    #[error("experiment `{path}` does not exist; list the folders of the work_dir and choose one of them", path = path.display())]
    NoExperiment {
        /// Where it was looked for.
        path: PathBuf,
    },

    /// A tracker line for a step that is already there or lies before the last one.
    #[error("tracker `{path}` already ends at step {last}: step {step} cannot be written; each step has one line, in order", path = path.display())]
    StepOrder {
        /// The tracker's file.
        path: PathBuf,
        /// The step that was offered.
        step: u64,
        /// The last step in the file.
        last: u64,
    },

    /// A metric may not take the name of a field that the tracker writes itself.
    #[error("metric name `step` is reserved for the step number in `{path}`; choose another name", path = path.display())]
    ReservedKey {
        /// The tracker's file.
        path: PathBuf,
    },

    /// A value that has no JSON form.
    #[error("cannot write line {line} of `{path}` as JSON: {source}", path = path.display())]
    Json {
        /// The file that was being written.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What serde_json said.
        source: serde_json::Error,
    },

    /// A worker process could not be started.
    #[error("cannot start worker {program}: {source}")]
    Worker {
        /// The program.
        program: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// A signal could not be caught, blocked or looked up.
    #[error("cannot {op}: {source}")]
    Signal {
        /// What was tried.
        op: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
}

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { op, path: path.to_path_buf(), source }
    }
}

fn describe(holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) => holder.to_string(),
        None => "another process (it has not written its name yet)".to_owned(),
    }
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => "; free some space there or choose another work_dir",
        io::ErrorKind::QuotaExceeded => {
            "; the disk quota is used up (df may still show free space): free some or choose another work_dir"
        }
        io::ErrorKind::FileTooLarge => "; raise the file size limit (ulimit -f) or choose another work_dir",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; choose a work_dir that this user can write"
        }
        io::ErrorKind::AlreadyExists => "; a file is in the way: rename it or choose another work_dir",
        io::ErrorKind::NotADirectory => "; a part of that path is a file, not a folder",
        _ => "",
    }
}
