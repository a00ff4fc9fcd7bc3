//! `piton checkpoint diff`

use std::io::Write;

use anyhow::Result;
use piton_checkpoint::{FileChange, TensorChange};
use serde_json::Value;

use super::Verdict;
use super::args::DiffArgs;
use super::format::{count, metrics, size};
use super::target::Target;

pub(super) fn run(args: &DiffArgs, out: &mut dyn Write) -> Result<Verdict> {
    let (first, second) = (Target::one_checkpoint(&args.first)?, Target::one_checkpoint(&args.second)?);
    for (sign, of) in [("---", &first), ("+++", &second)] {
        let told = format!(
            "{sign} {}  step {}  {}",
            of.path().display(),
            of.step(),
            metrics(&of.manifest().metrics)
        );
        writeln!(out, "{}", told.trim_end())?;
    }
    let changes = piton_checkpoint::diff(&first, &second)?;
    let same = first.files().filter(|path| !changes.contains_key(*path)).count();
    for (path, change) in &changes {
        match change {
            FileChange::OnlyInFirst(bytes) => writeln!(out, "- {path}  {}", size(*bytes))?,
            FileChange::OnlyInSecond(bytes) => writeln!(out, "+ {path}  {}", size(*bytes))?,
            FileChange::Bytes(old, new) if old == new => {
                writeln!(out, "! {path}  {}, other bytes", size(*old))?
            }
            FileChange::Bytes(old, new) => writeln!(out, "! {path}  {} -> {}", size(*old), size(*new))?,
            FileChange::Json(members) => {
                writeln!(out, "! {path}")?;
                for (at, (old, new)) in members {
                    writeln!(out, "    {at}: {} -> {}", shown(old.as_ref()), shown(new.as_ref()))?;
                }
            }
            FileChange::Tensors(tensors) => {
                writeln!(out, "! {path}")?;
                for (name, change) in tensors {
                    writeln!(out, "    {name}  {}", tensor(change))?;
                }
            }
            _ => writeln!(out, "! {path}")?,
        }
    }
    writeln!(out, "{} different, {} the same", count(changes.len(), "file"), count(same, "file"))?;
    Ok(if changes.is_empty() { Verdict::Good } else { Verdict::Bad })
}

fn tensor(change: &TensorChange) -> String {
    match change {
        TensorChange::OnlyInFirst(kind) => format!("{kind}  only in the first"),
        TensorChange::OnlyInSecond(kind) => format!("{kind}  only in the second"),
        TensorChange::Kind(old, new) => format!("{old} -> {new}"),
        TensorChange::Values { kind, largest: Some(largest) } => {
            format!("{kind}  largest difference {largest:.3e}")
        }
        TensorChange::Values { kind, .. } => format!("{kind}  other values"),
        _ => "differs".to_owned(),
    }
}

/// A value on one line, cut where it gets long.
fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}
