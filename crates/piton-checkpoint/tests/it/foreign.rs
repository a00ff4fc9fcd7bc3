//! A store in a directory that holds other things.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use piton_checkpoint::{Error, FileHook, Op, Overwrite, Store, Verdict};

use crate::support::errno::{EBUSY, EINVAL, ENOENT, EXDEV};
use crate::support::{fill, in_memory, last, names, no_pins, open, options, read, save, store_with};

/// Path to inode, size and time of change of everything below.
fn snapshot(root: &Path) -> BTreeMap<String, (u64, u64, i64)> {
    let entries = walkdir::WalkDir::new(root).min_depth(1).into_iter().map(Result::unwrap);
    entries
        .map(|entry| {
            let meta = entry.metadata().unwrap();
            let name = entry.path().strip_prefix(root).unwrap().display().to_string();
            (name, (meta.ino(), meta.size(), meta.mtime_nsec()))
        })
        .collect()
}

#[test]
fn in_somebodys_home_nothing_is_touched_but_what_the_store_made() {
    let temp = tempfile::tempdir().unwrap();
    let home = temp.path();
    for dir in ["Documents/thesis", ".config", ".trash-ckpt-step-3", "ckpt-step-final", "abandoned-house"] {
        fs::create_dir_all(home.join(dir)).unwrap();
        fs::write(home.join(dir).join("precious"), dir).unwrap();
    }
    for file in [".bashrc", ".tmp-file", ".tmp-file-0123abcd-1", ".store.json.bak", "ckpt-step-1.txt"] {
        fs::write(home.join(file), file).unwrap();
    }
    symlink(home.join("Documents"), home.join("link")).unwrap();
    let before = snapshot(home);

    let mut store = open(home);
    for step in 1..=4 {
        save(&mut store, step).unwrap();
        store.prune(last(1), &no_pins()).unwrap();
    }
    store.set_aside_after(0).unwrap();
    drop(store);
    open(home);

    let after = snapshot(home);
    before.iter().for_each(|(name, was)| assert_eq!(after.get(name), Some(was), "{name}"));
    let added: Vec<_> = names(home).into_iter().filter(|name| !before.contains_key(name)).collect();
    assert_eq!(added, ["abandoned-0-1"]);
}

#[test]
fn many_foreign_names_are_passed_over() {
    let temp = in_memory();
    store_with(temp.path(), [7]);
    for n in 0..10_000 {
        fs::write(temp.path().join(format!("ckpt-step-{n}.bak")), b"").unwrap();
    }
    let mut store = open(temp.path());
    assert_eq!(store.reader().steps().unwrap(), [7]);
    save(&mut store, 8).unwrap();
    assert_eq!(store.prune(last(1), &no_pins()).unwrap().removed, [7]);
    assert_eq!(names(temp.path()).len(), 10_001);
}

/// Fails one kind of call on paths that contain a text.
#[derive(Debug)]
struct FailOn(Op, &'static str, Verdict);

impl FileHook for FailOn {
    fn before(&self, op: Op, path: &Path) -> Verdict {
        if op == self.0 && path.display().to_string().contains(self.1) { self.2 } else { Verdict::Go }
    }
}

/// Fails every other rename with EINVAL: first the one with the flag, then not the one without.
#[derive(Debug, Default)]
struct NoFlag(AtomicBool);

impl FileHook for NoFlag {
    fn before(&self, op: Op, _: &Path) -> Verdict {
        let is_first = op == Op::Rename && !self.0.fetch_xor(true, Ordering::Relaxed);
        if is_first { Verdict::Fail(EINVAL) } else { Verdict::Go }
    }
}

fn hooked(root: &Path, hook: impl FileHook + 'static) -> Store {
    Store::open(root, options().hook(Arc::new(hook))).unwrap()
}

/// A file on NFS that somebody has open cannot be removed, and neither can its directory.
#[test]
fn what_cannot_be_deleted_now_is_told_and_deleted_later() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), 1..=2);
    let mut store = hooked(temp.path(), FailOn(Op::Unlink, "train_state.json", Verdict::Fail(EBUSY)));
    let pruned = store.prune(last(1), &no_pins()).unwrap();
    assert_eq!((pruned.removed, pruned.kept), (vec![1], vec![2]));
    assert_eq!(pruned.problems.len(), 1);
    assert_eq!(pruned.problems[0].errno(), Some(EBUSY));
    // All the rest is gone, and no trace of it has a checkpoint's name.
    let left = names(temp.path());
    assert!(left[0].starts_with(".trash-ckpt-step-1-"), "{left:?}");
    assert_eq!(snapshot(&temp.path().join(&left[0])).into_keys().collect::<Vec<_>>(), ["train_state.json"]);
    // It is tried again, without harm to the save.
    save(&mut store, 3).unwrap();
    assert_eq!(store.take_problems().len(), 1);
    drop(store);
    open(temp.path());
    assert_eq!(names(temp.path()), ["ckpt-step-2", "ckpt-step-3"]);
}

/// A network disk may make a rename, lose the reply, and answer the second request with "no such file".
#[test]
fn a_rename_that_was_made_is_not_believed_to_have_failed() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), 1..=2);
    let mut store = hooked(temp.path(), FailOn(Op::Rename, "ckpt-step-", Verdict::FailAfter(ENOENT)));
    save(&mut store, 3).unwrap();
    let pruned = store.prune(last(2), &no_pins()).unwrap();
    assert_eq!((pruned.removed, pruned.problems.len()), (vec![1], 0));
    assert_eq!(store.set_aside_after(2).unwrap().len(), 1);
    assert_eq!(names(temp.path()), ["abandoned-2-1", "ckpt-step-2"]);
}

/// Some file systems know no RENAME_NOREPLACE.
#[test]
fn without_the_flag_a_rename_looks_first() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1]);
    let mut store = hooked(temp.path(), NoFlag::default());
    save(&mut store, 2).unwrap();
    assert_eq!(store.prune(last(1), &no_pins()).unwrap().removed, [1]);
    // A name that is taken is not replaced: what stands there is moved away first.
    fs::create_dir(temp.path().join("ckpt-step-3")).unwrap();
    save(&mut store, 3).unwrap();
    assert_eq!(names(temp.path()), ["abandoned-3-1", "ckpt-step-2", "ckpt-step-3"]);
}

#[test]
fn a_store_across_a_mount_is_told_so() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = hooked(temp.path(), FailOn(Op::Rename, "ckpt-step-", Verdict::Fail(EXDEV)));
    let error = save(&mut store, 1).unwrap_err().to_string();
    assert!(
        error.ends_with("or lies in a lower layer of an overlay: put all of it on one file system"),
        "{error}"
    );
    assert_eq!(names(temp.path()).len(), 0);
}

/// A reader's pin holds against a save over the same step as it does against a prune.
#[test]
fn a_pinned_checkpoint_that_is_saved_over_keeps_its_files_while_the_pin_lives() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1]);
    let old = read(temp.path()).at(1).unwrap();
    let pin = old.pin().unwrap();
    let mut store = open(temp.path());
    store.save(1, Overwrite::Exchange, |stage| stage.write("new", b"new")).unwrap();
    save(&mut store, 2).unwrap();
    assert!(old.verify().unwrap().is_valid());
    drop(pin);
    save(&mut store, 3).unwrap();
    assert!(matches!(old.read("train_state.json"), Err(Error::Corrupt { .. })));
    assert_eq!(names(temp.path()), ["ckpt-step-1", "ckpt-step-2", "ckpt-step-3"]);
    store.save(3, Overwrite::Exchange, |stage| fill(stage, 3)).unwrap();
}
