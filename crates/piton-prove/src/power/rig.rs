//! Recording what a writer does to a disk, and looking at the disk after every kind of power cut.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use piton_rng::Seed;
use tempfile::TempDir;

use super::cut::{self, Cut};
use super::disk::Disk;
use super::image::{Event, Image};
use super::mount::{Kind, Mounted};
use crate::proof::Setting;

/// A file that the writer does not own; it lies in the directory in which the writer saves.
const FOREIGN: (&str, &str) = ("notes.txt", "not a checkpoint\n");

/// How long the noise waits between its syncs: they make the file system write its journal, without which a rename that
/// nobody synced rarely reaches the disk.
const NOISE: Duration = Duration::from_millis(4);

/// A disk with a recording of everything that was written to it.
#[derive(Debug)]
pub(crate) struct Recording {
    // the mount goes before the directory it is on
    disk: Disk,
    kind: Kind,
    log: Vec<Event>,
    at: PathBuf,
    _scratch: TempDir,
}

/// What the writer is given.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    /// Where to save; nothing but a foreign file is there.
    pub root: &'a Path,
    /// Where to append `ack STEP` after a save.
    pub mark: &'a Path,
}

impl Recording {
    /// Records what `write` does on a fresh file system.
    pub(crate) fn of(
        setting: &Setting,
        kind: Kind,
        write: impl FnOnce(&Writer<'_>) -> Result<()>,
    ) -> Result<Self> {
        let scratch = setting.scratch()?;
        let [fuse, at] = ["fuse", "mounted"].map(|name| scratch.path().join(name));
        for dir in [&fuse, &at] {
            fs::create_dir(dir)?;
        }
        let image = scratch.path().join("image");
        kind.make(&image, kind.bytes())?;
        let disk = Disk::mount(&fuse, kind.bytes(), Image::of(&image)?)?;
        fs::remove_file(&image)?;

        disk.record();
        let mounted = Mounted::image(kind, &disk.image(), &at)?;
        let root = at.join("store");
        fs::create_dir(&root)?;
        fs::write(root.join(FOREIGN.0), FOREIGN.1)?;
        mounted.unmount()?;
        disk.settle(cut::writes(&disk.take_log()));

        disk.record();
        let mounted = Mounted::image(kind, &disk.image(), &at)?;
        let ended = AtomicBool::new(false);
        let written = thread::scope(|scope| {
            let noise = scope.spawn(|| noise(&at.join("noise.log"), &ended));
            let written = write(&Writer { root: &root, mark: &disk.mark() });
            ended.store(true, Ordering::Relaxed);
            let noise = noise.join().unwrap_or_else(|_| Err(std::io::Error::other("the noise panicked")));
            written.and_then(|()| noise.context("the noise failed"))
        });
        written?;
        mounted.unmount()?;
        let log = disk.take_log();
        Ok(Self { disk, kind, log, at, _scratch: scratch })
    }

    /// Cuts the power `count` times; `check` gets the directory that the writer saved in and the last step that was
    /// acknowledged, and fails if something is lost. Gives the number of cuts and what was lost.
    pub(crate) fn replay(
        &self,
        count: usize,
        seed: u64,
        mut check: impl FnMut(&Path, u64) -> Result<()>,
    ) -> Result<(u64, Vec<String>)> {
        let (mut points, mut violations, mut settled) = (0, Vec::new(), 0);
        for cut in cut::choose(&self.log, count, Seed(seed)) {
            let durable = cut::durable(&self.log, cut.at);
            self.disk.settle(cut::writes(&self.log[settled..durable.max(settled)]));
            settled = durable.max(settled);
            self.disk.set_to(cut::keep(&self.log[durable..cut.at], cut.kept, Seed(seed), points));
            let acked = cut::acknowledged(&self.log, cut.at);
            points += 1;
            if let Err(error) = self.look(acked, &mut check) {
                violations.push(format!("{}: {error:#}", self.describe(cut, durable, acked)));
            }
        }
        Ok((points, violations))
    }

    fn look(&self, acked: u64, check: &mut impl FnMut(&Path, u64) -> Result<()>) -> Result<()> {
        let image = self.disk.image();
        let mounted = Mounted::image(self.kind, &image, &self.at).or_else(|refused| {
            // A torn superblock, for one, is beyond the journal; a machine that boots would repair as well.
            self.kind.repair(&image).context(refused)?;
            Mounted::image(self.kind, &image, &self.at)
        })?;
        let root = self.at.join("store");
        let looked = check(&root, acked).and_then(|()| {
            let foreign = fs::read_to_string(root.join(FOREIGN.0)).context("the foreign file is gone")?;
            ensure!(foreign == FOREIGN.1, "the foreign file was changed");
            Ok(())
        });
        mounted.unmount()?;
        looked
    }

    fn describe(&self, cut: Cut, durable: usize, acked: u64) -> String {
        let (kind, events) = (self.kind.name(), self.log.len());
        let Cut { at, kept } = cut;
        format!(
            "{kind}, event {at} of {events}, {} since the flush, {kept:?} kept, {acked} acknowledged",
            at - durable
        )
    }
}

fn noise(path: &Path, ended: &AtomicBool) -> std::io::Result<()> {
    let mut file: File = OpenOptions::new().create(true).append(true).open(path)?;
    while !ended.load(Ordering::Relaxed) {
        file.write_all(b"a line of somebody else's log\n")?;
        file.sync_all()?;
        thread::sleep(NOISE);
    }
    Ok(())
}
