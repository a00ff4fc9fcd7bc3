//! One writer per store.

use std::path::Path;

use piton_checkpoint::{Error, Overwrite, Store};

use crate::support::{assert_filled, in_memory, names, open, options, read, save, store_with};

#[test]
fn a_second_writer_is_refused_and_told_who_holds_the_store() {
    let temp = tempfile::tempdir().unwrap();
    let first = Store::open(temp.path(), options().holder("host a, since noon")).unwrap();
    let error = Store::open(temp.path(), options()).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    let pid = std::process::id();
    assert_eq!(
        error.to_string(),
        format!(
            "store {} is in use by run test-run, pid {pid}, host a, since noon; stop that run or use another directory",
            temp.path().display()
        )
    );
    drop(first);
    open(temp.path());
}

/// Else workers would keep the store locked after their trainer was killed.
#[test]
fn a_child_process_inherits_nothing_of_the_store() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1]);
    let store = open(temp.path());
    let latest = store.latest().unwrap().unwrap();
    let file = latest.open_verified("train_state.json").unwrap();
    let listing = std::process::Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    let listing = String::from_utf8(listing.stdout).unwrap();
    assert!(listing.contains("/fd"), "{listing}");
    assert!(!listing.contains(temp.path().to_str().unwrap()), "{listing}");
    drop((store, latest, file));
}

/// A child forked by another thread shares the descriptor until its exec, so a close alone would not free the lock.
#[test]
fn a_dropped_store_can_be_opened_again_while_children_are_being_started() {
    let temp = in_memory();
    std::thread::scope(|scope| {
        let children = scope.spawn(|| {
            for _ in 0..100 {
                assert!(std::process::Command::new("true").status().unwrap().success());
            }
        });
        while !children.is_finished() {
            drop(open(temp.path()));
        }
    });
}

/// A program that forks without an exec, as Python's multiprocessing does: the child shares the lock.
#[test]
#[expect(unsafe_code, reason = "a fork is what this is about")]
fn a_forked_child_that_drops_the_store_does_not_free_it() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), 1..=2);
    let mut store = open(temp.path());
    let pin = store.latest().unwrap().unwrap().pin().unwrap();
    // SAFETY: the child drops two values, which closes descriptors, and ends at once.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Child => {
            drop((store, pin));
            // SAFETY: nothing of this process is to be run in the child.
            unsafe { nix::libc::_exit(0) }
        }
        nix::unistd::ForkResult::Parent { child } => {
            nix::sys::wait::waitpid(child, None).unwrap();
        }
    }
    assert!(matches!(Store::open(temp.path(), options()), Err(Error::Locked { .. })));
    store.save(2, Overwrite::Exchange, |stage| stage.write("new", b"new")).unwrap();
    let trash = names(temp.path());
    assert!(trash[0].starts_with(".trash-ckpt-step-2-"), "the pin is gone: {trash:?}");
    drop(pin);
}

/// Several processes that want to save: whoever has the store saves, the others are told, nothing is mixed.
#[test]
fn of_many_writers_one_at_a_time_succeeds() {
    let temp = in_memory();
    let saved = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4).map(|_| scope.spawn(|| save_some(temp.path(), 10))).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum::<u64>()
    });
    let steps = read(temp.path()).steps().unwrap();
    assert_eq!(steps, (1..=saved).collect::<Vec<_>>());
    steps.iter().for_each(|step| assert_filled(&read(temp.path()).at(*step).unwrap()));
}

/// Opens the store so many times and saves the next step each time; how often somebody else was not in the way.
fn save_some(root: &Path, times: usize) -> u64 {
    let one = |_| match Store::open(root, options()) {
        Ok(mut store) => {
            let next = store.latest().unwrap().map_or(1, |latest| latest.step() + 1);
            save(&mut store, next).unwrap();
            1
        }
        Err(Error::Locked { .. }) => 0,
        Err(error) => panic!("{error}"),
    };
    (0..times).map(one).sum()
}

#[test]
fn only_a_writer_cleans_and_only_what_the_store_left() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1]);
    let left = [".tmp-ckpt-step-2-0123abcd-77-1", ".trash-ckpt-step-0-0123abcd-77-2"];
    for name in left {
        std::fs::create_dir_all(temp.path().join(name).join("weights")).unwrap();
        std::fs::write(temp.path().join(name).join("weights/half"), b"half").unwrap();
    }
    std::fs::create_dir(temp.path().join(".tmp-mine")).unwrap();
    assert_eq!(read(temp.path()).steps().unwrap(), [1]);
    assert_eq!(names(temp.path()), [left[0], ".tmp-mine", left[1], "ckpt-step-1"]);
    open(temp.path());
    assert_eq!(names(temp.path()), [".tmp-mine", "ckpt-step-1"]);
}
