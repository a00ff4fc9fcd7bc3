//! One writer per store.

use piton_checkpoint::{Error, Store};

use crate::support::{in_memory, names, open, options, read, store_with};

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
