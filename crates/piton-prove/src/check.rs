//! What must be true of a store after anything has happened to its writer.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use piton_checkpoint::{Overwrite, Store};

use crate::content;
use crate::subject::options;

/// Arguments of the checker.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The store's directory
    #[arg(long)]
    pub root: PathBuf,
    /// The last step that was acknowledged; 0 when none was
    #[arg(long, default_value_t = 0)]
    pub acked: u64,
    /// What the subject was given
    #[arg(long, default_value_t = 50_000)]
    pub large: usize,
}

pub(crate) fn run(args: &CheckArgs) -> Result<()> {
    visible(&args.root, args.acked, args.large)?;
    recovers(&args.root, args.acked, args.large)
}

/// Every visible checkpoint is whole, and the newest is at least the last acknowledged. Changes nothing.
pub(crate) fn visible(root: &Path, acked: u64, large: usize) -> Result<()> {
    if !root.exists() {
        ensure!(acked == 0, "step {acked} was acknowledged and {} is gone", root.display());
        return Ok(());
    }
    let reader = Store::open_read_only(root)?;
    let steps = reader.steps()?;
    for &step in &steps {
        let checkpoint = reader.at(step).with_context(|| format!("step {step} is visible but bad"))?;
        content::examine(&checkpoint, large)?;
    }
    let newest = steps.last().copied().unwrap_or(0);
    ensure!(newest >= acked, "step {acked} was acknowledged, {newest} is the newest there");
    Ok(())
}

/// A new writer cleans up, finds the newest and can save the next.
pub(crate) fn recovers(root: &Path, acked: u64, large: usize) -> Result<()> {
    let mut store = Store::open(root, options())?;
    let newest = store.latest()?.map_or(0, |newest| newest.step());
    ensure!(newest >= acked, "step {acked} was acknowledged, {newest} is resumed from");
    let next = newest + 1;
    store.save(next, Overwrite::Refuse, |stage| content::fill(stage, next, large))?;
    let found = store.latest()?.context("what was just saved is not there")?;
    ensure!(found.step() == next, "saved {next}, found {}", found.step());
    content::examine(&found, large)?;
    for entry in std::fs::read_dir(root)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        ensure!(!name.starts_with(".tmp-") && !name.starts_with(".trash-"), "{name} is left over");
    }
    Ok(())
}
