//! Every system call of open, save and prune fails in turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use piton_checkpoint::{Error, FileHook, Op, Store, Verdict};

use crate::support::errno::{EINTR, EIO, EMFILE, ENOSPC, EROFS};
use crate::support::{
    assert_filled, in_memory, last, names, no_pins, open, open_in, options, read, save, store_with,
};

/// Answers `verdict` at the call with index `at`, and from there on if `sticky`.
#[derive(Debug)]
pub(crate) struct FailAt {
    at: usize,
    sticky: bool,
    verdict: Verdict,
    calls: AtomicUsize,
    synced: Mutex<Vec<PathBuf>>,
}

impl FailAt {
    pub(crate) fn new(at: usize, sticky: bool, verdict: Verdict) -> Arc<Self> {
        let (calls, synced) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        Arc::new(Self { at, sticky, verdict, calls, synced })
    }

    /// Whether a call was answered otherwise than by `Go`.
    pub(crate) fn was_met(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > self.at
    }
}

impl FileHook for FailAt {
    fn before(&self, op: Op, path: &Path) -> Verdict {
        if op == Op::Sync {
            self.synced.lock().unwrap().push(path.to_owned());
        }
        let index = self.calls.fetch_add(1, Ordering::Relaxed);
        if index == self.at || (self.sticky && index > self.at) { self.verdict } else { Verdict::Go }
    }
}

/// Saves step 2 over a store with step 1 and a stale stage, keeping one; what each part returned.
fn run(root: &Path, hook: Arc<FailAt>) -> Result<(), Error> {
    let mut store = Store::open(root, options().hook(hook))?;
    save(&mut store, 2)?;
    let pruned = store.prune(last(1), &no_pins())?;
    pruned.problems.into_iter().chain(store.take_problems()).next().map_or(Ok(()), Err)
}

/// Runs with a fault at every index until a run meets none, and returns how many runs met one. The faults are made up,
/// so memory will do for a disk.
fn sweep(verdict: Verdict, sticky: bool) -> usize {
    for at in 0.. {
        let temp = in_memory();
        let root = temp.path();
        store_with(root, [1]);
        fs::create_dir(root.join(".tmp-ckpt-step-2-0123abcd-77-1")).unwrap();
        fs::write(root.join(".tmp-ckpt-step-2-0123abcd-77-1/half"), b"half").unwrap();
        let hook = FailAt::new(at, sticky, verdict);

        let result = run(root, hook.clone());
        let met = hook.was_met();
        assert_eq!(open_in(root), Vec::<PathBuf>::new(), "{verdict:?} at call {at} leaks");
        check(root, verdict, met, &result, &format!("{verdict:?} at call {at}: {result:?}"));

        let mut synced = hook.synced.lock().unwrap().clone();
        let count = synced.len();
        synced.sort();
        synced.dedup();
        assert_eq!(synced.len(), count, "call {at}: a file was synced twice: {synced:?}");
        if !met {
            return at;
        }
    }
    unreachable!("the loop ends when a run meets no fault")
}

fn check(root: &Path, verdict: Verdict, met: bool, result: &Result<(), Error>, what: &str) {
    // Seen from outside, before anything is repaired.
    let reader = read(root);
    let steps = reader.steps().unwrap();
    steps.iter().for_each(|step| assert_filled(&reader.at(*step).expect(what)));
    let newest = *steps.last().expect(what);
    match (result, verdict) {
        (Ok(()), _) => assert_eq!(newest, 2, "{what}"),
        (Err(error), Verdict::Fail(errno)) if met => assert_eq!(error.errno(), Some(errno), "{what}"),
        _ => panic!("{what}"),
    }
    // After a restart nothing is left over, and the next save works.
    let mut store = open(root);
    assert!(names(root).iter().all(|name| name.starts_with("ckpt-step-")), "{what}: {:?}", names(root));
    assert_filled(&save(&mut store, 3).expect(what));
    store.prune(last(1), &no_pins()).expect(what);
    assert_eq!(names(root), ["ckpt-step-3"], "{what}");
}

#[test]
fn a_call_that_fails_once_costs_at_most_this_save() {
    for errno in [EIO, ENOSPC, EROFS, EMFILE] {
        let runs = sweep(Verdict::Fail(errno), false);
        assert!(runs > 60, "only {runs} calls were failed");
    }
}

#[test]
fn a_disk_that_stays_broken_or_full_costs_nothing_saved() {
    for errno in [EIO, ENOSPC] {
        sweep(Verdict::Fail(errno), true);
    }
}

#[test]
fn interrupted_calls_and_short_writes_are_carried_on() {
    for (verdict, sticky) in [(Verdict::Fail(EINTR), false), (Verdict::Short(1), true)] {
        for at in 0.. {
            let temp = in_memory();
            store_with(temp.path(), [1]);
            let hook = FailAt::new(at, sticky, verdict);
            run(temp.path(), hook.clone()).unwrap();
            assert_filled(&read(temp.path()).at(2).unwrap());
            // one-byte writes of everything once are enough
            if !hook.was_met() || sticky {
                break;
            }
        }
    }
}

#[test]
fn a_full_disk_is_told_with_path_and_numbers() {
    let temp = in_memory();
    store_with(temp.path(), [1]);
    let mut found = Vec::new();
    for at in 0..200 {
        let hook = FailAt::new(at, false, Verdict::Fail(ENOSPC));
        let result = Store::open(temp.path(), options().hook(hook.clone()))
            .and_then(|mut store| save(&mut store, 2).map(drop));
        match result {
            Err(error @ Error::NoSpace { op: Op::Write, .. }) => found.push(error.to_string()),
            Err(_) => {}
            Ok(()) if hook.was_met() => fs::remove_dir_all(temp.path().join("ckpt-step-2")).unwrap(),
            Ok(()) => break,
        }
    }
    let model = found.iter().find(|message| message.contains("weights/model.bin")).unwrap();
    assert!(model.contains("no space left on device: needed 50002 bytes, "), "{model}");
    assert!(model.ends_with("free; make room (the earlier checkpoints are intact)"), "{model}");
}

/// Fails the sync of the root after the rename of step 2, once.
#[derive(Debug)]
struct FailAfterRename {
    root: PathBuf,
    renamed: AtomicUsize,
}

impl FileHook for FailAfterRename {
    fn before(&self, op: Op, path: &Path) -> Verdict {
        match op {
            Op::Rename => self.renamed.fetch_add(1, Ordering::Relaxed),
            Op::SyncDir if path == self.root && self.renamed.load(Ordering::Relaxed) == 2 => {
                self.renamed.fetch_add(1, Ordering::Relaxed);
                return Verdict::Fail(EIO);
            }
            _ => 0,
        };
        Verdict::Go
    }
}

#[test]
fn while_it_is_unsure_that_the_newest_is_durable_nothing_is_pruned() {
    let temp = in_memory();
    let hook = FailAfterRename { root: temp.path().to_owned(), renamed: AtomicUsize::new(0) };
    let mut store = Store::open(temp.path(), options().hook(Arc::new(hook))).unwrap();
    save(&mut store, 1).unwrap();
    let error = save(&mut store, 2).unwrap_err();
    assert!(matches!(error, Error::DurabilityUncertain { step: 2, .. }), "{error}");
    let pruned = store.prune(last(1), &no_pins()).unwrap();
    assert_eq!((pruned.removed, pruned.waits_for), (vec![], Some(2)));
    save(&mut store, 3).unwrap();
    assert_eq!(store.prune(last(1), &no_pins()).unwrap().removed, [1, 2]);
}
