//! Generation in this process: an engine on a thread of its own, asked by any number of tasks.

mod waiter;
mod worker;

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use piton_agent::{BoxError, BoxFuture, GenerateRequest, Generation, RolloutController};
use piton_data::Tokenizer;
use piton_lm::generate::{Engine, EngineConfig};
use piton_lm::{ModelConfig, Weights};
use piton_rng::Seed;
use tokio::sync::oneshot;

use crate::publish::PublishWeights;
use crate::{Error, Result};
use worker::Worker;

/// A [`RolloutController`] over an [`Engine`] in this process.
///
/// Sample `index` of group `group_id` draws from the streams `[group_id, index, position]` of the domain `sample/<task>`, or
/// `eval/<task>` for an evaluation: what it says is a function of the seed, these ids, the weights and the prompt.
///
/// A panic or an error on the engine's thread becomes an error of every request in it. Dropping this aborts what is
/// being generated and joins the thread.
pub struct LocalRollout {
    link: Link,
    thread: Option<JoinHandle<()>>,
}

/// What every response of a [`LocalRollout`] depends on besides its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutSettings {
    /// The run's seed.
    pub seed: Seed,
    /// Most tokens of prompt and response together.
    pub context_length: usize,
}

/// The learner's handle to the weights of a [`LocalRollout`]. Cheap to clone.
#[derive(Clone)]
pub struct WeightPublisher {
    link: Link,
}

impl LocalRollout {
    /// Makes an engine that holds a copy of `weights`, as those of train step 0, and starts its thread, named `rollout`.
    ///
    /// # Errors
    /// When the engine refuses the model or its settings, or the system gives no thread.
    pub fn start(
        model: &ModelConfig,
        weights: &Weights,
        tokenizer: Tokenizer,
        engine: EngineConfig,
        settings: RolloutSettings,
    ) -> Result<Self> {
        let engine = Engine::new(model, weights, engine, 0)?;
        let weights = weights.snapshot()?;
        let (messages, inbox) = mpsc::channel();
        let link = Link { messages, paused: Arc::default(), ended: Arc::default() };
        let (paused, ended) = (Arc::clone(&link.paused), Arc::clone(&link.ended));
        let body = move || {
            let mut worker = Worker::new(engine, weights, tokenizer, settings, inbox, paused);
            let reason = match std::panic::catch_unwind(AssertUnwindSafe(|| worker.run())) {
                Ok(()) => "it was shut down".to_owned(),
                Err(panic) => format!("it panicked: {}", text_of(&*panic)),
            };
            // before the worker is dropped: its waiters then find the reason
            *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        };
        let thread = std::thread::Builder::new().name("rollout".to_owned()).spawn(body);
        let thread =
            thread.map_err(|source| Error::Io { action: "start thread", path: "rollout".into(), source })?;
        Ok(Self { link, thread: Some(thread) })
    }

    /// A handle that publishes weights to this engine.
    pub fn publisher(&self) -> WeightPublisher {
        WeightPublisher { link: self.link.clone() }
    }
}

impl RolloutController for LocalRollout {
    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Generation, BoxError>> {
        let (reply, answer) = oneshot::channel();
        let sent = self.link.send("generate", Message::Generate { request, reply });
        Box::pin(async move {
            sent?;
            Ok(answer.await.map_err(|_| self.link.ended("generate"))??)
        })
    }

    fn pause_generation(&self) -> Result<(), BoxError> {
        self.link.paused.store(true, Ordering::Release);
        Ok(())
    }

    fn continue_generation(&self) -> Result<(), BoxError> {
        self.link.paused.store(false, Ordering::Release);
        Ok(())
    }
}

impl Drop for LocalRollout {
    fn drop(&mut self) {
        // An error says that the thread has ended already.
        let _ = self.link.messages.send(Message::Shutdown);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl PublishWeights for WeightPublisher {
    fn publish(&self, weights: &Weights, model_step: u64) -> Result<()> {
        let weights = weights.shallow_clone();
        self.link.ask("publish weights", |reply| Message::Publish { weights, model_step, reply })?
    }

    fn published(&self) -> Result<(Weights, u64)> {
        self.link.ask("read the published weights", |reply| Message::Published { reply })?
    }
}

impl fmt::Debug for LocalRollout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalRollout").finish_non_exhaustive()
    }
}

impl fmt::Debug for WeightPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeightPublisher").finish_non_exhaustive()
    }
}

/// What is asked of the thread. Whoever asks for weights waits, so that nobody writes to them meanwhile.
enum Message {
    Generate { request: GenerateRequest, reply: oneshot::Sender<Result<Generation>> },
    Publish { weights: Weights, model_step: u64, reply: mpsc::Sender<Result<()>> },
    Published { reply: mpsc::Sender<Result<(Weights, u64)>> },
    Shutdown,
}

#[derive(Clone)]
struct Link {
    messages: mpsc::Sender<Message>,
    paused: Arc<AtomicBool>,
    ended: Arc<Mutex<Option<String>>>,
}

impl Link {
    fn send(&self, operation: &'static str, message: Message) -> Result<()> {
        self.messages.send(message).map_err(|_| self.ended(operation))
    }

    fn ask<T>(&self, operation: &'static str, message: impl FnOnce(mpsc::Sender<T>) -> Message) -> Result<T> {
        let (reply, answer) = mpsc::channel();
        self.send(operation, message(reply))?;
        answer.recv().map_err(|_| self.ended(operation))
    }

    fn ended(&self, operation: &'static str) -> Error {
        let reason = self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Error::RolloutEnded {
            operation,
            reason: reason.unwrap_or_else(|| "it dropped the request".to_owned()),
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
