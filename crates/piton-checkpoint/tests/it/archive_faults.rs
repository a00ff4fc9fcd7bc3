//! Every system call of opening, saving, replacing and pruning pairs fails in turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use piton_checkpoint::{ArchiveOptions, Archives, Error, PairId, Verdict};

use crate::archive::{assert_saved, files, keep, reader, save, writer};
use crate::faults::FailAt;
use crate::support::errno::{EINTR, EIO, EMFILE, ENOSPC, EROFS};
use crate::support::{in_memory, open_in};

/// Saves pair 3, replaces the final pair, keeps one; over two pairs, a final one and what a kill left.
fn run(dir: &Path, hook: Arc<FailAt>) -> Result<(), Error> {
    let mut archives = Archives::open(dir, "q3", ArchiveOptions::default().hook(hook))?;
    save(&mut archives, PairId::Number(3), 0)?;
    save(&mut archives, PairId::Final, 1)?;
    archives.prune(keep(1))?;
    archives.take_problems().into_iter().next().map_or(Ok(()), Err)
}

fn prepare(dir: &Path) {
    let mut archives = writer(dir);
    [PairId::Number(1), PairId::Number(2), PairId::Final]
        .into_iter()
        .for_each(|id| drop(save(&mut archives, id, 0).unwrap()));
    fs::write(dir.join(".q3.tmp-77-1"), "half").unwrap();
    fs::write(dir.join("q3_ckpt_000000000.json"), "a kill came before the zip's name").unwrap();
}

/// Runs with a fault at every index until a run meets none, and returns how many runs met one.
fn sweep(verdict: Verdict, sticky: bool) -> usize {
    for at in 0.. {
        let temp = in_memory();
        let dir = temp.path();
        prepare(dir);
        let hook = FailAt::new(at, sticky, verdict);
        let result = run(dir, hook.clone());
        let (met, what) = (hook.was_met(), format!("{verdict:?} at call {at}: {result:?}"));
        assert_eq!(open_in(dir), Vec::<PathBuf>::new(), "{what}");
        check(dir, verdict, met, &result, &what);
        if !met {
            return at;
        }
    }
    unreachable!("the loop ends when a run meets no fault")
}

fn check(dir: &Path, verdict: Verdict, met: bool, result: &Result<(), Error>, what: &str) {
    // Seen from outside, before anything is repaired.
    let reader = reader(dir);
    let found = reader.discover().expect(what);
    assert!(found.rejected.is_empty(), "{what}: {:?}", found.rejected);
    let newest = found.archive.expect(what);
    assert_saved(&newest);
    assert!(newest.number() >= Some(2), "{what}");
    let last = assert_saved(&reader.open(PairId::Final).expect(what));
    match (result, verdict) {
        (Ok(()), _) => assert_eq!((newest.number(), last), (Some(3), 1), "{what}"),
        (Err(error), Verdict::Fail(errno)) if met => assert_eq!(error.errno(), Some(errno), "{what}"),
        _ => panic!("{what}"),
    }
    // After a restart the next saves work, and nothing is left over.
    let mut archives = writer(dir);
    assert!(archives.take_problems().is_empty(), "{what}");
    save(&mut archives, PairId::Number(4), 0).expect(what);
    save(&mut archives, PairId::Final, 2).expect(what);
    archives.prune(keep(1)).expect(what);
    assert_saved(&archives.latest().expect(what).expect(what));
    assert_eq!(assert_saved(&archives.reader().open(PairId::Final).expect(what)), 2, "{what}");
    let left = ["q3.json", "q3.zip", "q3_ckpt_000000004.json", "q3_ckpt_000000004.zip"];
    assert_eq!(files(dir), left, "{what}");
}

#[test]
fn a_call_that_fails_once_costs_at_most_this_save() {
    for errno in [EIO, ENOSPC, EROFS, EMFILE] {
        let runs = sweep(Verdict::Fail(errno), false);
        assert!(runs > 50, "only {runs} calls were failed");
    }
}

#[test]
fn a_disk_that_stays_broken_or_full_costs_nothing_saved() {
    for errno in [EIO, ENOSPC, EROFS, EMFILE] {
        sweep(Verdict::Fail(errno), true);
    }
}

#[test]
fn interrupted_calls_and_short_writes_are_carried_on() {
    for (verdict, sticky) in [(Verdict::Fail(EINTR), false), (Verdict::Short(1), true)] {
        for at in 0..30 {
            let temp = in_memory();
            prepare(temp.path());
            run(temp.path(), FailAt::new(at, sticky, verdict)).unwrap();
        }
    }
}
