//! `piton checkpoint fsck`

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use piton_checkpoint::{Reader, Store, Survey};

use super::args::FsckArgs;
use super::format::count;
use super::target::Target;
use super::{Verdict, verify, writer};

pub(super) fn run(args: &FsckArgs, now_unix_ms: u64, out: &mut dyn Write) -> Result<Verdict> {
    let stores = match Target::at(&args.at.path)? {
        Target::Stores(stores) => stores,
        Target::Checkpoint(path) => vec![Target::one_store(&path)?.0.root().to_owned()],
    };
    let mut wrong = 0;
    for root in stores {
        writeln!(out, "{}", root.display())?;
        if args.repair {
            repair(&root, now_unix_ms, out)?;
        }
        let store = Store::open_read_only(&root)?;
        let found = look(&store, args.quick, out)?;
        if found == 0 {
            writeln!(out, "  nothing is wrong")?;
        }
        wrong += found;
    }
    Ok(if wrong == 0 { Verdict::Good } else { Verdict::Bad })
}

/// Opening a store for writing removes what is garbage; here it is told.
fn repair(root: &Path, now_unix_ms: u64, out: &mut dyn Write) -> Result<()> {
    let store = Store::open_read_only(root)?;
    let Survey { leftovers: before, identity, .. } = store.survey()?;
    if before.is_empty() && identity.is_some() {
        return Ok(());
    }
    let mut writer = writer(&store, now_unix_ms).context("cannot repair")?;
    let after = store.survey()?.leftovers;
    for name in before.iter().filter(|name| !after.contains(name)) {
        writeln!(out, "  removed   {name}")?;
    }
    for problem in writer.take_problems() {
        writeln!(out, "  problem   {problem}")?;
    }
    Ok(())
}

/// Tells everything that is not as it should be, and returns how much of it is wrong and not only worth knowing.
fn look(store: &Reader, quick: bool, out: &mut dyn Write) -> Result<usize> {
    let Survey { identity, writer, steps, pins, leftovers, abandoned, foreign, .. } = store.survey()?;
    let mut wrong = 0;
    if let Some(writer) = &writer {
        writeln!(out, "  writer    {writer}")?;
    }
    if identity.is_none() && !steps.is_empty() {
        writeln!(out, "  identity  .store.json is missing or damaged; the next writer writes it again")?;
    }
    for step in &steps {
        let report = match store.glance(*step)? {
            None => continue,
            Some(Err(rejected)) => {
                writeln!(out, "  damaged   ckpt-step-{step}: {}", rejected.reason)?;
                wrong += 1;
                continue;
            }
            Some(Ok(_)) if quick => continue,
            Some(Ok(checkpoint)) => verify::read(&checkpoint)?.unwrap_or_default(),
        };
        if !report.is_valid() {
            let bad: Vec<String> = report.bad.iter().map(ToString::to_string).collect();
            writeln!(out, "  damaged   ckpt-step-{step}: {}", bad.join(", "))?;
            wrong += 1;
        }
        for extra in report.extra {
            writeln!(out, "  extra     ckpt-step-{step}/{extra}: not in the manifest, ignored")?;
        }
    }
    for step in pins.keys().filter(|step| !steps.contains(step)) {
        writeln!(out, "  pin       of step {step}, which is not here: unpin it, or restore the checkpoint")?;
        wrong += 1;
    }
    for name in &leftovers {
        if writer.is_some() {
            writeln!(out, "  in use    {name}, by the writer, or left by an earlier one")?;
        } else {
            writeln!(out, "  garbage   {name}: the next writer removes it, or --repair")?;
            wrong += 1;
        }
    }
    for path in &abandoned {
        let path = path.strip_prefix(store.root()).unwrap_or(path);
        writeln!(
            out,
            "  aside     {}: left by a rollback, or damaged and saved again; yours to delete",
            path.display()
        )?;
    }
    for name in foreign.iter().take(MOST_FOREIGN) {
        writeln!(out, "  foreign   {name}: not the store's, never touched")?;
    }
    if foreign.len() > MOST_FOREIGN {
        writeln!(out, "  foreign   and {}", count(foreign.len() - MOST_FOREIGN, "more name"))?;
    }
    Ok(wrong)
}

/// Names of others that are shown one by one.
const MOST_FOREIGN: usize = 20;
