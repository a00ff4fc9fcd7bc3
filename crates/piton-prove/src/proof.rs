//! What a proof is, and the list of them.

use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// Every proof, in the order in which they run.
pub(crate) const PROOFS: &[Proof] = &[
    Proof {
        name: "kill",
        by_default: true,
        claim: "SIGKILL at every system call of open, resume, save and prune: the next start finds the last acknowledged \
                checkpoint or a newer one",
        run: crate::kill::run,
    },
    Proof {
        name: "faults",
        by_default: true,
        claim: "every system call fails, once and lasting: the old checkpoint is intact, the error names call, path and \
                errno, nothing leaks, and the next save works",
        run: crate::faults::run,
    },
    Proof {
        name: "damage",
        by_default: true,
        claim: "flipped bits, cuts, missing, foreign and planted files: found and named, the checkpoint before is taken, and \
                nothing outside the store is touched",
        run: crate::damage::run,
    },
    Proof {
        name: "model",
        by_default: true,
        claim: "random histories of saves, prunes, pins, crashes, damage, rollbacks and second writers: what is there is what a \
                model says, after every command",
        run: crate::model::run,
    },
    Proof {
        name: "power",
        by_default: true,
        claim: "the power fails at any moment, and the disk keeps any part of what it was not told to flush, torn at 512 \
                bytes: whatever is visible is whole, and the last acknowledged checkpoint or a newer one is there",
        run: crate::power::run,
    },
    Proof {
        name: "fsync",
        by_default: true,
        claim: "the disk under the file system is full, so that writes succeed and fsync fails: the save fails with a typed \
                error, no file is synced again, the earlier checkpoint is intact on the disk, and with room the next save \
                is",
        run: crate::fsync::run,
    },
    Proof {
        name: "peers",
        by_default: false,
        claim: "what kills and power cuts do to torch.save, safetensors, torch.distributed.checkpoint and Stable-Baselines3",
        run: crate::peers::run,
    },
];

/// How the names of our directories begin; the id of the process follows.
const SCRATCH: &str = "piton-prove-";

/// One claim about the store, and the way to try to refute it.
#[derive(Debug)]
pub(crate) struct Proof {
    /// The name on the command line.
    pub name: &'static str,
    /// Whether it runs when no name is given in the sampled form.
    pub by_default: bool,
    /// What must hold.
    pub claim: &'static str,
    /// Tries to refute it. An error means that the attempt itself went wrong, which is neither held nor broken.
    pub run: fn(&Setting) -> Result<Outcome>,
}

/// How a proof is run.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Whether to try as many points as the published table has.
    pub long: bool,
    /// A directory for the stores under test.
    pub dir: PathBuf,
    /// Seed of every random choice.
    pub seed: u64,
    /// A Python interpreter, for the comparison with what people use.
    pub python: PathBuf,
    /// Whether this process has a mount namespace of its own.
    pub private_mounts: bool,
}

impl Setting {
    /// A directory that is gone when the value is.
    pub(crate) fn scratch(&self) -> Result<TempDir> {
        let prefix = format!("{SCRATCH}{}-", std::process::id());
        let made = tempfile::Builder::new().prefix(&prefix).tempdir_in(&self.dir);
        made.with_context(|| format!("cannot make a directory in {}", self.dir.display()))
    }

    /// Removes the directories of processes that were killed. Their mounts went with them.
    pub(crate) fn sweep(&self) -> Result<()> {
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let owner =
                name.strip_prefix(SCRATCH).and_then(|rest| rest.split_once('-')?.0.parse::<u32>().ok());
            if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                std::fs::remove_dir_all(entry.path())
                    .with_context(|| format!("cannot remove {}", entry.path().display()))?;
            }
        }
        Ok(())
    }

    /// The same in memory, where there is such a file system: for what says nothing about a disk.
    pub(crate) fn in_memory(&self) -> Result<TempDir> {
        let made = tempfile::Builder::new().prefix(SCRATCH).tempdir_in("/dev/shm");
        made.or_else(|_| self.scratch())
    }
}

/// How a proof ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// So many points were tried, and the claim held at each; with a note on what they were.
    Held { points: u64, note: String },
    /// It did not hold.
    Broken { points: u64, violations: Vec<String> },
    /// Nothing was claimed; this is what was seen.
    Seen { points: u64, notes: Vec<String> },
    /// Nothing could be tried here, and why.
    Skipped { why: String },
}

impl Outcome {
    /// Held unless there are violations.
    pub(crate) fn of(points: u64, note: impl Into<String>, violations: Vec<String>) -> Self {
        match violations.is_empty() {
            true => Self::Held { points, note: note.into() },
            false => Self::Broken { points, violations },
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { points, note } => write!(f, "held at {points} points ({note})"),
            Self::Broken { points, violations } => {
                write!(f, "BROKEN: {} violations at {points} points", violations.len())
            }
            Self::Seen { points, notes } => write!(f, "seen at {points} points: {}", notes.join("; ")),
            Self::Skipped { why } => write!(f, "skipped: {why}"),
        }
    }
}

/// The results as lines of text, or as a Markdown table.
pub(crate) fn table(rows: &[(&Proof, Outcome, f64)], markdown: bool) -> String {
    let mut text = String::new();
    if markdown {
        text.push_str("| proof | what must hold | result | seconds |\n|---|---|---|---|\n");
    }
    for (proof, outcome, seconds) in rows {
        let _ = match markdown {
            true => writeln!(text, "| {} | {} | {outcome} | {seconds:.1} |", proof.name, proof.claim),
            false => writeln!(text, "{:<8} {outcome} in {seconds:.1} s", proof.name),
        };
    }
    text
}
