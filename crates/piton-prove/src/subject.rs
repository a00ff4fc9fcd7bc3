//! The process that is killed: a stand-in for a trainer.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use clap::Args;
use piton_checkpoint::{
    BackgroundStore, FileHook, Keep, Op, Overwrite, SaveHandle, Store, StoreOptions, Verdict,
};
use rustix::process::Signal;

use crate::content;
use crate::wrong::{self, Wrong};

/// Arguments of the subject.
#[derive(Debug, Args)]
pub(crate) struct SubjectArgs {
    /// The store's directory
    #[arg(long)]
    pub root: PathBuf,
    /// How many checkpoints to keep
    #[arg(long, default_value = "1")]
    pub keep: NonZeroUsize,
    /// How many steps to save, from the newest that is there on
    #[arg(long, default_value_t = 3)]
    pub steps: u64,
    /// Size of the largest file in bytes
    #[arg(long, default_value_t = 50_000)]
    pub large: usize,
    /// Save every fourth step twice, the second time over the first
    #[arg(long)]
    pub exchange: bool,
    /// A file to append `ack STEP` to after each save; standard output otherwise
    #[arg(long)]
    pub ack: Option<PathBuf>,
    /// Save in the background, each step beginning while the one before is still being written
    #[arg(long, conflicts_with_all = ["exchange", "wrong"])]
    pub background: bool,
    /// Do not use the store's way of saving but a wrong one
    #[arg(long)]
    pub wrong: Option<Wrong>,
    /// Die by SIGKILL in place of this call of the file layer, counted from 0
    #[arg(long)]
    pub die_at: Option<usize>,
}

/// Kills the process in place of a call.
#[derive(Debug)]
struct DieAt {
    at: usize,
    calls: AtomicUsize,
}

impl FileHook for DieAt {
    fn before(&self, _op: Op, _path: &Path) -> Verdict {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.at {
            let _never_returns = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
        }
        Verdict::Go
    }
}

/// Resumes and saves. An acknowledgement is written in one piece, after the save returned.
pub(crate) fn run(args: &SubjectArgs) -> Result<()> {
    let mut options = options();
    if let Some(at) = args.die_at {
        options = options.hook(Arc::new(DieAt { at, calls: AtomicUsize::new(0) }));
    }
    let mut store = Store::open(&args.root, options)?;
    let newest = store.latest()?;
    if let Some(newest) = &newest {
        content::examine(newest, args.large)?;
    }
    let none = BTreeSet::new();
    store.prune(Keep::Last(args.keep), &none)?;
    let mut ack: Box<dyn Write> = match &args.ack {
        Some(path) => {
            Box::new(OpenOptions::new().append(true).open(path).with_context(|| path.display().to_string())?)
        }
        None => Box::new(std::io::stdout()),
    };
    let first = newest.map_or(1, |newest| newest.step() + 1);
    let steps = first..first + args.steps;
    let mut acknowledge = |step: u64| {
        ack.write_all(format!("ack {step}\n").as_bytes())?;
        ack.flush()
    };
    if let Some(wrong) = args.wrong {
        drop(store);
        for step in steps {
            wrong.save(&args.root, step, args.keep, args.large)?;
            acknowledge(step)?;
            wrong::prune(&args.root, args.keep.get())?;
        }
        return Ok(());
    }
    if args.background {
        let mut store = BackgroundStore::new(store)?;
        store.prune_to(Keep::Last(args.keep));
        let mut under_way: Option<SaveHandle> = None;
        for step in steps {
            let begun =
                store.save(step, Overwrite::Refuse, |stage| content::fill(stage, step, args.large))?;
            if let Some(before) = under_way.replace(begun) {
                acknowledge(before.wait()?.checkpoint.step())?;
            }
        }
        if let Some(last) = under_way {
            acknowledge(last.wait()?.checkpoint.step())?;
        }
        store.close()?;
        return Ok(());
    }
    for step in steps {
        store.save(step, Overwrite::Refuse, |stage| content::fill(stage, step, args.large))?;
        if args.exchange && step % 4 == 0 {
            store.save(step, Overwrite::Exchange, |stage| content::fill(stage, step, args.large))?;
        }
        acknowledge(step)?;
        store.prune(Keep::Last(args.keep), &none)?;
    }
    Ok(())
}

/// How the subject and the checker open a store.
pub(crate) fn options() -> StoreOptions {
    StoreOptions::new("prove", "prove", || 1_796_000_000_000)
}
