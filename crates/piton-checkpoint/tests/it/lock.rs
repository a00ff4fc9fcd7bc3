//! One writer per store.

use piton_checkpoint::{Error, Store};

use crate::support::{names, open, options, read, store_with};

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

#[test]
fn a_child_process_does_not_inherit_the_lock() {
    let temp = tempfile::tempdir().unwrap();
    let store = open(temp.path());
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    drop(store);
    // `spawn` may return a moment before the kernel closes the child's copies, so look again for a while.
    let mut looks = 0;
    let again = loop {
        match Store::open(temp.path(), options()) {
            Err(Error::Locked { .. }) if looks < 500 => looks += 1,
            opened => break opened,
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    again.unwrap();
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
