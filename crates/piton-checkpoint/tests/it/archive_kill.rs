//! A process that saves, replaces and prunes pairs is killed at every system call in turn.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use piton_checkpoint::{ArchiveOptions, Archives, FileHook, Op, PairId, Verdict};

use crate::archive::{assert_saved, files, keep, reader, save, writer};
use crate::support::in_memory;

const DIR: &str = "PITON_ARCHIVE_DIR";
const AT: &str = "PITON_ARCHIVE_KILL_AT";

/// Kills its own process before the call with index `at`.
#[derive(Debug)]
struct KillAt {
    at: usize,
    calls: AtomicUsize,
}

impl FileHook for KillAt {
    fn before(&self, _: Op, _: &Path) -> Verdict {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.at {
            nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
        }
        Verdict::Go
    }
}

/// Not a test by itself: the process that the test below starts.
#[test]
#[ignore = "the victim that the other test here starts: cargo test -p piton-checkpoint archive_kill"]
fn victim() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let at = std::env::var(AT).unwrap().parse().unwrap();
    let hook = Arc::new(KillAt { at, calls: AtomicUsize::new(0) });
    let mut archives = Archives::open(Path::new(&dir), "q3", ArchiveOptions::default().hook(hook)).unwrap();
    save(&mut archives, PairId::Number(3), 0).unwrap();
    save(&mut archives, PairId::Number(3), 1).unwrap();
    save(&mut archives, PairId::Final, 1).unwrap();
    archives.prune(keep(1)).unwrap();
}

#[test]
fn sigkill_at_any_call_leaves_every_pair_whole_and_the_next_run_cleans_up() {
    for at in 0.. {
        let temp = in_memory();
        let dir = temp.path();
        let mut archives = writer(dir);
        for id in [PairId::Number(1), PairId::Number(2), PairId::Final] {
            save(&mut archives, id, 0).unwrap();
        }
        drop(archives);
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "archive_kill::victim", "--ignored"])
            .env(DIR, dir)
            .env(AT, at.to_string())
            .output()
            .unwrap();

        let seen = reader(dir);
        let found = seen.discover().unwrap();
        assert!(found.rejected.is_empty(), "killed at call {at}: {:?}", found.rejected);
        let newest = found.archive.unwrap();
        assert_saved(&newest);
        assert!(newest.number() >= Some(2), "killed at call {at}");
        assert_saved(&seen.open(PairId::Final).unwrap());

        let mut archives = writer(dir);
        assert!(archives.take_problems().is_empty());
        archives.prune(keep(1)).unwrap();
        assert_saved(&archives.latest().unwrap().unwrap());
        assert_saved(&archives.reader().open(PairId::Final).unwrap());
        assert_eq!(files(dir).len(), 4, "killed at call {at}: {:?}", files(dir));
        // for readers that know nothing of a former JSON, the two names fit by themselves again
        assert!(files(dir).iter().all(|name| !name.starts_with('.')), "killed at call {at}");
        if run.status.success() {
            assert!(at > 60, "only {at} kills");
            return;
        }
        assert_eq!(run.status.code(), None, "{}", String::from_utf8_lossy(&run.stdout));
    }
}
