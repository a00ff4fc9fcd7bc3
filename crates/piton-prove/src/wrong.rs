//! Ways of saving that lose checkpoints, to see that the proofs notice.

use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use piton_checkpoint::{Overwrite, Store, checkpoint_name, parse_checkpoint_name};

use crate::content;
use crate::subject::options;

/// What is left out of saving beside, syncing, renaming, syncing and then pruning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wrong {
    /// Nothing: the control
    Nothing,
    /// Nothing is synced
    NoSync,
    /// The directory is not synced after the rename
    NoParentSync,
    /// The old checkpoints go before the new one is there
    PruneFirst,
}

impl Wrong {
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Nothing => "nothing left out",
            Self::NoSync => "no fsync",
            Self::NoParentSync => "no fsync of the directory after the rename",
            Self::PruneFirst => "pruned before the save",
        }
    }

    /// Saves a step in this way. The files are the store's own, made somewhere else and copied.
    pub(crate) fn save(self, root: &Path, step: u64, keep: NonZeroUsize, large: usize) -> Result<()> {
        let elsewhere = tempfile::tempdir().context("cannot make a directory for temporary files")?;
        let mut store = Store::open(elsewhere.path(), options())?;
        store.save(step, Overwrite::Refuse, |stage| content::fill(stage, step, large))?;
        let stage = root.join(format!(".tmp-{step}"));
        if self == Self::PruneFirst {
            prune(root, keep.get() - 1)?;
        }
        copy(&elsewhere.path().join(checkpoint_name(step)), &stage, self != Self::NoSync)?;
        fs::rename(&stage, root.join(checkpoint_name(step)))?;
        if !matches!(self, Self::NoSync | Self::NoParentSync) {
            File::open(root)?.sync_all()?;
        }
        Ok(())
    }
}

fn copy(from: &Path, to: &Path, sync: bool) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, target) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        if entry.is_dir() {
            copy(&entry, &target, sync)?;
        } else {
            fs::copy(&entry, &target)?;
            if sync {
                File::open(&target)?.sync_all()?;
            }
        }
    }
    if sync {
        File::open(to)?.sync_all()?;
    }
    Ok(())
}

/// Removes all but the newest, one after the other.
pub(crate) fn prune(root: &Path, keep: usize) -> Result<()> {
    let mut steps = Vec::new();
    for entry in fs::read_dir(root)? {
        steps.extend(parse_checkpoint_name(&entry?.file_name()));
    }
    steps.sort_unstable();
    for step in &steps[..steps.len().saturating_sub(keep)] {
        fs::remove_dir_all(root.join(checkpoint_name(*step)))?;
    }
    Ok(())
}
