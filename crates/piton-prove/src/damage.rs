//! Damage of every kind to every file of the newest checkpoint: found, named, survived; nothing outside touched.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use piton_checkpoint::{CHUNK_BYTES, Error, MANIFEST, Store};

use crate::content;
use crate::proof::{Outcome, Setting};
use crate::scenario::Scenario;

/// A file over one chunk and a few small ones.
const SCENARIO: Scenario = Scenario { keep: 2, large: 5_000_000, exchange: false, background: false };
/// The newest step of the store.
const NEWEST: u64 = 2;
/// Names in the root that look like much and are nothing.
const JUNK: usize = 10_000;

/// What is done to one file.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Flip { offset: u64, bit: u8 },
    Cut { to: u64 },
    Grow,
    Delete,
    Link,
    Directory,
    Fifo,
}

pub(crate) fn run(setting: &Setting) -> Result<Outcome> {
    let scratch = setting.scratch()?;
    let root = scratch.path().join("store");
    SCENARIO.prepare(&root)?;
    let canary = scratch.path().join("canary");
    fs::write(&canary, b"outside the store")?;
    let newest = root.join(piton_checkpoint::checkpoint_name(NEWEST));
    let mut points = 0;
    let mut violations = Vec::new();
    let paths = ["train_state.json", "weights/model.bin", "tasks/sum/empty", MANIFEST];
    for path in paths {
        let file = newest.join(path);
        for harm in harms(fs::metadata(&file)?.len(), path == MANIFEST && setting.long) {
            points += 1;
            let found = try_out(&root, &file, path, harm, &canary);
            if let Err(error) = found {
                violations.push(format!("{path}, {harm:?}: {error:#}"));
            }
        }
    }
    for (what, attempt) in OTHERS {
        points += 1;
        if let Err(error) = attempt(&root, scratch.path()) {
            violations.push(format!("{what}: {error:#}"));
        }
    }
    Ok(Outcome::of(points, "bits, cuts, missing and planted files, escapes, junk names", violations))
}

/// Every class of offset: the ends, the middle, the borders of chunks, pages and the last block.
fn harms(size: u64, every_byte: bool) -> Vec<Harm> {
    let mut offsets: Vec<u64> = match every_byte {
        true => (0..size).collect(),
        false => {
            let borders = [0, 512, 4096, CHUNK_BYTES, size];
            let around = borders.into_iter().flat_map(|at| [at.saturating_sub(1), at, at + 1]);
            around.chain([size / 3, size / 2]).filter(|at| *at < size).collect()
        }
    };
    offsets.sort_unstable();
    offsets.dedup();
    let flips =
        offsets.iter().map(|&offset| Harm::Flip { offset, bit: u8::try_from(offset % 8).unwrap_or(0) });
    let cuts = offsets.iter().map(|&to| Harm::Cut { to });
    flips.chain(cuts).chain([Harm::Grow, Harm::Delete, Harm::Link, Harm::Directory, Harm::Fifo]).collect()
}

fn try_out(root: &Path, file: &Path, path: &str, harm: Harm, canary: &Path) -> Result<()> {
    let whole = fs::read(file)?;
    inflict(file, harm, canary)?;
    let found = (|| {
        let reader = Store::open_read_only(root)?;
        let refused = match reader.at(NEWEST) {
            Ok(_) => anyhow::bail!("it was not noticed"),
            Err(Error::Rejected { rejected }) => rejected.to_string(),
            Err(other) => anyhow::bail!("an error of the machine, not of the checkpoint: {other}"),
        };
        let name = if path == MANIFEST { "manifest" } else { path };
        ensure!(refused.to_lowercase().contains(&name.to_lowercase()), "the file is not named: {refused}");
        let taken = reader.latest()?.context("nothing is left")?;
        ensure!(taken.step() == NEWEST - 1, "step {} was taken", taken.step());
        content::examine(&taken, SCENARIO.large)?;
        ensure!(fs::read(canary)? == b"outside the store", "a file outside was touched");
        Ok(())
    })();
    if file.is_dir() && !file.is_symlink() {
        fs::remove_dir(file)?
    } else {
        drop(fs::remove_file(file))
    }
    fs::write(file, whole)?;
    let healed = Store::open_read_only(root)?.latest()?.context("nothing is left")?;
    ensure!(healed.step() == NEWEST, "the repaired checkpoint is not taken");
    found
}

fn inflict(file: &Path, harm: Harm, canary: &Path) -> Result<()> {
    match harm {
        Harm::Flip { offset, bit } => {
            let open = fs::OpenOptions::new().read(true).write(true).open(file)?;
            let mut byte = [0];
            open.read_exact_at(&mut byte, offset)?;
            open.write_all_at(&[byte[0] ^ (1 << bit)], offset)?;
        }
        Harm::Cut { to } => fs::OpenOptions::new().write(true).open(file)?.set_len(to)?,
        Harm::Grow => {
            let open = fs::OpenOptions::new().write(true).open(file)?;
            open.write_all_at(b"x", open.metadata()?.size())?;
        }
        Harm::Delete => fs::remove_file(file)?,
        Harm::Link => {
            fs::remove_file(file)?;
            symlink(canary, file)?;
        }
        Harm::Directory => {
            fs::remove_file(file)?;
            fs::create_dir(file)?;
        }
        Harm::Fifo => {
            fs::remove_file(file)?;
            rustix::fs::mknodat(
                rustix::fs::CWD,
                file,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::from_raw_mode(0o644),
                0,
            )?;
        }
    }
    Ok(())
}

type Attempt = fn(&Path, &Path) -> Result<()>;

/// What is not done to a single file.
const OTHERS: [(&str, Attempt); 5] = [
    ("an extra file", extra_file),
    ("files of two checkpoints exchanged", exchanged),
    ("a manifest that leads outside", escape),
    ("a link in place of a checkpoint", planted_checkpoint),
    ("ten thousand junk names", junk),
];

fn extra_file(root: &Path, _: &Path) -> Result<()> {
    let extra = root.join("ckpt-step-2/weights/notes.txt");
    fs::write(&extra, b"mine")?;
    let found = Store::open_read_only(root)?.at(NEWEST)?.verify()?;
    ensure!(found.is_valid() && found.extra == ["weights/notes.txt"], "{found:?}");
    fs::remove_file(extra)?;
    Ok(())
}

fn exchanged(root: &Path, scratch: &Path) -> Result<()> {
    let (old, new) = (root.join("ckpt-step-1/weights/model.bin"), root.join("ckpt-step-2/weights/model.bin"));
    let between = scratch.join("between");
    let exchange = || -> Result<()> {
        fs::rename(&old, &between)?;
        fs::rename(&new, &old)?;
        Ok(fs::rename(&between, &new)?)
    };
    exchange()?;
    let reader = Store::open_read_only(root)?;
    ensure!(reader.at(1).is_err() && reader.at(2).is_err(), "exchanged files were taken");
    ensure!(matches!(reader.latest(), Err(Error::NoValidCheckpoint { .. })), "a start from nothing");
    exchange()
}

/// A manifest with a right checksum that lists `../../canary`.
fn escape(root: &Path, _: &Path) -> Result<()> {
    let path = root.join("ckpt-step-2").join(MANIFEST);
    let whole = fs::read_to_string(&path)?;
    let (body, _) = whole.split_once("  \"self_blake3\"").context("a manifest without a checksum")?;
    let body = body.replace("\"path\": \"tasks/sum/empty\"", "\"path\": \"../../canary\"");
    let sum = blake3::hash(body.as_bytes());
    fs::write(&path, format!("{body}  \"self_blake3\": \"{sum}\"\n}}\n"))?;
    let refused = Store::open_read_only(root)?.at(NEWEST).err().map(|error| error.to_string());
    fs::write(&path, &whole)?;
    let refused = refused.context("it was taken")?;
    ensure!(refused.contains("../../canary"), "the path is not named: {refused}");
    Ok(())
}

fn planted_checkpoint(root: &Path, scratch: &Path) -> Result<()> {
    let elsewhere = scratch.join("elsewhere");
    crate::scenario::copy(&root.join("ckpt-step-2"), &elsewhere)?;
    let planted = root.join("ckpt-step-9");
    symlink(&elsewhere, &planted)?;
    let reader = Store::open_read_only(root)?;
    ensure!(reader.at(9).is_err(), "a link was followed");
    ensure!(reader.latest()?.is_some_and(|taken| taken.step() == NEWEST), "the real newest was not taken");
    fs::remove_file(planted)?;
    ensure!(elsewhere.join(MANIFEST).is_file(), "the other end of the link was touched");
    Ok(())
}

fn junk(root: &Path, _: &Path) -> Result<()> {
    let kinds = [
        "ckpt-step-0{}x",
        "ckpt-step-{}.bak",
        "old-ckpt-step-{}",
        "ckpt-step--{}",
        "ckpt-step-{} (1)",
        "CKPT-STEP-{}",
    ];
    let names: Vec<PathBuf> = (0..JUNK)
        .map(|at| root.join(kinds[at % kinds.len()].replace("{}", &(at + 100).to_string())))
        .collect();
    for (at, name) in names.iter().enumerate() {
        if at % 2 == 0 { fs::write(name, b"")? } else { fs::create_dir(name)? }
    }
    let mut store = Store::open(root, crate::subject::options())?;
    ensure!(store.latest()?.is_some_and(|taken| taken.step() == NEWEST), "a foreign name was taken");
    let keep = piton_checkpoint::Keep::Last(std::num::NonZeroUsize::MIN);
    let pruned = store.prune(keep, &std::collections::BTreeSet::new())?;
    ensure!(pruned.removed == [NEWEST - 1], "{pruned:?}");
    if let Some(gone) = names.iter().find(|name| !name.exists()) {
        anyhow::bail!("{} is gone and was not the store's", gone.display());
    }
    Ok(())
}
