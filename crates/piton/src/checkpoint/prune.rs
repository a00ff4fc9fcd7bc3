//! `piton checkpoint prune`

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Context, Result, bail};
use piton_checkpoint::{Plan, Reader, Retention};

use super::args::PruneArgs;
use super::format::{age, count, size, table};
use super::target::Target;
use super::{Verdict, writer};

pub(super) fn run(args: &PruneArgs, now_unix_ms: u64, out: &mut dyn Write) -> Result<Verdict> {
    let (store, None) = Target::one_store(&args.at.path)? else {
        bail!("{} is one checkpoint: prune wants its store, one folder up", args.at.path.display());
    };
    let mut policies = args.keep.iter().cloned();
    let first = policies.next().context("--keep is missing")?;
    let retention = policies.fold(Retention::from(first), Retention::or);

    if args.dry_run {
        let plan = store.plan(&retention, &BTreeSet::new(), now_unix_ms)?;
        let freed = tell(&store, &plan, now_unix_ms, out)?;
        let what = count(plan.remove.len(), "checkpoint");
        writeln!(out, "  would remove {what}, {}; nothing was changed (--dry-run)", size(freed))?;
        return Ok(Verdict::Good);
    }
    // Locked first, so that the table is about the same moment as the deed.
    let mut writer = writer(&store, now_unix_ms)?;
    let plan = writer.plan(&retention, &BTreeSet::new())?;
    let freed = tell(&store, &plan, now_unix_ms, out)?;
    let pruned = writer.prune(retention, &BTreeSet::new())?;
    if pruned.pinned.is_empty() {
        writeln!(out, "  removed {}, {}", count(pruned.removed.len(), "checkpoint"), size(freed))?;
    } else {
        let (removed, held) = (count(pruned.removed.len(), "checkpoint"), pruned.pinned);
        writeln!(out, "  removed {removed}; somebody is reading {held:?}, prune again later")?;
    }
    for problem in &pruned.problems {
        writeln!(out, "  problem: {problem}; the next writer tries again")?;
    }
    Ok(if pruned.problems.is_empty() { Verdict::Good } else { Verdict::Bad })
}

/// Shows what becomes of each checkpoint and why; returns the bytes that go.
fn tell(store: &Reader, plan: &Plan, now_unix_ms: u64, out: &mut dyn Write) -> Result<u64> {
    writeln!(out, "{}", store.root().display())?;
    let pins = store.pins()?;
    let (mut rows, mut freed) = (Vec::new(), 0);
    for step in store.steps()? {
        let Some(Ok(checkpoint)) = store.glance(step)? else {
            rows.push(vec![
                step.to_string(),
                String::new(),
                String::new(),
                "stays".into(),
                "damaged: yours to delete".into(),
            ]);
            continue;
        };
        let bytes = checkpoint.manifest().files.iter().map(|file| file.size).sum();
        let (what, why) = match plan.keep.get(&step) {
            Some(reasons) => {
                let pin = pins.get(&step).filter(|note| !note.is_empty()).map(|note| format!(" ({note})"));
                let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                ("stays", reasons.join(", ") + &pin.unwrap_or_default())
            }
            None if plan.remove.contains(&step) => {
                freed += bytes;
                ("goes", String::new())
            }
            None => ("stays", "damaged: yours to delete".to_owned()),
        };
        let age = age(checkpoint.manifest().created_unix_ms, now_unix_ms);
        rows.push(vec![step.to_string(), age, size(bytes), what.to_owned(), why]);
    }
    write!(out, "{}", table(&["STEP", "AGE", "SIZE", "", "WHY"], 3, &rows))?;
    Ok(freed)
}
