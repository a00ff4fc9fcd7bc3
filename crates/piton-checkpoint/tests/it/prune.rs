//! Deleting old checkpoints.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use piton_checkpoint::{Keep, Op, Overwrite, Retention, Store};

use crate::support::{
    Trace, assert_filled, fill, last, names, no_pins, open, options, read, save, store_with,
};

#[test]
fn the_list_is_the_directory_so_a_restart_prunes_what_another_process_wrote() {
    let temp = tempfile::tempdir().unwrap();
    for step in 1..=5 {
        let mut store = open(temp.path());
        save(&mut store, step).unwrap();
        let pruned = store.prune(last(1), &no_pins()).unwrap();
        assert_eq!(pruned.kept, [step]);
        assert_eq!(names(temp.path()), [format!("ckpt-step-{step}")]);
    }
}

#[test]
fn pinned_steps_stay() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), 1..=4);
    let pin = read(temp.path()).at(1).unwrap().pin().unwrap();
    let mut store = open(temp.path());
    let pruned = store.prune(last(1), &[2].into()).unwrap();
    assert_eq!((pruned.removed, pruned.kept, pruned.pinned), (vec![3], vec![1, 2, 4], vec![1]));
    drop(pin);
    assert_eq!(store.prune(last(1), &no_pins()).unwrap().removed, [1, 2]);
}

#[test]
fn the_best_by_a_metric_of_the_manifest_stay() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    for (step, value) in [(1, 0.1), (2, 0.3), (3, f64::MIN_POSITIVE), (4, 0.2)] {
        let saved = store.save(step, Overwrite::Refuse, |stage| {
            stage.metric("eval/accuracy", 7.0)?;
            stage.metric("eval/accuracy", value)?;
            fill(stage, step)
        });
        assert_eq!(saved.unwrap().manifest().metrics, [("eval/accuracy".to_owned(), value)].into());
    }
    drop(store);
    // Read back from the disk, by another process.
    let best: Retention = "best 2 by eval/accuracy".parse().unwrap();
    assert_eq!(open(temp.path()).prune(best.clone(), &no_pins()).unwrap().kept, [2, 4]);
    assert_eq!(read(temp.path()).at(2).unwrap().manifest().metrics.get("eval/accuracy"), Some(&0.3));
    // The clock of the tests stands still, so that the newest is as old as the others.
    let pruned = open(temp.path()).prune(best.or(Keep::Within(Duration::ZERO)), &no_pins()).unwrap();
    assert_eq!((pruned.removed.len(), pruned.kept.len()), (0, 2));
}

#[test]
fn damaged_checkpoints_neither_count_nor_go() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), 1..=3);
    // The newest has its sizes but not its bytes: a process that did not write it must read it before it trusts it.
    fs::write(temp.path().join("ckpt-step-3/train_state.json"), "{\"cur_step\": 4}\n").unwrap();
    fs::create_dir(temp.path().join("ckpt-step-9")).unwrap();
    let pruned = open(temp.path()).prune(last(1), &no_pins()).unwrap();
    assert_eq!((pruned.removed, pruned.kept), (vec![1], vec![2]));
    assert_eq!(names(temp.path()), ["ckpt-step-2", "ckpt-step-3", "ckpt-step-9"]);
    assert_filled(&read(temp.path()).latest().unwrap().unwrap());
}

#[test]
fn foreign_names_and_what_links_point_to_are_untouched() {
    let temp = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), b"precious").unwrap();
    store_with(temp.path(), 1..=2);
    fs::write(temp.path().join("notes.txt"), b"notes").unwrap();
    fs::create_dir(temp.path().join("ckpt-step-1.bak")).unwrap();
    symlink(outside.path(), temp.path().join("ckpt-step-1/weights/link")).unwrap();
    symlink(outside.path(), temp.path().join(".trash-ckpt-step-0-00000000-1-1")).unwrap();
    let pruned = open(temp.path()).prune(last(1), &no_pins()).unwrap();
    assert_eq!(pruned.removed, [1]);
    assert!(pruned.problems.is_empty(), "{:?}", pruned.problems);
    assert_eq!(names(temp.path()), ["ckpt-step-1.bak", "ckpt-step-2", "notes.txt"]);
    assert_eq!(fs::read(outside.path().join("precious")).unwrap(), b"precious");
}

/// Until the root is synced a power cut can undo a rename, and the old name must not come back over half a tree.
#[test]
fn nothing_is_unlinked_before_the_root_is_synced() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), 1..=3);
    fs::create_dir(temp.path().join(".trash-ckpt-step-0-0123abcd-1-1")).unwrap();
    let trace = Arc::new(Trace::default());
    let mut store = Store::open(temp.path(), options().hook(trace.clone())).unwrap();
    let changes = || {
        let mut calls = trace.take();
        calls.retain(|(_, path)| !path.contains("/.tmp-file-"));
        let mut ops: Vec<Op> = calls.into_iter().map(|(op, _)| op).collect();
        ops.retain(|op| matches!(op, Op::Rename | Op::SyncDir | Op::Unlink | Op::RemoveDir));
        ops.dedup();
        ops.truncate(3);
        ops
    };
    assert_eq!(changes(), [Op::SyncDir, Op::RemoveDir]);
    store.prune(last(1), &no_pins()).unwrap();
    assert_eq!(changes(), [Op::Rename, Op::SyncDir, Op::Unlink]);
}
