//! Saves in the background: copies, one at a time, errors told once, never seen before they are durable.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use piton_checkpoint::{
    BackgroundStore, Error, FileHook, Keep, Op, Overwrite, SaveError, Stage, Store, Verdict,
};

use crate::support::{last, names, no_pins, options, read};

/// Holds the rename back until it is let go, and fails the next sync when told to.
#[derive(Debug, Default)]
struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
    fail: AtomicBool,
    panic: AtomicBool,
}

impl Gate {
    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.opened.notify_all();
    }
}

impl FileHook for Gate {
    fn before(&self, op: Op, _path: &Path) -> Verdict {
        if op == Op::Rename {
            drop(self.opened.wait_while(self.closed.lock().unwrap(), |closed| *closed).unwrap());
        }
        if op == Op::Sync {
            assert!(!self.panic.swap(false, Ordering::Relaxed), "a hook may panic too");
            if self.fail.swap(false, Ordering::Relaxed) {
                return Verdict::Fail(5);
            }
        }
        Verdict::Go
    }
}

fn gated(root: &Path) -> (BackgroundStore, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let store = Store::open(root, options().hook(gate.clone())).unwrap();
    (BackgroundStore::new(store).unwrap(), gate)
}

fn fill(stage: &mut Stage, value: u8) -> Result<(), Error> {
    stage.write("small", &[value; 100])?;
    stage.write("large", &vec![value; 9_000_001])
}

fn steps(root: &Path) -> Vec<u64> {
    read(root).steps().unwrap()
}

#[test]
fn what_changes_after_save_returned_is_not_in_the_checkpoint() {
    let temp = tempfile::tempdir().unwrap();
    let (mut store, gate) = gated(temp.path());
    let (mut small, mut large) = (vec![1_u8; 100], vec![1_u8; 9_000_001]);
    gate.set(true);
    let save = store.save(1, Overwrite::Refuse, |stage| {
        stage.write("small", &small)?;
        stage.write("large", &large)
    });
    let save = save.unwrap();
    save.wait_staged();
    small.fill(2);
    large.fill(2);
    assert!(!save.is_done());
    assert_eq!(steps(temp.path()), [] as [u64; 0], "a save under way is not seen");
    assert!(store.reader().latest().unwrap().is_none());
    gate.set(false);
    let saved = save.wait().unwrap().checkpoint;
    assert!(saved.read("large").unwrap().iter().all(|byte| *byte == 1));
    assert_eq!(saved.read("small").unwrap(), [1; 100]);
    assert_eq!(steps(temp.path()), [1]);
}

#[test]
fn a_background_save_is_the_same_bytes_as_a_save() {
    let temp = tempfile::tempdir().unwrap();
    let (mut store, _) = gated(temp.path());
    let whole = |checkpoint: &piton_checkpoint::Checkpoint| checkpoint.manifest().files.clone();
    let first =
        whole(&store.save(1, Overwrite::Refuse, |stage| fill(stage, 3)).unwrap().wait().unwrap().checkpoint);
    let owned = store.save_owned(2, Overwrite::Refuse, |stage| fill(stage, 3)).unwrap();
    owned.wait_staged();
    assert_eq!(first, whole(&owned.wait().unwrap().checkpoint));
    let mut store = store.close().unwrap();
    assert_eq!(first, whole(&store.save(3, Overwrite::Refuse, |stage| fill(stage, 3)).unwrap()));
}

#[test]
fn an_error_that_nobody_asked_for_is_told_by_the_next_call_and_only_once() {
    let temp = tempfile::tempdir().unwrap();
    let (mut store, gate) = gated(temp.path());
    store.save(1, Overwrite::Refuse, |stage| fill(stage, 1)).unwrap().wait().unwrap();
    gate.fail.store(true, Ordering::Relaxed);
    drop(store.save(2, Overwrite::Refuse, |stage| fill(stage, 2)).unwrap());
    let told = store.save(3, Overwrite::Refuse, |_| -> Result<(), Error> { panic!("not begun") });
    let Err(SaveError::Store(error)) = told else { panic!("{told:?}") };
    assert!(error.errno() == Some(5) && error.to_string().contains("fsync"), "{error}");
    assert_eq!(names(temp.path()).iter().filter(|name| name.starts_with("ckpt")).count(), 1);
    store.wait_idle().unwrap();
    store.save(2, Overwrite::Refuse, |stage| fill(stage, 2)).unwrap().wait().unwrap();
    assert_eq!(steps(temp.path()), [1, 2]);

    // who asks the handle is told there, and the store is silent
    gate.fail.store(true, Ordering::Relaxed);
    assert!(store.save(3, Overwrite::Refuse, |stage| fill(stage, 3)).unwrap().wait().is_err());
    store.close().unwrap();
}

#[test]
fn a_handle_tells_of_its_checkpoint_after_the_next_save_began_too() {
    let temp = tempfile::tempdir().unwrap();
    let (mut store, _gate) = gated(temp.path());
    let first = store.save(1, Overwrite::Refuse, |stage| fill(stage, 1)).unwrap();
    let second = store.save(2, Overwrite::Refuse, |stage| fill(stage, 2)).unwrap();
    assert_eq!(first.wait().unwrap().checkpoint.step(), 1);
    assert_eq!(second.wait().unwrap().checkpoint.step(), 2);
}

#[test]
fn the_next_save_waits_and_pruning_follows_the_commit() {
    let temp = tempfile::tempdir().unwrap();
    let (mut store, _) = gated(temp.path());
    store.prune_to(Keep::Last(2.try_into().unwrap()));
    for step in 1..=5 {
        store.save(step, Overwrite::Refuse, |stage| fill(stage, 9)).unwrap();
    }
    let sixth = store.save(6, Overwrite::Refuse, |stage| fill(stage, 9)).unwrap();
    let pruned = sixth.wait().unwrap().pruned.unwrap().unwrap();
    assert_eq!((pruned.removed, pruned.kept), (vec![4], vec![5, 6]));
    let mut inner = store.store().unwrap();
    assert!(inner.prune(last(1), &no_pins()).unwrap().problems.is_empty());
    drop(inner);
    assert_eq!(steps(temp.path()), [6]);
}

#[test]
fn dropping_the_store_waits_for_the_save_under_way() {
    let temp = tempfile::tempdir().unwrap();
    let (mut store, _) = gated(temp.path());
    drop(store.save(1, Overwrite::Refuse, |stage| fill(stage, 1)).unwrap());
    drop(store);
    assert_eq!(steps(temp.path()), [1]);
    // and the lock is free
    drop(Store::open(temp.path(), options()).unwrap());
}

#[test]
fn a_panic_on_the_thread_is_an_error_and_the_next_save_works() {
    let temp = tempfile::tempdir().unwrap();
    let (mut store, gate) = gated(temp.path());
    let owned = store.save_owned(1, Overwrite::Refuse, |_| -> Result<(), Error> { panic!("by the caller") });
    assert!(matches!(owned.unwrap().wait(), Err(Error::WriterPanicked)));
    gate.panic.store(true, Ordering::Relaxed);
    drop(store.save(1, Overwrite::Refuse, |stage| fill(stage, 1)).unwrap());
    assert!(matches!(store.wait_idle(), Err(Error::WriterPanicked)));
    store.save(1, Overwrite::Refuse, |stage| fill(stage, 1)).unwrap().wait().unwrap();
    assert_eq!(names(temp.path()).iter().filter(|name| name.starts_with(".tmp")).count(), 0);
}

#[test]
fn content_that_cannot_be_produced_costs_this_save_alone() {
    let temp = tempfile::tempdir().unwrap();
    let (mut store, _) = gated(temp.path());
    let given_up = store.save(1, Overwrite::Refuse, |_| Err("no weights"));
    assert!(matches!(given_up, Err(SaveError::Content("no weights"))));
    let given_up = store.save_owned(1, Overwrite::Refuse, |_| Err("no weights")).unwrap().wait().unwrap_err();
    assert!(
        given_up.to_string().contains("step 1 was given up") && given_up.to_string().contains("no weights")
    );
    let twice = store.save(1, Overwrite::Refuse, |stage| {
        stage.write("x", b"1")?;
        stage.write("x", b"2")
    });
    assert!(matches!(twice, Err(SaveError::Content(error)) if error.errno() == Some(17)));
    assert_eq!(steps(temp.path()), [] as [u64; 0]);
}

/// The handle is a future that any executor can drive.
#[test]
fn a_save_can_be_awaited() {
    struct Wake(std::thread::Thread);
    impl std::task::Wake for Wake {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let temp = tempfile::tempdir().unwrap();
    let (mut store, gate) = gated(temp.path());
    gate.set(true);
    let mut save = std::pin::pin!(store.save(1, Overwrite::Refuse, |stage| fill(stage, 1)).unwrap());
    let waker = Arc::new(Wake(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    assert!(save.as_mut().poll(&mut context).is_pending());
    gate.set(false);
    let saved = loop {
        match save.as_mut().poll(&mut context) {
            std::task::Poll::Ready(saved) => break saved,
            std::task::Poll::Pending => std::thread::park(),
        }
    };
    assert_eq!(saved.unwrap().checkpoint.step(), 1);
}
