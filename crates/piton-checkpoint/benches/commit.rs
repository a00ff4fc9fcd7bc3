//! How long until a checkpoint is durable, next to the bare system calls that no durable save can do without.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on should stop where it is")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use divan::Bencher;
use divan::counter::BytesCount;
use piton_checkpoint::{Keep, Overwrite, Store, StoreOptions};
use tempfile::TempDir;

/// Files and bytes for each of them.
const SHAPES: [(usize, usize); 2] = [(5, 100_000), (1, 64 << 20)];

fn main() {
    divan::main();
}

/// In the target directory, since `/tmp` is in memory on some machines.
fn disk() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn store(root: &Path) -> Store {
    Store::open(root, StoreOptions::new("bench", "bench", || 0)).unwrap()
}

#[divan::bench(args = SHAPES, sample_count = 40, sample_size = 1)]
fn save(bencher: Bencher<'_, '_>, (files, bytes): (usize, usize)) {
    let (temp, data) = (disk(), vec![7; bytes]);
    let store = std::cell::RefCell::new(store(temp.path()));
    let mut step = 0;
    bencher
        .with_inputs(|| {
            store.borrow_mut().prune(Keep::Last(NonZeroUsize::MIN), &BTreeSet::new()).unwrap();
            step += 1;
            step
        })
        .input_counter(move |_| BytesCount::new(files * bytes))
        .bench_local_values(|step| {
            let saved = store.borrow_mut().save(step, Overwrite::Refuse, |stage| {
                (0..files).try_for_each(|file| stage.write(&format!("file-{file}"), &data))
            });
            saved.unwrap()
        });
}

/// Write and fsync each file, fsync the directory, rename it, fsync its parent: no hash, no manifest, no checks.
#[divan::bench(args = SHAPES, sample_count = 40, sample_size = 1)]
fn bare_system_calls(bencher: Bencher<'_, '_>, (files, bytes): (usize, usize)) {
    let (temp, data) = (disk(), vec![7; bytes]);
    let root = temp.path().to_owned();
    let mut step = 0;
    let mut before: Option<PathBuf> = None;
    bencher
        .with_inputs(|| {
            before.take().map(fs::remove_dir_all).transpose().unwrap();
            step += 1;
            let names = (root.join(format!("stage-{step}")), root.join(format!("done-{step}")));
            before = Some(names.1.clone());
            names
        })
        .input_counter(move |_| BytesCount::new(files * bytes))
        .bench_local_values(|(stage, done)| {
            fs::create_dir(&stage).unwrap();
            for file in 0..files {
                let mut file = File::create(stage.join(format!("file-{file}"))).unwrap();
                file.write_all(&data).unwrap();
                file.sync_all().unwrap();
            }
            File::open(&stage).unwrap().sync_all().unwrap();
            fs::rename(&stage, &done).unwrap();
            File::open(&root).unwrap().sync_all().unwrap();
        });
}

/// Find the newest, read and check every byte, then read a file of it.
#[divan::bench(args = SHAPES, sample_count = 40, sample_size = 1)]
fn load_verified(bencher: Bencher<'_, '_>, (files, bytes): (usize, usize)) {
    let (temp, data) = (disk(), vec![7; bytes]);
    let mut store = store(temp.path());
    let saved = store.save(1, Overwrite::Refuse, |stage| {
        (0..files).try_for_each(|file| stage.write(&format!("file-{file}"), &data))
    });
    saved.unwrap();
    bencher
        .counter(BytesCount::new(files * bytes))
        .bench_local(|| store.latest().unwrap().unwrap().read("file-0").unwrap());
}
