//! Rates beside their physical limits, measured in turn in one run: `cargo bench -p piton-checkpoint --bench throughput`,
//! with `-- MIB ROUNDS` for another size (1024) and number of rounds (5).
//!
//! Each figure is the best of the rounds: the disk is shared, and what is asked is what the code can do.
//!
//! `-- --on-request DIR MIB` saves once into DIR for each line on standard input and answers with the seconds;
//! `throughput_peers.py` asks for a save between those of the libraries it compares with.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and stops where it fails")]

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use piton_checkpoint::{BackgroundStore, Keep, Overwrite, Store, StoreOptions};
use tempfile::TempDir;

const PIECE: usize = 8 << 20;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let numbers: Vec<usize> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    let bytes = numbers.first().copied().unwrap_or(1024) << 20;
    let rounds = numbers.get(1).copied().unwrap_or(5);
    let data: Vec<u8> =
        (0..bytes / 8).flat_map(|at| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--on-request") {
        return on_request(Path::new(&arguments[at + 1]), &data);
    }
    let root = disk();
    let mut best = Best::default();
    let (mut store, mut background) =
        (store(&root.path().join("now")), background(&root.path().join("later"), bytes));
    for round in 0..rounds as u64 {
        best.take("write past the cache + fsync, bare", || bare(&root.path().join("bare"), &data));
        best.take("save", || save(&mut store, round, &data));
        best.take("load, verified", || assert_eq!(store.latest().unwrap().unwrap().step(), round));
        best.take("read past the cache, bare", || read(&root.path().join("bare")));
        best.take("blake3", || {
            std::hint::black_box(blake3::hash(&data));
        });
        let mut copy = vec![1; bytes];
        best.take("memcpy, warm", || {
            copy.copy_from_slice(&data);
            std::hint::black_box(&copy);
        });
        drop(copy);
        let mut handle = None;
        best.take("save in the background: stall", || {
            let saved = background.save(round, Overwrite::Refuse, |stage| stage.write("model.bin", &data));
            handle = Some(saved.unwrap());
        });
        best.take("save in the background: until durable", || drop(handle.take().unwrap().wait().unwrap()));
        best.take("five files of 100 kB, bare", || {
            small_bare(&root.path().join(format!("small-{round}")), &data)
        });
    }
    let mut small = store_of_small(&root.path().join("small-store"));
    for step in 0..200 {
        best.take("five files of 100 kB, bare", || {
            small_bare(&root.path().join(format!("small-s{step}")), &data)
        });
        best.take("five files of 100 kB, save", || small_save(&mut small, step, &data));
    }
    best.print(bytes);
    println!("peak memory beyond the state: {:.2} x the state", peak_beyond(bytes));
}

fn on_request(root: &Path, data: &[u8]) {
    let mut store = store(root);
    for (step, _line) in std::io::stdin().lines().enumerate() {
        let started = Instant::now();
        store.save(step as u64, Overwrite::Refuse, |stage| stage.write("model.bin", data)).unwrap();
        println!("{}", started.elapsed().as_secs_f64());
        store.prune(Keep::Last(NonZeroUsize::MIN), &BTreeSet::new()).unwrap();
    }
}

/// Shortest times by name, in order of appearance.
#[derive(Default)]
struct Best(Vec<(&'static str, f64)>);

impl Best {
    fn take(&mut self, name: &'static str, run: impl FnOnce()) {
        let started = Instant::now();
        run();
        let seconds = started.elapsed().as_secs_f64();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, best)) => *best = best.min(seconds),
            None => self.0.push((name, seconds)),
        }
    }

    fn of(&self, name: &str) -> f64 {
        self.0.iter().find(|(known, _)| *known == name).map_or(f64::NAN, |(_, seconds)| *seconds)
    }

    fn print(&self, bytes: usize) {
        for (name, seconds) in &self.0 {
            match name.starts_with("five") {
                true => println!("{name:<42} {:8.2} ms", seconds * 1e3),
                false => {
                    println!("{name:<42} {:8.1} ms {:8.2} GB/s", seconds * 1e3, bytes as f64 / seconds / 1e9)
                }
            }
        }
        let ratio = |a: &str, b: &str| self.of(a) / self.of(b);
        println!(
            "save reaches {:.0} % of bare writing",
            100.0 / ratio("save", "write past the cache + fsync, bare")
        );
        let slower = self.of("read past the cache, bare").max(self.of("blake3"));
        println!(
            "load reaches {:.0} % of the slower of disk and hash",
            100.0 * slower / self.of("load, verified")
        );
        println!("stall is {:.2} x a warm memcpy", ratio("save in the background: stall", "memcpy, warm"));
        println!(
            "small commit is {:.2} x the bare one",
            ratio("five files of 100 kB, save", "five files of 100 kB, bare")
        );
    }
}

/// In the target directory, since `/tmp` is in memory on some machines.
fn disk() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn store(root: &Path) -> Store {
    Store::open(root, StoreOptions::new("bench", "bench", || 0)).unwrap()
}

fn store_of_small(root: &Path) -> Store {
    store(root)
}

fn background(root: &Path, bytes: usize) -> BackgroundStore {
    let mut background = BackgroundStore::new(store(root)).unwrap();
    background.prune_to(Keep::Last(NonZeroUsize::MIN));
    background.reserve(bytes as u64 + (4 << 20));
    background
}

fn save(store: &mut Store, step: u64, data: &[u8]) {
    store.save(step, Overwrite::Refuse, |stage| stage.write("model.bin", data)).unwrap();
    store.prune(Keep::Last(NonZeroUsize::MIN), &BTreeSet::new()).unwrap();
}

/// The fastest durable write there is: aligned pieces, no page cache, one fsync.
fn bare(path: &Path, data: &[u8]) {
    const DIRECT: i32 = 0o40000;
    let _gone = fs::remove_file(path);
    let file =
        OpenOptions::new().write(true).create(true).truncate(true).custom_flags(DIRECT).open(path).unwrap();
    // the data itself may lie at an odd address: the copy into an aligned buffer that is used again is not counted
    let start = data.as_ptr().align_offset(4096);
    let mut offset = 0;
    for piece in data[start..].chunks(PIECE) {
        let piece = &piece[..piece.len() - piece.len() % 4096];
        file.write_all_at(piece, offset).unwrap();
        offset += piece.len() as u64;
    }
    file.sync_all().unwrap();
}

fn read(path: &Path) {
    const DIRECT: i32 = 0o40000;
    let file = OpenOptions::new().read(true).custom_flags(DIRECT).open(path).unwrap();
    let mut memory = vec![0; PIECE + 4096];
    let start = memory.as_ptr().align_offset(4096);
    let mut offset = 0;
    loop {
        match file.read_at(&mut memory[start..start + PIECE], offset).unwrap() {
            0 => return,
            count => offset += count as u64,
        }
    }
}

/// What no durable commit of five files can do without: five fsyncs, a rename, two fsyncs of directories.
fn small_bare(dir: &Path, data: &[u8]) {
    let staged = dir.with_extension("tmp");
    fs::create_dir(&staged).unwrap();
    let files = [0, 1, 2, 3, 4].map(|at| {
        let mut file = File::create(staged.join(format!("file-{at}"))).unwrap();
        file.write_all(&data[..100_000]).unwrap();
        file
    });
    files.iter().for_each(|file| file.sync_all().unwrap());
    File::open(&staged).unwrap().sync_all().unwrap();
    fs::rename(&staged, dir).unwrap();
    File::open(dir.parent().unwrap()).unwrap().sync_all().unwrap();
}

fn small_save(store: &mut Store, step: u64, data: &[u8]) {
    let saved = store.save(step, Overwrite::Refuse, |stage| {
        (0..5).try_for_each(|at| stage.write(&format!("file-{at}"), &data[..100_000]))
    });
    saved.unwrap();
    if step % 20 == 19 {
        store.prune(Keep::Last(NonZeroUsize::MIN), &BTreeSet::new()).unwrap();
    }
}

/// High-water mark of the process, less the state and the copy that the memcpy row makes, in units of the state.
fn peak_beyond(bytes: usize) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024.0 / bytes as f64 - 2.0
}
