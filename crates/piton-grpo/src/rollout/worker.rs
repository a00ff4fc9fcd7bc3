//! The thread that owns the engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use piton_agent::{GenerateRequest, Generation};
use piton_data::Tokenizer;
use piton_lm::Weights;
use piton_lm::generate::{Engine, Finished};
use tokio::sync::oneshot;

use super::waiter::Waiter;
use super::{Message, RolloutSettings};
use crate::{Error, Result};

/// How long an idle engine waits for a further request after one came, so that a whole batch starts in one forward.
///
/// A request arrives within microseconds of the one before; a forward takes a millisecond or more.
const GATHER: Duration = Duration::from_micros(300);

/// The engine, who waits for it, and a copy of the weights it holds, for checkpoints.
pub(super) struct Worker {
    engine: Engine,
    weights: Weights,
    tokenizer: Tokenizer,
    settings: RolloutSettings,
    inbox: Receiver<Message>,
    paused: Arc<AtomicBool>,
    waiters: BTreeMap<u64, Waiter>,
    next_id: u64,
}

/// What follows from a message.
#[derive(PartialEq)]
enum Then {
    GoOn,
    End,
}

impl Worker {
    pub(super) fn new(
        engine: Engine,
        weights: Weights,
        tokenizer: Tokenizer,
        settings: RolloutSettings,
        inbox: Receiver<Message>,
        paused: Arc<AtomicBool>,
    ) -> Self {
        Self { engine, weights, tokenizer, settings, inbox, paused, waiters: BTreeMap::new(), next_id: 0 }
    }

    /// Serves until it is told to end or nobody can ask any more; then aborts what is under way.
    pub(super) fn run(&mut self) {
        while self.take_messages() == Then::GoOn {
            if self.paused.load(Ordering::Acquire) {
                self.abort();
            } else if !self.engine.is_idle() {
                self.step();
            }
        }
        self.abort();
    }

    /// Waits for a message when idle, and gathers what follows it closely; under way, takes what is there.
    fn take_messages(&mut self) -> Then {
        if self.engine.is_idle() {
            let mut next = self.inbox.recv().ok();
            while let Some(message) = next {
                if self.handle(message) == Then::End {
                    return Then::End;
                }
                if self.engine.is_idle() {
                    return Then::GoOn; // not a request: nobody's batch is waiting
                }
                next = match self.inbox.recv_timeout(GATHER) {
                    Ok(message) => Some(message),
                    Err(_) => return Then::GoOn,
                };
            }
            return Then::End;
        }
        loop {
            match self.inbox.try_recv() {
                Ok(message) => {
                    if self.handle(message) == Then::End {
                        return Then::End;
                    }
                }
                Err(TryRecvError::Empty) => return Then::GoOn,
                Err(TryRecvError::Disconnected) => return Then::End,
            }
        }
    }

    fn handle(&mut self, message: Message) -> Then {
        match message {
            Message::Generate { request, reply } => self.submit(request, reply),
            // Whoever asked and has gone needs no answer.
            Message::Publish { weights, model_step, reply } => {
                drop(reply.send(self.publish(&weights, model_step)))
            }
            Message::Published { reply } => drop(reply.send(self.published())),
            Message::Shutdown => return Then::End,
        }
        Then::GoOn
    }

    fn submit(&mut self, request: GenerateRequest, reply: oneshot::Sender<Result<Generation>>) {
        let id = self.next_id;
        self.next_id += 1;
        let waiter = Waiter::new(request, reply);
        match waiter.engine_request(id, &self.settings).and_then(|request| Ok(self.engine.submit(request)?)) {
            Ok(()) => drop(self.waiters.insert(id, waiter)),
            Err(error) => waiter.fail(error),
        }
    }

    /// One token for everyone; an error of the engine ends every request in it.
    fn step(&mut self) {
        match self.engine.step() {
            Ok(finished) => self.answer(finished),
            Err(error) => {
                let reason = error.to_string();
                self.engine.abort_all();
                for waiter in std::mem::take(&mut self.waiters).into_values() {
                    waiter.fail(Error::Engine { operation: "generate", reason: reason.clone() });
                }
            }
        }
    }

    fn abort(&mut self) {
        let finished = self.engine.abort_all();
        self.answer(finished);
    }

    fn answer(&mut self, finished: Vec<Finished>) {
        for finished in finished {
            if let Some(mut waiter) = self.waiters.remove(&finished.id) {
                waiter.note(finished.response_ids.len(), self.engine.version());
                waiter.answer(&self.tokenizer, finished);
            }
        }
    }

    /// Responses under way go on with the new weights, their cache made anew; each token keeps the version that made it.
    fn publish(&mut self, weights: &Weights, model_step: u64) -> Result<()> {
        self.weights.copy_from(weights)?;
        let under_way = self.engine.abort_all();
        let version = self.engine.version();
        self.engine.load_weights(&self.weights, model_step)?;
        for partial in under_way {
            let Some(mut waiter) = self.waiters.remove(&partial.id) else { continue };
            waiter.note(partial.response_ids.len(), version);
            let request = waiter.engine_request(partial.id, &self.settings);
            match request.and_then(|request| Ok(self.engine.submit(request.continue_from(&partial))?)) {
                Ok(()) => drop(self.waiters.insert(partial.id, waiter)),
                Err(error) => waiter.fail(error),
            }
        }
        Ok(())
    }

    fn published(&self) -> Result<(Weights, u64)> {
        Ok((self.weights.snapshot()?, self.engine.version()))
    }
}
