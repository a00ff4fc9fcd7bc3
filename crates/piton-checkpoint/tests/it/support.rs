//! What the tests share.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tempfile::TempDir;

use piton_checkpoint::{
    Checkpoint, Error, FileHook, Keep, Op, Overwrite, Reader, Stage, Store, StoreOptions, Verdict,
};

pub(crate) fn options() -> StoreOptions {
    StoreOptions::new("test-run", "test-config", || 1_796_000_000_000)
}

pub(crate) fn open(root: &Path) -> Store {
    Store::open(root, options()).unwrap()
}

pub(crate) fn read(root: &Path) -> Reader {
    Store::open_read_only(root).unwrap()
}

/// Remembers every system call.
#[derive(Debug, Default)]
pub(crate) struct Trace(Mutex<Vec<(Op, String)>>);

impl Trace {
    pub(crate) fn take(&self) -> Vec<(Op, String)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl FileHook for Trace {
    fn before(&self, op: Op, path: &Path) -> Verdict {
        self.0.lock().unwrap().push((op, path.display().to_string()));
        Verdict::Go
    }
}

/// A directory in memory where there is such a thing: for tests that write much and prove nothing about a disk.
pub(crate) fn in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Three files whose bytes are a function of the step.
pub(crate) fn fill(stage: &mut Stage, step: u64) -> Result<(), Error> {
    stage.write("train_state.json", format!("{{\"cur_step\": {step}}}\n").as_bytes())?;
    stage.write("weights/model.bin", &weights(step))?;
    stage.write("tasks/sum/empty", b"")
}

pub(crate) fn weights(step: u64) -> Vec<u8> {
    (0..50_000 + step % 1000).map(|at| ((at * 31 + step * 7) % 251) as u8).collect()
}

pub(crate) fn save(store: &mut Store, step: u64) -> Result<Checkpoint, Error> {
    Ok(store.save(step, Overwrite::Refuse, |stage| fill(stage, step))?)
}

/// A store with these steps, closed again.
pub(crate) fn store_with(root: &Path, steps: impl IntoIterator<Item = u64>) {
    let mut store = open(root);
    for step in steps {
        save(&mut store, step).unwrap();
    }
}

pub(crate) fn last(count: usize) -> Keep {
    Keep::Last(NonZeroUsize::new(count).unwrap())
}

pub(crate) fn no_pins() -> BTreeSet<u64> {
    BTreeSet::new()
}

/// Names in a directory, sorted, without the store's two files.
pub(crate) fn names(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != ".store.lock" && name != ".store.json");
    names.sort();
    names
}

/// Files and directories below `root` that this process has open.
pub(crate) fn open_in(root: &Path) -> Vec<PathBuf> {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let paths = descriptors.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
    paths.filter(|path| path.starts_with(root)).collect()
}

/// Fails unless the checkpoint holds what [`fill`] wrote.
pub(crate) fn assert_filled(checkpoint: &Checkpoint) {
    assert_eq!(checkpoint.read("weights/model.bin").unwrap(), weights(checkpoint.step()));
    assert!(checkpoint.verify().unwrap().is_valid());
}

/// Error numbers of Linux.
pub(crate) mod errno {
    pub(crate) const EACCES: i32 = 13;
    pub(crate) const EBUSY: i32 = 16;
    pub(crate) const EINTR: i32 = 4;
    pub(crate) const EINVAL: i32 = 22;
    pub(crate) const EIO: i32 = 5;
    pub(crate) const EMFILE: i32 = 24;
    pub(crate) const ENOENT: i32 = 2;
    pub(crate) const ENOSPC: i32 = 28;
    pub(crate) const EROFS: i32 = 30;
    pub(crate) const EXDEV: i32 = 18;
}
