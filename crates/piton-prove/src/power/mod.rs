//! Power cuts, on a disk that remembers the order of writes and flushes.
//!
//! ```text
//! piton-prove subject ─> ext4 or xfs ─> loop device ─> disk.img, served by this process through FUSE ─> log
//! log, a moment, a choice of the writes since the last flush ─> disk.img ─> loop device ─> mount ─> look
//! ```
//!
//! This is stricter than real disks, which mostly keep the order of writes. It cannot lose what was flushed.

mod cut;
mod disk;
mod image;
pub(crate) mod mount;
pub(crate) mod rig;

use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use self::mount::Kind;
use self::rig::{Recording, Writer};
use crate::check;
use crate::proof::{Outcome, Setting};
use crate::scenario::Scenario;
use crate::wrong::Wrong;

/// Files over 1 MiB are written past the page cache.
const LOADS: [Scenario; 4] = [
    Scenario { keep: 1, large: 50_000, exchange: false, background: false },
    Scenario { keep: 2, large: 1_500_000, exchange: true, background: false },
    Scenario { keep: 1, large: 1_500_000, exchange: false, background: true },
    Scenario { keep: 2, large: 50_000, exchange: false, background: true },
];

/// Steps that a subject saves.
const STEPS: u64 = 9;

pub(crate) fn run(setting: &Setting) -> Result<Outcome> {
    if let Some(why) = mount::refused(setting) {
        return Ok(Outcome::Skipped { why });
    }
    let (mut points, mut violations, mut notes) = (0, Vec::new(), Vec::new());
    for (kind, sampled, long) in [(Kind::Ext4, 60, 4_000), (Kind::Xfs, 20, 1_200)] {
        if let Some(why) = kind.missing() {
            notes.push(format!("{}: skipped, {why}", kind.name()));
            continue;
        }
        let each = if setting.long { long } else { sampled } / LOADS.len();
        let mut of_kind = 0;
        for (load, seed) in LOADS.iter().zip(setting.seed..) {
            let recording = Recording::of(setting, kind, |writer| subject(writer, load, None))?;
            let (tried, found) = recording.replay(each, seed, |root, acked| {
                check::visible(root, acked, load.large)?;
                check::recovers(root, acked, load.large)
            })?;
            of_kind += tried;
            violations.extend(found.into_iter().map(|found| format!("{load}, {found}")));
        }
        points += of_kind;
        notes.push(format!("{}: {of_kind}", kind.name()));
        if setting.long {
            let (note, dull) = bites(setting, kind)?;
            notes.push(note);
            violations.extend(dull);
        }
    }
    if points == 0 {
        return Ok(Outcome::Skipped { why: notes.join("; ") });
    }
    Ok(Outcome::of(points, notes.join("; "), violations))
}

/// What the same cuts find where something is left out of the protocol, and what they should have found.
fn bites(setting: &Setting, kind: Kind) -> Result<(String, Vec<String>)> {
    let load = LOADS[0];
    let count = if kind == Kind::Ext4 { 400 } else { 100 };
    let (mut notes, mut dull) = (Vec::new(), Vec::new());
    for wrong in Wrong::value_variants() {
        let recording = Recording::of(setting, kind, |writer| subject(writer, &load, Some(*wrong)))?;
        let (tried, found) =
            recording.replay(count, setting.seed, |root, acked| check::visible(root, acked, load.large))?;
        notes.push(format!("{} {} of {tried}", wrong.what(), found.len()));
        if *wrong != Wrong::Nothing && found.is_empty() {
            dull.push(format!("{}: {} lost nothing in {tried} cuts", kind.name(), wrong.what()));
        }
        if *wrong == Wrong::Nothing {
            dull.extend(found);
        }
    }
    Ok((format!("{} with wrong protocols lost: {}", kind.name(), notes.join(", ")), dull))
}

fn subject(writer: &Writer<'_>, load: &Scenario, wrong: Option<Wrong>) -> Result<()> {
    let args = load.subject(writer.root, STEPS)?;
    let mut command = Command::new(&args[0]);
    command.args(&args[1..]).arg("--ack").arg(writer.mark);
    if let Some(wrong) = wrong.as_ref().and_then(ValueEnum::to_possible_value) {
        command.args(["--wrong", wrong.get_name()]);
    }
    let ended = command.output().context("cannot start a subject")?;
    ensure!(ended.status.success(), "a subject failed: {}", String::from_utf8_lossy(&ended.stderr).trim());
    Ok(())
}
