//! Going on from a checkpoint that is not the highest.

use crate::support::{assert_filled, last, names, no_pins, open, read, save, store_with};

#[test]
fn a_rolled_back_run_sets_its_future_aside_and_goes_on() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), 1..=4);
    let mut store = open(temp.path());
    let moved = store.set_aside_after(2).unwrap();
    let holder = temp.path().join("abandoned-2-1");
    assert_eq!(moved, [holder.join("ckpt-step-4"), holder.join("ckpt-step-3")]);
    assert_eq!(save(&mut store, 3).unwrap().manifest().parent_step, Some(2));
    assert_eq!(store.prune(last(1), &no_pins()).unwrap().removed, [1, 2]);
    assert_eq!(names(temp.path()), ["abandoned-2-1", "ckpt-step-3"]);
    assert_eq!(store.reader().abandoned().unwrap().len(), 2);
    assert_filled(&read(&holder).at(4).unwrap());
}

#[test]
fn with_nothing_ahead_nothing_is_made() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1]);
    assert!(open(temp.path()).set_aside_after(1).unwrap().is_empty());
    assert_eq!(names(temp.path()), ["ckpt-step-1"]);
}

#[test]
fn a_second_rollback_to_the_same_step_gets_its_own_place() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    for _ in 0..2 {
        for step in 1..=2 {
            save(&mut store, step).unwrap();
        }
        store.set_aside_after(0).unwrap();
    }
    assert_eq!(names(temp.path()), ["abandoned-0-1", "abandoned-0-2"]);
    assert!(store.latest().unwrap().is_none());
}
