//! `piton checkpoint ls`

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use piton_checkpoint::{Checkpoint, Reader, Rejected, Store};
use serde::Serialize;

use super::Verdict;
use super::args::LsArgs;
use super::format::{age, count, metrics, size, table};
use super::target::Target;

/// A store as `--json` shows it.
#[derive(Debug, Serialize)]
struct Listed {
    path: PathBuf,
    run_id: Option<String>,
    /// Who has it open for writing.
    writer: Option<String>,
    checkpoints: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    step: u64,
    path: PathBuf,
    created_unix_ms: Option<u64>,
    bytes: Option<u64>,
    files: Option<usize>,
    metrics: BTreeMap<String, f64>,
    /// The note of the pin, if there is one.
    pin: Option<String>,
    /// Why it cannot be used; by manifest and sizes only.
    damage: Option<String>,
}

pub(super) fn run(args: &LsArgs, now_unix_ms: u64, out: &mut dyn Write) -> Result<Verdict> {
    let stores = match Target::at(&args.at.path)? {
        Target::Stores(stores) => stores.iter().map(|store| list(store, None)).collect::<Result<Vec<_>>>()?,
        Target::Checkpoint(path) => match Target::one_store(&path) {
            Ok((store, step)) => vec![list(store.root(), step)?],
            // A copy outside of any store.
            Err(_) => {
                let checkpoint = Checkpoint::open_dir(&path)?;
                let row = row(checkpoint.step(), &path, Ok(&checkpoint), None);
                vec![Listed { path, run_id: None, writer: None, checkpoints: vec![row] }]
            }
        },
    };
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&stores)?)?;
        return Ok(Verdict::Good);
    }
    for (at, store) in stores.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        tell(store, now_unix_ms, out)?;
    }
    Ok(Verdict::Good)
}

fn list(root: &Path, only: Option<u64>) -> Result<Listed> {
    let store = Store::open_read_only(root)?;
    let survey = store.survey()?;
    let mut checkpoints = Vec::new();
    for step in survey.steps.into_iter().filter(|step| only.is_none_or(|only| only == *step)) {
        checkpoints.extend(glance(&store, step, survey.pins.get(&step))?);
    }
    let run_id = survey.identity.map(|identity| identity.run_id);
    Ok(Listed { path: root.to_owned(), run_id, writer: survey.writer, checkpoints })
}

/// `None` when it was pruned meanwhile.
fn glance(store: &Reader, step: u64, pin: Option<&String>) -> Result<Option<Row>> {
    let path = store.root().join(piton_checkpoint::checkpoint_name(step));
    let Some(found) = store.glance(step)? else { return Ok(None) };
    let intact = match &found {
        Ok(checkpoint) => Ok(checkpoint),
        Err(rejected) => Err(rejected),
    };
    Ok(Some(row(step, &path, intact, pin.cloned())))
}

fn row(step: u64, path: &Path, found: Result<&Checkpoint, &Rejected>, pin: Option<String>) -> Row {
    let manifest = found.ok().map(Checkpoint::manifest);
    Row {
        step,
        path: path.to_owned(),
        created_unix_ms: manifest.map(|manifest| manifest.created_unix_ms),
        bytes: manifest.map(|manifest| manifest.files.iter().map(|file| file.size).sum()),
        files: manifest.map(|manifest| manifest.files.len()),
        metrics: manifest.map(|manifest| manifest.metrics.clone()).unwrap_or_default(),
        pin,
        damage: found.err().map(|rejected| rejected.reason.to_string()),
    }
}

fn tell(store: &Listed, now_unix_ms: u64, out: &mut dyn Write) -> Result<()> {
    let run = store.run_id.as_ref().map(|run_id| format!("  run {run_id}")).unwrap_or_default();
    writeln!(out, "{}{run}", store.path.display())?;
    if let Some(writer) = &store.writer {
        writeln!(out, "  being written by {writer}")?;
    }
    if store.checkpoints.is_empty() {
        writeln!(out, "  no checkpoints")?;
        return Ok(());
    }
    let rows: Vec<Vec<String>> = store.checkpoints.iter().map(|row| cells(row, now_unix_ms)).collect();
    let head = ["STEP", "AGE", "SIZE", "FILES", "METRICS", "PIN", "STATE"];
    write!(out, "{}", table(&head, 4, &rows))?;
    let bytes = store.checkpoints.iter().filter_map(|row| row.bytes).sum();
    let damaged = store.checkpoints.iter().filter(|row| row.damage.is_some()).count();
    let damaged = if damaged == 0 { String::new() } else { format!(", {damaged} damaged") };
    writeln!(out, "  {}, {}{damaged}", count(store.checkpoints.len(), "checkpoint"), size(bytes))?;
    Ok(())
}

fn cells(row: &Row, now_unix_ms: u64) -> Vec<String> {
    let pin = match row.pin.as_deref() {
        None => String::new(),
        Some("") => "pinned".to_owned(),
        Some(note) => note.to_owned(),
    };
    vec![
        row.step.to_string(),
        row.created_unix_ms.map(|created| age(created, now_unix_ms)).unwrap_or_default(),
        row.bytes.map(size).unwrap_or_default(),
        row.files.map(|files| files.to_string()).unwrap_or_default(),
        metrics(&row.metrics),
        pin,
        row.damage.as_ref().map_or_else(|| "ok".to_owned(), |damage| format!("damaged: {damage}")),
    ]
}
