//! Saving while the caller goes on.

use std::error::Error as StdError;
use std::ops::DerefMut;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::{Error, SaveError};
use crate::reader::Reader;
use crate::retention::Retention;
use crate::save::{Begun, Overwrite};
use crate::slot::{SaveHandle, Saved, Slot};
use crate::stage::Stage;
use crate::store::Store;

/// A [`Store`] with a thread that writes, so that a save costs its caller a copy of the state and no more.
///
/// ```
/// # use piton_checkpoint::{BackgroundStore, Error, Overwrite, Store, StoreOptions};
/// # fn main() -> Result<(), Error> {
/// # let temp = tempfile::tempdir().unwrap();
/// # let store = Store::open(temp.path(), StoreOptions::new("run-1", "config-digest", || 0))?;
/// let mut store = BackgroundStore::new(store)?;
/// let mut weights = vec![1_u8; 3_000_000];
/// let save = store.save(7, Overwrite::Refuse, |stage| stage.write("model.bin", &weights))?;
/// weights.fill(2); // the copy was made: train on
/// assert_eq!(save.wait()?.checkpoint.read("model.bin")?[0], 1); // durable
/// store.close()?;
/// # Ok(())
/// # }
/// ```
///
/// One save is under way at most: the next waits for it. Memory for the copies is kept from save to save, as much as the
/// largest needed. An error is told once: by the save's handle, or, if nobody asked there, by the next call here. Dropping
/// the store waits for the save under way; [`close`](Self::close) does too and tells how it went.
#[derive(Debug)]
pub struct BackgroundStore {
    store: Arc<Mutex<Store>>,
    reader: Reader,
    keep: Option<Retention>,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    last: Option<Arc<Slot>>,
}

type Work = Box<dyn FnOnce(&mut Store) -> Result<Saved, Error> + Send>;

/// What the thread does next.
enum Job {
    Save { slot: Arc<Slot>, work: Work },
    Reserve { bytes: u64 },
}

impl BackgroundStore {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn new(store: Store) -> Result<Self, Error> {
        let (reader, pool) = (store.reader().clone(), Arc::clone(&store.pool));
        let root = store.root().to_owned();
        let store = Arc::new(Mutex::new(store));
        let (jobs, inbox) = channel();
        let of_thread = Arc::clone(&store);
        let work = move || {
            for job in inbox {
                match job {
                    Job::Reserve { bytes } => pool.fill(bytes),
                    Job::Save { slot, work } => {
                        let run = || work(&mut of_thread.lock().unwrap_or_else(PoisonError::into_inner));
                        slot.end(catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(Error::WriterPanicked)));
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("checkpoint-save".to_owned()).spawn(work);
        let thread = thread.map_err(|source| Error::Io { op: crate::Op::Write, path: root, source })?;
        Ok(Self { store, reader, keep: None, jobs: Some(jobs), thread: Some(thread), last: None })
    }

    /// Prunes after each save from now on, by this policy, once the save is durable.
    pub fn prune_to(&mut self, keep: impl Into<Retention>) {
        self.keep = Some(keep.into());
    }

    /// Prepares memory for saves of so many bytes, on the thread, so that the first save does not wait for it.
    pub fn reserve(&mut self, bytes: u64) {
        self.send(Job::Reserve { bytes });
    }

    /// Saves a checkpoint in the background. `fill` is run here and now, and what it writes is copied.
    ///
    /// # Errors
    /// [`SaveError::Content`] with what `fill` returned; [`SaveError::Store`] when the save cannot begin, or when the last
    /// one failed and nobody was told: then this one was not begun and may be tried again.
    pub fn save<E>(
        &mut self,
        step: u64,
        overwrite: Overwrite,
        fill: impl FnOnce(&mut Stage) -> Result<(), E>,
    ) -> Result<SaveHandle, SaveError<E>> {
        let keep = self.keep.clone();
        let mut store = self.store()?;
        let mut begun = store.begin_save(step, overwrite)?;
        begun.stage.hold();
        begun.fill(fill)?;
        drop(store);
        let slot = Arc::new(Slot::default());
        slot.staged();
        let work = move |store: &mut Store| {
            begun.stage.release()?;
            commit(store, begun, keep)
        };
        Ok(self.start(step, slot, Box::new(work)))
    }

    /// Saves a checkpoint in the background from content that `fill` owns: it is run on the thread, and nothing is copied.
    ///
    /// # Errors
    /// When the last save failed and nobody was told: then this one was not begun and may be tried again.
    pub fn save_owned<E: Into<Box<dyn StdError + Send + Sync>>>(
        &mut self,
        step: u64,
        overwrite: Overwrite,
        fill: impl FnOnce(&mut Stage) -> Result<(), E> + Send + 'static,
    ) -> Result<SaveHandle, Error> {
        self.wait_idle()?;
        let keep = self.keep.clone();
        let slot = Arc::new(Slot::default());
        let told = Arc::clone(&slot);
        let work = move |store: &mut Store| {
            let mut begun = store.begin_save(step, overwrite)?;
            begun.fill(fill).map_err(|error| match error {
                SaveError::Store(error) => error,
                SaveError::Content(source) => Error::Content { step, source: source.into() },
            })?;
            told.staged();
            commit(store, begun, keep)
        };
        Ok(self.start(step, slot, Box::new(work)))
    }

    /// The reading side; it never sees the save under way.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The store itself, once the save under way has ended.
    ///
    /// # Errors
    /// What made that save fail, if nobody was told.
    pub fn store(&mut self) -> Result<impl DerefMut<Target = Store> + use<'_>, Error> {
        self.wait_idle()?;
        let guard: MutexGuard<'_, Store> = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(guard)
    }

    /// Waits for the save under way.
    ///
    /// # Errors
    /// What made it fail, if nobody was told.
    pub fn wait_idle(&mut self) -> Result<(), Error> {
        let Some(last) = self.last.take() else { return Ok(()) };
        last.wait();
        last.take_error().map_or(Ok(()), Err)
    }

    /// Waits for the save under way, ends the thread and gives the store back.
    ///
    /// # Errors
    /// What made that save fail, if nobody was told. The store is then closed.
    pub fn close(mut self) -> Result<Store, Error> {
        let ended = self.wait_idle();
        self.join();
        ended?;
        let store = Arc::clone(&self.store);
        drop(self);
        let store = Arc::into_inner(store).ok_or(Error::WriterPanicked)?;
        Ok(store.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn start(&mut self, step: u64, slot: Arc<Slot>, work: Work) -> SaveHandle {
        self.last = Some(Arc::clone(&slot));
        self.send(Job::Save { slot: Arc::clone(&slot), work });
        SaveHandle { step, slot }
    }

    fn send(&self, job: Job) {
        let lost = self.jobs.as_ref().and_then(|jobs| jobs.send(job).err());
        if let Some(Job::Save { slot, .. }) = lost.map(|lost| lost.0) {
            slot.end(Err(Error::WriterPanicked));
        }
    }

    fn join(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _panics_were_caught = thread.join();
        }
    }
}

impl Drop for BackgroundStore {
    fn drop(&mut self) {
        self.join();
    }
}

fn commit(store: &mut Store, begun: Begun, keep: Option<Retention>) -> Result<Saved, Error> {
    let checkpoint = store.commit(begun)?;
    let pruned = keep.map(|keep| store.prune(keep, &std::collections::BTreeSet::new()));
    Ok(Saved { checkpoint, pruned })
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Save { .. } => "Save",
            Self::Reserve { .. } => "Reserve",
        })
    }
}
