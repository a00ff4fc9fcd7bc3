//! Names and places: the experiments of a work_dir and the paths inside one.

use std::cmp::Reverse;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::DateTime;

use crate::atomic::{create_dir_all_synced, list, sync_dir};
use crate::{Error, Result, clock};

/// One exp_dir, `<work_dir>/<YYYYmmddHHMMSS>`: where a run and all its resumptions write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experiment {
    work_dir: PathBuf,
    name: Name,
}

impl Experiment {
    /// Makes a new exp_dir named after `moment`; nobody else can get the same one.
    ///
    /// A name that is taken gets the suffix `-1`, `-2`, ... A clock that went back does not make a new experiment
    /// sort before an old one: it then takes the newest name with the next suffix.
    pub fn create(work_dir: &Path, moment: Timestamp) -> Result<Self> {
        create_dir_all_synced(work_dir)?;
        let mut name = Name { stamp: clock::stamp(moment), suffix: 0 };
        if let Some(newest) = experiments(work_dir)?.into_iter().next()
            && newest.name >= name
        {
            name = newest.name.next();
        }
        loop {
            let experiment = Self { work_dir: work_dir.to_path_buf(), name };
            let dir = experiment.dir();
            match fs::create_dir(&dir) {
                Ok(()) => {
                    sync_dir(work_dir)?;
                    return Ok(experiment);
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => name = experiment.name.next(),
                Err(e) => return Err(Error::io("create folder", &dir)(e)),
            }
        }
    }

    /// The experiment of that name, which must exist.
    pub fn open(work_dir: &Path, name: &str) -> Result<Self> {
        let name = Name::parse(name).ok_or_else(|| Error::ExperimentName { name: name.to_owned() })?;
        let experiment = Self { work_dir: work_dir.to_path_buf(), name };
        let dir = experiment.dir();
        if dir.is_dir() { Ok(experiment) } else { Err(Error::NoExperiment { path: dir }) }
    }

    /// `20261130204824`, or `20261130204824-1`.
    pub fn name(&self) -> String {
        self.name.to_string()
    }

    /// The folder that this experiment is in.
    pub fn work_dir(&self) -> &Path {
        &self.work_dir
    }

    /// `<work_dir>/<name>`.
    pub fn dir(&self) -> PathBuf {
        self.work_dir.join(self.name.to_string())
    }

    /// `run.toml`: the resolved configuration.
    pub fn config_path(&self) -> PathBuf {
        self.dir().join("run.toml")
    }

    /// `logs`.
    pub fn logs_dir(&self) -> PathBuf {
        self.dir().join("logs")
    }

    /// `logs/exp_tracking/tracker.jsonl`.
    pub fn tracker_path(&self) -> PathBuf {
        self.logs_dir().join("exp_tracking/tracker.jsonl")
    }

    /// `logs/events.jsonl`.
    pub fn events_path(&self) -> PathBuf {
        self.logs_dir().join("events.jsonl")
    }

    /// `train_rollout/train_rollout_<step>.jsonl`.
    pub fn train_rollout_path(&self, step: u64) -> PathBuf {
        self.dir().join(format!("train_rollout/train_rollout_{step}.jsonl"))
    }

    /// `eval_rollout/eval_rollout_<step>.jsonl`.
    pub fn eval_rollout_path(&self, step: u64) -> PathBuf {
        self.dir().join(format!("eval_rollout/eval_rollout_{step}.jsonl"))
    }

    /// `checkpoints`.
    pub fn checkpoints_dir(&self) -> PathBuf {
        self.dir().join("checkpoints")
    }

    /// `hf`.
    pub fn hf_dir(&self) -> PathBuf {
        self.dir().join("hf")
    }

    /// `hf/hf-step-<step>`.
    pub fn hf_path(&self, step: u64) -> PathBuf {
        self.hf_dir().join(format!("hf-step-{step}"))
    }

    /// A path inside the work_dir, relative to it, with `/` between its parts; other paths unchanged.
    pub fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.work_dir).unwrap_or(path).to_string_lossy().into_owned()
    }
}

/// The experiments of `work_dir`, newest first; none when there is no such folder.
///
/// Only folders with an exact name count: 14 digits that are a date and time, perhaps a suffix.
pub fn experiments(work_dir: &Path) -> Result<Vec<Experiment>> {
    let mut names: Vec<Name> = list(work_dir)?
        .iter()
        .filter(|name| work_dir.join(name).is_dir())
        .filter_map(|name| Name::parse(name))
        .collect();
    names.sort_unstable_by_key(|name| Reverse(name.clone()));
    Ok(names.into_iter().map(|name| Experiment { work_dir: work_dir.to_path_buf(), name }).collect())
}

/// The number in `<prefix><number><suffix>`, when it is written without a sign or leading zeros.
pub(crate) fn number_in(name: &str, prefix: &str, suffix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
    let number = digits.parse().ok()?;
    (format!("{number}") == digits).then_some(number)
}

/// Ordered as time goes: `...24` < `...24-1` < `...24-2` < `...24-10` < `...25`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    stamp: String,
    /// 0 is the plain name.
    suffix: u64,
}

impl Name {
    fn parse(name: &str) -> Option<Self> {
        let (stamp, suffix) = match name.split_once('-') {
            None => (name, 0),
            Some((stamp, suffix)) => (stamp, number_in(suffix, "", "").filter(|&n| n > 0)?),
        };
        let digits = stamp.len() == 14 && stamp.bytes().all(|b| b.is_ascii_digit());
        (digits && DateTime::strptime("%Y%m%d%H%M%S", stamp).is_ok())
            .then(|| Self { stamp: stamp.to_owned(), suffix })
    }

    fn next(&self) -> Self {
        Self { stamp: self.stamp.clone(), suffix: self.suffix + 1 }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.suffix {
            0 => f.write_str(&self.stamp),
            n => write!(f, "{}-{n}", self.stamp),
        }
    }
}
