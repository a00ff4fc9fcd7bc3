//! A disk that is full without telling the file system: writes are taken, and the fsync after them fails.
//!
//! A second fsync on the same file would answer that all is well, and a read would give what was written, from memory,
//! while the disk holds something else.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use piton_checkpoint::{Error, FileHook, Op, Overwrite, SaveError, Store, Verdict};

use crate::content;
use crate::power::mount::{self, Kind, Mounted};
use crate::proof::{Outcome, Setting};
use crate::subject::options;

/// What the disk below can take, and what the file system believes that it can.
const ROOM: u64 = 24 << 20;
const BELIEVED: u64 = 200 << 20;

/// A checkpoint that fits.
const FITS: usize = 4_000_000;

/// How the save that does not fit writes.
#[derive(Clone, Copy, Debug)]
enum Files {
    /// One file of 40 MB, past the page cache.
    OneLarge,
    /// Eighty of half a megabyte, through it.
    ManySmall,
}

pub(crate) fn run(setting: &Setting) -> Result<Outcome> {
    if let Some(why) = mount::refused(setting).or_else(|| Kind::Ext4.missing()) {
        return Ok(Outcome::Skipped { why });
    }
    let (mut points, mut violations, mut notes) = (0, Vec::new(), Vec::new());
    for files in [Files::OneLarge, Files::ManySmall] {
        points += 1;
        match fill_up(setting, files) {
            Ok(error) => notes.push(format!("{files:?}: {error}")),
            Err(error) => violations.push(format!("{files:?}: {error:#}")),
        }
    }
    Ok(Outcome::of(points, notes.join("; "), violations))
}

/// Counts the syncs of each file.
#[derive(Debug, Default)]
struct Syncs(Mutex<BTreeMap<PathBuf, usize>>);

impl FileHook for Syncs {
    fn before(&self, op: Op, path: &Path) -> Verdict {
        if op == Op::Sync {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(path.to_owned()).or_default() += 1;
        }
        Verdict::Go
    }
}

/// Gives the call that failed and how.
fn fill_up(setting: &Setting, files: Files) -> Result<String> {
    let scratch = setting.scratch()?;
    let [below, at] = ["below", "mounted"].map(|name| scratch.path().join(name));
    for dir in [&below, &at] {
        fs::create_dir(dir)?;
    }
    let below = Mounted::memory(ROOM, &below)?;
    let image = below.dir().join("image");
    Kind::Ext4.make(&image, BELIEVED)?;
    let mounted = Mounted::image(Kind::Ext4, &image, &at)?;
    let root = at.join("store");

    let syncs = Arc::new(Syncs::default());
    let mut store = Store::open(&root, options().hook(Arc::clone(&syncs) as Arc<dyn FileHook>))?;
    store.save(1, Overwrite::Refuse, |stage| content::fill(stage, 1, FITS))?;
    let saved: Result<_, SaveError<Error>> = store.save(2, Overwrite::Refuse, |stage| match files {
        Files::OneLarge => content::fill(stage, 2, 40_000_000),
        Files::ManySmall => {
            (0..80_u8).try_for_each(|index| stage.write(&format!("{index}"), &[index; 500_000]))
        }
    });
    let Err(SaveError::Content(error) | SaveError::Store(error)) = saved else {
        anyhow::bail!("40 MB were saved on a disk of 24 MB");
    };
    let errno = error.errno().with_context(|| format!("the error does not say what failed: {error}"))?;
    let told = error.to_string();
    let call = told.split(' ').next().unwrap_or_default();
    drop(store);
    let twice = syncs.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some((path, count)) = twice.into_iter().find(|(_, count)| *count > 1) {
        anyhow::bail!("{} was synced {count} times", path.display());
    }
    on_disk(&root, 1).context("after the failure")?;
    mounted.unmount()?;

    let more = format!("remount,size={}", 2 * BELIEVED);
    mount::done(Command::new("mount").args(["-o", &more]).arg(below.dir()))?;
    Kind::Ext4.repair(&image)?;
    let mounted = Mounted::image(Kind::Ext4, &image, &at)?;
    on_disk(&root, 1).context("after the repair")?;
    let mut store = Store::open(&root, options())?;
    store.save(2, Overwrite::Refuse, |stage| content::fill(stage, 2, 40_000_000))?;
    drop(store);
    mount::forget_caches()?;
    let saved = Store::open_read_only(&root)?.at(2)?;
    content::examine(&saved, 40_000_000).context("the save after the repair")?;
    drop(saved);
    mounted.unmount()?;
    Ok(format!("{call} gave errno {errno}"))
}

/// The one checkpoint that is visible is whole, read from the disk and not from memory.
fn on_disk(root: &Path, step: u64) -> Result<()> {
    mount::forget_caches()?;
    let reader = Store::open_read_only(root)?;
    ensure!(reader.steps()? == [step], "{:?} are visible", reader.steps()?);
    content::examine(&reader.at(step)?, FITS)
}
