//! `events.jsonl`: what happened to a run and when, with wall-clock time. Never part of a checkpoint.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::atomic::{create_dir_all_synced, parent, sync_dir};
use crate::clock::{Clock, rfc3339};
use crate::{Error, Result};

/// Something worth knowing afterwards. Paths are relative to the work_dir.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A process began to work on the experiment.
    Start {
        /// Its process id.
        pid: u32,
        /// What the user ran.
        command: String,
    },
    /// Training continues after this step.
    Resume {
        /// The checkpoint's step.
        step: u64,
        /// The checkpoint.
        path: String,
    },
    /// A checkpoint is complete and durable.
    Save {
        /// Its step.
        step: u64,
        /// Where it is.
        path: String,
        /// Its size on disk.
        bytes: u64,
        /// How long it took.
        seconds: f64,
    },
    /// An export is complete and durable.
    Export {
        /// Its step.
        step: u64,
        /// Where it is.
        path: String,
    },
    /// A checkpoint was removed because newer ones suffice.
    Prune {
        /// Its step.
        step: u64,
        /// Where it was.
        path: String,
    },
    /// A signal was noticed.
    Signal {
        /// `SIGTERM`, ...
        signal: String,
    },
    /// Something could not be used and the next best was taken: a damaged checkpoint, for one.
    Fallback {
        /// What was passed over.
        path: String,
        /// Why.
        reason: String,
    },
    /// Lines or files of steps that will be done again were moved out of the way.
    SetAside {
        /// Where they are now.
        path: String,
        /// What they were.
        reason: String,
    },
    /// The configuration differs from the one of the run resumed.
    ConfigChange {
        /// Dotted key.
        key: String,
        /// The value before; `null` when there was none.
        old: serde_json::Value,
        /// The value now; `null` when there is none.
        new: serde_json::Value,
    },
    /// A loss or gradient was not finite.
    NonFinite {
        /// The step that was being done.
        step: u64,
        /// What it was, and what was done about it.
        reason: String,
    },
    /// Something to look at that did not stop the run.
    Warning {
        /// In words.
        reason: String,
    },
    /// The run was asked to end early and has saved.
    Stop {
        /// The last step that is done.
        step: u64,
        /// The checkpoint that holds it; `None` when there was nothing new to save.
        path: Option<String>,
        /// `SIGTERM`, ..., or the program's own words.
        reason: String,
    },
    /// All steps are done.
    Finish {
        /// The last step.
        step: u64,
    },
    /// The run ended with an error.
    Error {
        /// The step that was being done.
        step: u64,
        /// The whole chain of causes.
        reason: String,
    },
}

/// An event with its time: one line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedEvent {
    /// RFC 3339 in UTC, with milliseconds.
    pub time: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// The open log. Every line is durable when [`append`](Self::append) returns.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: File,
    /// The file ends in the middle of a line.
    torn: bool,
    clock: Arc<dyn Clock>,
}

impl EventLog {
    /// Opens or creates the log. What is in it stays; after a torn last line a new line begins.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self> {
        create_dir_all_synced(parent(path))?;
        let open = || OpenOptions::new().read(true).append(true).create(true).open(path);
        let mut file = open().map_err(Error::io("open", path))?;
        let torn = is_torn(&mut file).map_err(Error::io("read", path))?;
        sync_dir(parent(path))?;
        Ok(Self { path: path.to_path_buf(), file, torn, clock })
    }

    /// Writes and syncs one line.
    pub fn append(&mut self, event: Event) -> Result<()> {
        let timed = TimedEvent { time: rfc3339(self.clock.now()), event };
        let mut line = if self.torn { vec![b'\n'] } else { Vec::new() };
        serde_json::to_writer(&mut line, &timed).map_err(|source| Error::Json {
            path: self.path.clone(),
            line: 1,
            source,
        })?;
        line.push(b'\n');
        let outcome = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        self.torn = outcome.is_err();
        outcome.map_err(Error::io("append to", &self.path))
    }
}

/// Reads a log; lines that are torn or of an unknown kind are left out and counted.
pub fn read_events(path: &Path) -> Result<(Vec<TimedEvent>, usize)> {
    let bytes = fs::read(path).map_err(Error::io("read", path))?;
    let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let mut unreadable = 0;
    let events = lines
        .filter_map(|line| {
            let event = serde_json::from_slice(line).ok();
            unreadable += usize::from(event.is_none());
            event
        })
        .collect();
    Ok((events, unreadable))
}

fn is_torn(file: &mut File) -> std::io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}
