//! `piton checkpoint verify`

use std::io::Write;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use piton_checkpoint::{Checkpoint, Reader, Reason, Report, Store};

use super::Verdict;
use super::args::PathArgs;
use super::format::{count, size};
use super::target::Target;

pub(super) fn run(args: &PathArgs, out: &mut dyn Write) -> Result<Verdict> {
    let mut looked = Looked::default();
    match Target::at(&args.path)? {
        Target::Stores(stores) => {
            for store in stores {
                let store = Store::open_read_only(store)?;
                for step in store.steps()? {
                    at_step(&store, step, &mut looked, out)?;
                }
            }
        }
        Target::Checkpoint(path) => match Target::one_store(&path) {
            Ok((store, Some(step))) => at_step(&store, step, &mut looked, out)?,
            _ => tell(&Checkpoint::open_dir(path)?, &mut looked, out)?,
        },
    }
    let Looked { good, bad } = looked;
    let told = if bad == 0 { "every byte as it was written".to_owned() } else { format!("{bad} damaged") };
    writeln!(out, "{} read, {told}", count(good + bad, "checkpoint"))?;
    Ok(if bad == 0 { Verdict::Good } else { Verdict::Bad })
}

/// How many were looked at.
#[derive(Default)]
struct Looked {
    good: usize,
    bad: usize,
}

fn at_step(store: &Reader, step: u64, looked: &mut Looked, out: &mut dyn Write) -> Result<()> {
    match store.glance(step)? {
        // Pruned since it was listed.
        None => Ok(()),
        Some(Ok(checkpoint)) => tell(&checkpoint, looked, out),
        Some(Err(rejected)) => match (Checkpoint::open_dir(&rejected.path), &rejected.reason) {
            // The sizes already tell of one bad file; read the others too, so that each is named.
            (Ok(checkpoint), Reason::Files(_)) => tell(&checkpoint, looked, out),
            _ => {
                looked.bad += 1;
                writeln!(out, "{}  damaged\n  {}", rejected.path.display(), rejected.reason)?;
                Ok(())
            }
        },
    }
}

fn tell(checkpoint: &Checkpoint, looked: &mut Looked, out: &mut dyn Write) -> Result<()> {
    let Some(Report { bad, extra }) = read(checkpoint)? else { return Ok(()) };
    let files = &checkpoint.manifest().files;
    let what = format!("{}, {}", count(files.len(), "file"), size(files.iter().map(|file| file.size).sum()));
    if bad.is_empty() {
        looked.good += 1;
        writeln!(out, "{}  ok  {what}", checkpoint.path().display())?;
    } else {
        looked.bad += 1;
        writeln!(out, "{}  damaged  {what}", checkpoint.path().display())?;
    }
    for bad in bad {
        writeln!(out, "  {bad}")?;
    }
    for extra in extra {
        writeln!(out, "  {extra} is not in the manifest and is ignored")?;
    }
    Ok(())
}

/// Reads all of a checkpoint, with a bar on a terminal; `None` when it was pruned before it could be held.
pub(super) fn read(checkpoint: &Checkpoint) -> Result<Option<Report>> {
    // A writer that prunes meanwhile leaves it until this is dropped. A copy outside a store cannot be pruned.
    let pin = checkpoint.pin();
    if pin.is_err() && !checkpoint.path().exists() {
        return Ok(None);
    }
    let bytes = checkpoint.manifest().files.iter().map(|file| file.size).sum();
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg}  {bytes}/{total_bytes} {wide_bar} {bytes_per_sec}");
    let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(format!("step {}", checkpoint.step()));
    let report = checkpoint.verify_with(&mut |read| bar.inc(read));
    bar.finish_and_clear();
    Ok(Some(report?))
}
