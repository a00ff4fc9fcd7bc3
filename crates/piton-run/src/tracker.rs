//! The tracker: one line of numbers a step, each step once, also after any number of resumptions.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::atomic::{create_dir_all_synced, parent, sweep_temporaries, sync_dir, write_atomic};
use crate::cut::{Cut, Keep, cut};
use crate::{Error, Result};

/// One step's numbers by tag, such as `response/rewards/mean`. Any may be NaN or infinite.
pub type Metrics = BTreeMap<String, f64>;

/// Where a step's numbers go. Implemented by [`JsonlTracker`]; other back ends stand beside it.
pub trait Tracker {
    /// Records one step, durably if it is the record of truth. Steps come in increasing order.
    fn record(&mut self, step: u64, metrics: &Metrics) -> Result<()>;
}

/// `tracker.jsonl`: append-only lines `{"step":3,"loss":0.25,...}`, tags sorted, non-finite numbers as `null`.
#[derive(Debug)]
pub struct JsonlTracker {
    path: PathBuf,
    file: File,
    /// Bytes of whole lines; the file is longer only between a failed write and its repair.
    len: u64,
    torn: bool,
    steps: Vec<u64>,
    repair: Repair,
}

/// What [`JsonlTracker::open`] took out of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// Steps whose lines were cut because they lie after the step resumed from, in file order.
    pub cut_steps: Vec<u64>,
    /// Lines that were torn or otherwise not a tracker's.
    pub damaged_lines: usize,
    /// The file that now holds all of these lines as they were: `tracker.cut-1.jsonl`; `None` when nothing was cut.
    pub set_aside: Option<PathBuf>,
}

impl JsonlTracker {
    /// Opens or creates the file and cuts it back to what the resumed checkpoint knows.
    ///
    /// Lines of later steps and torn lines are first copied, durably, to `<name>.cut-<n>.jsonl` beside it: nothing
    /// is lost. For the holder of the [`RunLock`](crate::RunLock).
    pub fn open(path: &Path, keep: Keep) -> Result<Self> {
        let dir = parent(path);
        create_dir_all_synced(dir)?;
        sweep_temporaries(dir)?;
        let old = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(Error::io("read", path)(e)),
        };
        let Cut { kept, kept_steps, removed, removed_steps, damaged_lines } = cut(&old, keep);
        let mut repair = Repair { cut_steps: removed_steps, damaged_lines, set_aside: None };
        if !removed.is_empty() {
            let aside = free_numbered(path, "cut")?;
            write_atomic(&aside, &removed)?;
            repair.set_aside = Some(aside);
        }
        if kept != old {
            write_atomic(path, &kept)?;
        }
        let open = || OpenOptions::new().append(true).create(true).open(path);
        let file = open().map_err(Error::io("open", path))?;
        sync_dir(dir)?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
            len: kept.len() as u64,
            torn: false,
            steps: kept_steps,
            repair,
        })
    }

    /// What opening it took out.
    pub fn repair(&self) -> &Repair {
        &self.repair
    }

    /// The steps in the file, increasing.
    pub fn steps(&self) -> &[u64] {
        &self.steps
    }

    /// The newest step in the file.
    pub fn last_step(&self) -> Option<u64> {
        self.steps.last().copied()
    }

    /// Writes and syncs one step's line; on an error the file is as it was.
    pub fn append(&mut self, step: u64, metrics: &Metrics) -> Result<()> {
        if let Some(last) = self.last_step()
            && step <= last
        {
            return Err(Error::StepOrder { path: self.path.clone(), step, last });
        }
        let line = line(step, metrics, &self.path)?;
        self.write(&line).map_err(Error::io("append to", &self.path))?;
        self.len += line.len() as u64;
        self.steps.push(step);
        Ok(())
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.len)?;
        }
        self.torn = true;
        let outcome = self.file.write_all(line).and_then(|()| self.file.sync_data());
        // A half-written line is taken back at once; where that fails too, before the next one.
        self.torn = outcome.is_err() && self.file.set_len(self.len).is_err();
        outcome
    }
}

impl Tracker for JsonlTracker {
    fn record(&mut self, step: u64, metrics: &Metrics) -> Result<()> {
        self.append(step, metrics)
    }
}

/// Written by hand so that `step` stands first and the rest is sorted whatever features serde_json has.
fn line(step: u64, metrics: &Metrics, path: &Path) -> Result<Vec<u8>> {
    if metrics.contains_key("step") {
        return Err(Error::ReservedKey { path: path.to_path_buf() });
    }
    let mut line = format!("{{\"step\":{step}");
    for (tag, &number) in metrics {
        // Value::from gives null for what is not finite.
        line.push_str(&format!(",{}:{}", Value::from(tag.as_str()), Value::from(number)));
    }
    line.push_str("}\n");
    Ok(line.into_bytes())
}

/// `<stem>.<word>-<n>.<extension>` beside `path`, with the smallest n from 1 that is free.
pub(crate) fn free_numbered(path: &Path, word: &str) -> Result<PathBuf> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
    let mut number = 1_u64;
    loop {
        let candidate = path.with_file_name(format!("{stem}.{word}-{number}.{extension}"));
        if !candidate.try_exists().map_err(Error::io("look for", &candidate))? {
            return Ok(candidate);
        }
        number += 1;
    }
}

/// The step of a tracker line, if it is one.
pub(crate) fn step_of(line: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Map<String, Value>>(line).ok()?.get("step")?.as_u64()
}
