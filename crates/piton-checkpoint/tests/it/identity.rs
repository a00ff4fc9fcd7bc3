//! Whose store it is, and who may write in it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use piton_checkpoint::{Error, FileHook, Op, Store, StoreOptions, Verdict};

use crate::support::errno::{EACCES, ENOSPC};
use crate::support::{last, no_pins, open, options, read, save, store_with};

fn of_run(run_id: &str) -> StoreOptions {
    StoreOptions::new(run_id, "test-config", || 0)
}

#[test]
fn the_first_writer_writes_down_whose_store_it_is() {
    let temp = tempfile::tempdir().unwrap();
    assert_eq!(read(temp.path()).identity().unwrap(), None);
    store_with(temp.path(), [1]);
    let text = fs::read_to_string(temp.path().join(".store.json")).unwrap();
    assert_eq!(text, "{\n  \"layout\": 1,\n  \"run_id\": \"test-run\"\n}\n");
    assert_eq!(read(temp.path()).identity().unwrap().unwrap().run_id, "test-run");
}

#[test]
fn another_run_is_refused_until_it_says_that_it_takes_the_store_over() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1]);
    let stage = temp.path().join(".tmp-ckpt-step-2-0123abcd-77-1");
    fs::create_dir(&stage).unwrap();
    let error = Store::open(temp.path(), of_run("other")).unwrap_err();
    assert!(matches!(error, Error::OtherRun { .. }));
    let root = temp.path().display();
    assert_eq!(
        error.to_string(),
        format!(
            "store {root} belongs to run \"test-run\", not to \"other\"; use another directory, or adopt it with \
             StoreOptions::adopt()"
        )
    );
    assert!(stage.is_dir(), "a store that was refused was changed");

    let mut store = Store::open(temp.path(), of_run("other").adopt()).unwrap();
    assert_eq!(store.latest().unwrap().unwrap().manifest().run_id, "test-run");
    assert_eq!(save(&mut store, 2).unwrap().manifest().run_id, "other");
    drop(store);
    assert!(matches!(Store::open(temp.path(), options()), Err(Error::OtherRun { .. })));
    Store::open(temp.path(), of_run("other")).unwrap();
}

#[test]
fn a_damaged_identity_is_written_again_and_a_newer_one_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join(".store.json");
    for damaged in ["", "{", "\u{fffd}", "{\"layout\": \"one\"}"] {
        fs::write(&path, damaged).unwrap();
        open(temp.path());
        assert_eq!(read(temp.path()).identity().unwrap().unwrap().run_id, "test-run", "{damaged:?}");
    }
    fs::write(&path, r#"{"layout": 2, "run_id": "test-run", "more": []}"#).unwrap();
    let error = Store::open(temp.path(), options()).unwrap_err().to_string();
    assert!(error.contains("has layout 2, newer than this program writes"), "{error}");
    assert!(fs::read_to_string(&path).unwrap().contains("more"));
}

/// Answers the calls that make or write something with an error.
#[derive(Debug)]
struct Refuse(i32);

impl FileHook for Refuse {
    fn before(&self, op: Op, path: &Path) -> Verdict {
        let is_new = matches!(op, Op::MakeDir | Op::Create | Op::Write) && !path.ends_with(".store.lock");
        if is_new { Verdict::Fail(self.0) } else { Verdict::Go }
    }
}

#[test]
fn a_store_that_cannot_be_written_says_so_when_it_is_opened_with_owner_and_mode() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1]);
    let error = Store::open(temp.path(), options().hook(Arc::new(Refuse(EACCES)))).unwrap_err();
    assert!(matches!(error, Error::NotWritable { .. }), "{error}");
    assert_eq!(error.errno(), Some(EACCES));
    let told = error.to_string();
    for part in ["cannot be written: make directory ", "Permission denied", "mode 0", "this process is uid "]
    {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
}

#[test]
fn a_full_disk_can_be_opened_and_pruned() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), 1..=3);
    fs::remove_file(temp.path().join(".store.json")).unwrap();
    let mut store = Store::open(temp.path(), options().hook(Arc::new(Refuse(ENOSPC)))).unwrap();
    assert!(matches!(save(&mut store, 4), Err(Error::NoSpace { .. })));
    let pruned = store.prune(last(1), &no_pins()).unwrap();
    assert_eq!((pruned.removed, pruned.problems.len()), (vec![1, 2], 0));
}

#[test]
fn who_writes_is_told_to_those_who_ask_without_disturbing_it() {
    let temp = tempfile::tempdir().unwrap();
    assert_eq!(read(temp.path()).writer().unwrap(), None);
    let store = Store::open(temp.path(), options().holder("host a")).unwrap();
    let told = read(temp.path()).writer().unwrap().unwrap();
    assert_eq!(told, format!("run test-run, pid {}, host a", std::process::id()));
    drop(store);
    assert_eq!(read(temp.path()).writer().unwrap(), None);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| (0..3000).for_each(|_| drop(read(temp.path()).writer().unwrap())));
        while !asking.is_finished() {
            open(temp.path());
        }
    });
}
