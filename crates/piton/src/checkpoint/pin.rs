//! `piton checkpoint pin` and `unpin`

use std::io::Write;

use anyhow::{Result, bail};

use super::Verdict;
use super::args::{PinArgs, UnpinArgs};
use super::target::Target;

pub(super) fn pin(args: &PinArgs, out: &mut dyn Write) -> Result<Verdict> {
    let (store, step) = Target::one_step(&args.at.path, args.step)?;
    store.pin(step, &args.note)?;
    writeln!(out, "pinned step {step} of {}", store.root().display())?;
    Ok(Verdict::Good)
}

pub(super) fn unpin(args: &UnpinArgs, out: &mut dyn Write) -> Result<Verdict> {
    // A pin may have outlived its checkpoint, so that PATH is no folder any more: then it is the store's with --step.
    let (store, step) = Target::one_step(&args.at.path, args.step)?;
    if !store.unpin(step)? {
        let pinned: Vec<u64> = store.pins()?.into_keys().collect();
        bail!("step {step} of {} is not pinned; pinned are {pinned:?}", store.root().display());
    }
    writeln!(out, "unpinned step {step} of {}", store.root().display())?;
    Ok(Verdict::Good)
}
