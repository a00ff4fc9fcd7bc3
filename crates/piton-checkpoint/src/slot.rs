//! Where a save in the background leaves what came of it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::checkpoint::Checkpoint;
use crate::error::Error;
use crate::prune::Pruned;

/// What a save in the background came to.
#[derive(Debug)]
pub struct Saved {
    /// The checkpoint, durable.
    pub checkpoint: Checkpoint,
    /// What was pruned after it, if that was asked for. A failure here takes nothing from the save.
    pub pruned: Option<Result<Pruned, Error>>,
}

/// A save in the background. Await it, or [`wait`](Self::wait) for it; or drop it, and the next call to the
/// [`BackgroundStore`](crate::BackgroundStore) gives its error.
#[derive(Debug)]
pub struct SaveHandle {
    pub(crate) step: u64,
    pub(crate) slot: Arc<Slot>,
}

#[derive(Debug, Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    staged: bool,
    ended: bool,
    /// Until somebody takes it.
    outcome: Option<Result<Saved, Error>>,
    waker: Option<Waker>,
}

impl SaveHandle {
    /// The step being saved.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Waits until the content was taken over: from then on the caller's state may change. A save whose content was
    /// copied when it began is there at once.
    pub fn wait_staged(&self) {
        let state = self.slot.lock();
        drop(self.slot.changed.wait_while(state, |state| !state.staged && !state.ended));
    }

    /// Whether the save has ended, well or not.
    pub fn is_done(&self) -> bool {
        self.slot.lock().ended
    }

    /// Waits until the checkpoint is durable.
    ///
    /// # Errors
    /// What made the save fail; it is given once, here or at the next call to the store.
    pub fn wait(self) -> Result<Saved, Error> {
        self.slot.wait();
        self.slot.take().unwrap_or(Err(Error::AlreadyTold { step: self.step }))
    }
}

impl Future for SaveHandle {
    type Output = Result<Saved, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.slot.lock();
        if state.ended {
            return Poll::Ready(state.outcome.take().unwrap_or(Err(Error::AlreadyTold { step: self.step })));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Slot {
    pub(crate) fn staged(&self) {
        self.lock().staged = true;
        self.changed.notify_all();
    }

    pub(crate) fn end(&self, outcome: Result<Saved, Error>) {
        let mut state = self.lock();
        state.ended = true;
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        drop(state);
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn wait(&self) {
        let state = self.lock();
        drop(self.changed.wait_while(state, |state| !state.ended));
    }

    pub(crate) fn take(&self) -> Option<Result<Saved, Error>> {
        self.lock().outcome.take()
    }

    /// What the save failed with; a success stays for the handle.
    pub(crate) fn take_error(&self) -> Option<Error> {
        self.lock().outcome.take_if(|outcome| outcome.is_err()).and_then(Result::err)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
