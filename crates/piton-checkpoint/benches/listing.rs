//! What foreign names in the root cost: `cargo bench -p piton-checkpoint --bench listing`.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on should stop where it is")]

use std::path::Path;

use divan::Bencher;
use piton_checkpoint::{Error, Overwrite, Store, StoreOptions};

fn main() {
    divan::main();
}

fn open(root: &Path) -> Store {
    Store::open(root, StoreOptions::new("bench", "", || 0)).unwrap()
}

fn with_foreign_names(count: usize) -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    for n in 0..count {
        std::fs::write(temp.path().join(format!("somebody-elses-file-{n:06}.txt")), b"").unwrap();
    }
    let save = |stage: &mut piton_checkpoint::Stage| -> Result<(), Error> { stage.write("x", b"x") };
    open(temp.path()).save(1, Overwrite::Refuse, save).unwrap();
    temp
}

#[divan::bench(args = [0, 10_000, 100_000])]
fn latest(bencher: Bencher<'_, '_>, foreign: usize) {
    let temp = with_foreign_names(foreign);
    let reader = Store::open_read_only(temp.path()).unwrap();
    bencher.bench_local(|| reader.latest().unwrap());
}

#[divan::bench(args = [0, 10_000, 100_000])]
fn open_for_writing(bencher: Bencher<'_, '_>, foreign: usize) {
    let temp = with_foreign_names(foreign);
    bencher.bench_local(|| open(temp.path()));
}
