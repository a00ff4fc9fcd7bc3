//! Pins that stay until they are taken away, and those of readers.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use piton_checkpoint::{Error, FileHook, Op, Overwrite, Store, Verdict, Why};

use crate::support::{assert_filled, fill, last, names, no_pins, open, options, read, save, store_with};

#[test]
fn a_pinned_checkpoint_outlives_every_policy_until_it_is_unpinned() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), 1..=4);
    let mut store = open(temp.path());
    // Beside the writer, as another process does it.
    read(temp.path()).pin(2, "shown at the review\nof May").unwrap();
    assert_eq!(read(temp.path()).pins().unwrap(), [(2, "shown at the reviewof May".to_owned())].into());
    assert_eq!(store.prune(last(1), &no_pins()).unwrap().removed, [1, 3]);
    assert_filled(&read(temp.path()).at(2).unwrap());
    let plan = read(temp.path()).plan(&last(1).into(), &no_pins(), 0).unwrap();
    assert_eq!(plan.keep[&2], [Why::Pinned]);

    read(temp.path()).pin(2, "").unwrap();
    assert_eq!(read(temp.path()).pins().unwrap(), [(2, String::new())].into());
    assert!(read(temp.path()).unpin(2).unwrap());
    assert!(!read(temp.path()).unpin(2).unwrap());
    assert_eq!(store.prune(last(1), &no_pins()).unwrap().removed, [2]);
    assert_eq!(names(temp.path()), ["ckpt-step-4", "pins"]);
}

#[test]
fn pins_come_along_with_a_copy_of_the_store() {
    let temp = tempfile::tempdir().unwrap();
    let (from, to) = (temp.path().join("from"), temp.path().join("to"));
    store_with(&from, 1..=3);
    read(&from).pin(1, "best").unwrap();
    assert!(Command::new("cp").arg("-r").args([&from, &to]).status().unwrap().success());
    let pruned = open(&to).prune(last(1), &no_pins()).unwrap();
    assert_eq!((pruned.removed, pruned.kept), (vec![2], vec![1, 3]));
}

#[test]
fn only_what_is_there_can_be_pinned() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1]);
    let reader = read(temp.path());
    assert!(matches!(reader.pin(2, ""), Err(Error::NoSuchStep { step: 2, .. })));
    fs::create_dir(temp.path().join("ckpt-step-3")).unwrap();
    assert!(matches!(reader.pin(3, ""), Err(Error::Rejected { .. })));
    assert_eq!(names(temp.path()), ["ckpt-step-1", "ckpt-step-3"]);
}

#[test]
fn other_names_in_the_folder_are_nobodys_pin() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), 1..=3);
    fs::create_dir(temp.path().join("pins")).unwrap();
    for name in ["ckpt-step-01.keep", "ckpt-step-1", "ckpt-step-1.keep.bak", "README"] {
        fs::write(temp.path().join("pins").join(name), b"mine").unwrap();
    }
    // Whatever has the name is a pin.
    fs::create_dir(temp.path().join("pins/ckpt-step-2.keep")).unwrap();
    assert_eq!(read(temp.path()).pins().unwrap(), [(2, String::new())].into());
    assert_eq!(open(temp.path()).prune(last(1), &no_pins()).unwrap().removed, [1]);
    assert_eq!(names(&temp.path().join("pins")).len(), 5);
}

/// If the pins cannot be read, nobody knows what may go.
#[test]
fn where_the_pins_cannot_be_read_nothing_is_removed() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), 1..=3);
    symlink("/nowhere", temp.path().join("pins")).unwrap();
    let error = open(temp.path()).prune(last(1), &no_pins()).unwrap_err().to_string();
    assert!(
        error.contains("/pins failed: ") && error.contains("a symbolic link or a file stands"),
        "{error}"
    );
    assert_eq!(read(temp.path()).steps().unwrap(), [1, 2, 3]);
}

#[test]
fn a_pin_goes_with_its_checkpoint_when_that_is_set_aside() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), 1..=3);
    read(temp.path()).pin(3, "of the future that was left").unwrap();
    let mut store = open(temp.path());
    assert_eq!(store.set_aside_after(2).unwrap().len(), 1);
    assert_eq!(store.reader().pins().unwrap(), [].into());
    let aside = read(&temp.path().join("abandoned-2-1"));
    assert_eq!(aside.pins().unwrap().into_keys().collect::<Vec<_>>(), [3]);
    assert_eq!(store.reader().abandoned().unwrap(), [temp.path().join("abandoned-2-1/ckpt-step-3")]);
    save(&mut store, 3).unwrap();
    assert_eq!(store.prune(last(1), &no_pins()).unwrap().kept, [3]);
}

/// Pins step 1 from outside just before the pruner makes a kind of call on it, after it decided what goes.
#[derive(Debug)]
struct PinBefore {
    op: Op,
    root: PathBuf,
    pinned: Mutex<Option<Result<(), Error>>>,
}

impl FileHook for PinBefore {
    fn before(&self, op: Op, path: &Path) -> Verdict {
        if op == self.op && path.ends_with("ckpt-step-1") {
            *self.pinned.lock().unwrap() = Some(read(&self.root).pin(1, ""));
        }
        Verdict::Go
    }
}

/// Whoever is told that it is pinned finds it there; whoever comes too late is told so.
#[test]
fn a_pin_in_the_middle_of_a_prune_holds_or_is_refused() {
    for (op, holds) in [(Op::Lock, true), (Op::Rename, false)] {
        let temp = tempfile::tempdir().unwrap();
        store_with(temp.path(), 1..=2);
        let hook = Arc::new(PinBefore { op, root: temp.path().to_owned(), pinned: Mutex::default() });
        let mut store = Store::open(temp.path(), options().hook(hook.clone())).unwrap();
        let pruned = store.prune(last(1), &no_pins()).unwrap();
        let pinned = hook.pinned.lock().unwrap().take().unwrap();
        assert_eq!(pinned.is_ok(), holds, "{op}: {pinned:?}");
        assert_eq!(pruned.removed.is_empty(), holds, "{op}: {pruned:?}");
        assert_eq!(read(temp.path()).at(1).is_ok(), holds, "{op}");
        assert_eq!(store.reader().pins().unwrap().contains_key(&1), holds, "{op}");
    }
}

/// A reader that opened a checkpoint just before it was pruned must not believe that it is safe.
#[test]
fn a_checkpoint_that_is_gone_cannot_be_pinned() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), 1..=2);
    let old = read(temp.path()).at(1).unwrap();
    let mut store = open(temp.path());
    store.prune(last(1), &no_pins()).unwrap();
    assert!(matches!(old.pin(), Err(Error::NoSuchStep { step: 1, .. })));
    // The same when another one took its name.
    let old = read(temp.path()).at(2).unwrap();
    store.save(2, Overwrite::Exchange, |stage| fill(stage, 2)).unwrap();
    assert!(old.pin().is_err());
}
