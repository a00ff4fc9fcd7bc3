//! Every system call of pinning, rolling back and taking over fails in turn.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use piton_checkpoint::{Error, FileHook, Store, Verdict};

use crate::faults::FailAt;
use crate::support::errno::{EIO, EROFS};
use crate::support::{
    assert_filled, in_memory, last, no_pins, open, open_in, options, read, save, store_with,
};

/// How far it came.
#[derive(Debug, Default)]
struct Done {
    pinned: bool,
    /// It was tried: if that failed, the pin may be gone or not.
    unpinning: bool,
    unpinned: bool,
    rolled_back: bool,
}

fn run(root: &Path, hook: Arc<dyn FileHook>, done: &mut Done) -> Result<(), Error> {
    let mut store = Store::open(root, options().hook(hook))?;
    store.reader().pin(1, "one")?;
    store.reader().pin(3, "three")?;
    done.pinned = true;
    let pruned = store.prune(last(1), &no_pins())?;
    pruned.problems.into_iter().next().map_or(Ok(()), Err)?;
    done.unpinning = true;
    store.reader().unpin(1)?;
    done.unpinned = true;
    store.set_aside_after(2)?;
    done.rolled_back = true;
    store.reader().survey().map(drop)
}

fn check(root: &Path, done: &Done, what: &str) {
    let reader = read(root);
    let steps = reader.steps().unwrap();
    // Only a prune removes, and only 2 was neither the newest nor pinned.
    assert!(steps.contains(&1), "{what}: {steps:?}");
    let aside = reader.abandoned().unwrap();
    assert_eq!(steps.contains(&3), !aside.iter().any(|path| path.ends_with("ckpt-step-3")), "{what}");
    assert!(!done.rolled_back || aside.len() == 1, "{what}: {aside:?}");
    steps.iter().for_each(|step| assert_filled(&reader.at(*step).expect(what)));

    let mut store = open(root);
    let pins = store.reader().pins().unwrap();
    assert!(!done.pinned || done.unpinning || pins.contains_key(&1), "{what}: {pins:?}");
    assert!(!done.unpinned || !pins.contains_key(&1), "{what}: {pins:?}");
    store.set_aside_after(3).unwrap();
    assert_filled(&save(&mut store, 4).expect(what));
    store.prune(last(1), &no_pins()).expect(what);
    assert!(store.reader().survey().unwrap().leftovers.is_empty(), "{what}");
}

#[test]
fn a_fault_while_pinning_or_rolling_back_loses_nothing() {
    for (errno, sticky) in [(EIO, false), (EIO, true), (EROFS, false), (EROFS, true)] {
        for at in 0.. {
            let temp = in_memory();
            store_with(temp.path(), 1..=3);
            let (hook, mut done) = (FailAt::new(at, sticky, Verdict::Fail(errno)), Done::default());
            let result = run(temp.path(), hook.clone(), &mut done);
            let what = format!("errno {errno}, sticky {sticky}, at call {at}: {result:?}, {done:?}");
            assert_eq!(open_in(temp.path()), Vec::<PathBuf>::new(), "{what}");
            check(temp.path(), &done, &what);
            if !hook.was_met() {
                assert!(at > 60 && result.is_ok(), "{what}");
                break;
            }
            // Nothing is said to have worked that did not: what was not done was an error.
            assert!(result.is_err() || done.rolled_back, "{what}");
        }
    }
}
