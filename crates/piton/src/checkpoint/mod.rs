//! `piton checkpoint`: looking after checkpoints from a shell.

mod args;
mod diff;
mod format;
mod fsck;
mod ls;
mod pin;
mod prune;
mod target;
mod verify;

use std::io::Write;

use anyhow::{Context, Result};
use piton_checkpoint::{Reader, Store, StoreOptions};

pub use args::{
    CheckpointArgs, CheckpointCommand, DiffArgs, FsckArgs, LsArgs, PathArgs, PinArgs, PruneArgs, UnpinArgs,
};

/// What a command found; the exit code tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is well: exit code 0.
    Good,
    /// Something is damaged, differs or could not be done: exit code 1.
    Bad,
}

/// Runs a command; what it prints goes to `out`.
///
/// # Errors
/// When the path is no place with checkpoints, or the system refuses something.
pub fn checkpoint(command: &CheckpointCommand, now_unix_ms: u64, out: &mut dyn Write) -> Result<Verdict> {
    match command {
        CheckpointCommand::Ls(args) => ls::run(args, now_unix_ms, out),
        CheckpointCommand::Verify(args) => verify::run(args, out),
        CheckpointCommand::Fsck(args) => fsck::run(args, now_unix_ms, out),
        CheckpointCommand::Diff(args) => diff::run(args, out),
        CheckpointCommand::Prune(args) => prune::run(args, now_unix_ms, out),
        CheckpointCommand::Pin(args) => pin::pin(args, out),
        CheckpointCommand::Unpin(args) => pin::unpin(args, out),
    }
}

/// Opens a store to change it, in the name of the run whose it is.
fn writer(store: &Reader, now_unix_ms: u64) -> Result<Store> {
    let run_id = match store.identity()? {
        Some(identity) => identity.run_id,
        None => {
            let newest = store.latest()?;
            let newest = newest.with_context(|| format!("{} has no checkpoint", store.root().display()))?;
            newest.manifest().run_id.clone()
        }
    };
    let options = StoreOptions::new(run_id, "", move || now_unix_ms).holder("piton checkpoint");
    Ok(Store::open(store.root(), options)?)
}
