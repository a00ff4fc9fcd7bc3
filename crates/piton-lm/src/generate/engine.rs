//! The engine that callers hold.

use std::num::NonZeroUsize;

use rayon::{ThreadPool, ThreadPoolBuilder};
use tch::Device;

use super::cpu::CpuBackend;
use super::scheduler::{Limits, Schedule, Scheduler};
use super::torch::TorchBackend;
use super::{Finished, Request};
use crate::{Error, ModelConfig, Result, Weights};

/// How much runs at once, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineConfig {
    /// Most responses under way; further requests wait.
    pub max_running: NonZeroUsize,
    /// Most rows of one forward; longer prompts are cached in parts.
    pub max_tokens_per_forward: NonZeroUsize,
    /// Ids that end a response; `None` takes those of the model's configuration.
    pub eos_token_ids: Option<Vec<u32>>,
    /// Where to compute.
    pub device: Device,
    /// Whose arithmetic computes.
    pub kernels: Kernels,
    /// CPU threads; `None` takes as many as the process may use. On the CPU the results do not depend on it.
    pub threads: Option<NonZeroUsize>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        const MAX_RUNNING: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");
        const MAX_TOKENS: NonZeroUsize = NonZeroUsize::new(8192).expect("not zero");
        Self {
            max_running: MAX_RUNNING,
            max_tokens_per_forward: MAX_TOKENS,
            eos_token_ids: None,
            device: Device::Cpu,
            kernels: Kernels::Auto,
            threads: None,
        }
    }
}

/// Whose arithmetic computes the forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernels {
    /// This crate's kernels on the CPU, batch-invariant to the bit; libtorch's elsewhere.
    Auto,
    /// libtorch's on every device; the last bits of a response may depend on what shares its batch.
    Libtorch,
}

/// Generates responses for many requests at once, with one copy of the weights.
#[derive(Debug)]
pub struct Engine {
    scheduler: Box<dyn Schedule>,
    pool: ThreadPool,
    version: u64,
}

impl Engine {
    /// Copies `weights` and starts the threads.
    ///
    /// `version` names these weights; [`Engine::version`] gives it back.
    ///
    /// # Errors
    /// When an end-of-sequence id is past the vocabulary, libtorch refuses a copy, or a thread cannot be started.
    pub fn new(model: &ModelConfig, weights: &Weights, config: EngineConfig, version: u64) -> Result<Self> {
        let eos_token_ids = config.eos_token_ids.unwrap_or_else(|| model.eos_token_ids.clone());
        if let Some(id) = eos_token_ids.iter().find(|id| **id as usize >= model.vocab_size) {
            return Err(Error::Input(format!(
                "end-of-sequence id {id} is past the vocabulary, expected ids below {}",
                model.vocab_size
            )));
        }
        let limits = Limits {
            max_running: config.max_running.get(),
            max_tokens_per_forward: config.max_tokens_per_forward.get(),
            eos_token_ids,
        };
        let pool = ThreadPoolBuilder::new()
            .num_threads(config.threads.map_or(0, NonZeroUsize::get))
            .thread_name(|index| format!("generate-{index}"))
            .build()
            .map_err(|error| Error::Input(format!("start generation threads: {error}")))?;
        let scheduler: Box<dyn Schedule> = match (config.kernels, config.device) {
            (Kernels::Auto, Device::Cpu) => {
                Box::new(Scheduler::new(CpuBackend::new(model, weights)?, model, limits))
            }
            (_, device) => {
                Box::new(Scheduler::new(TorchBackend::new(model, weights, device)?, model, limits))
            }
        };
        Ok(Self { scheduler, pool, version })
    }

    /// Copies other weights of the same shape in place.
    ///
    /// # Errors
    /// When requests are in flight, whose cache the old weights made: abort them, load, and submit what is left.
    pub fn load_weights(&mut self, weights: &Weights, version: u64) -> Result<()> {
        if !self.is_idle() {
            return Err(Error::Input(format!(
                "load weights {version}: {} requests are in flight under weights {}; call abort_all first",
                self.scheduler.in_flight(),
                self.version
            )));
        }
        self.scheduler.load(weights)?;
        self.version = version;
        Ok(())
    }

    /// The version of the weights held now.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Takes a request; it joins the running ones at the next step that has room.
    ///
    /// # Errors
    /// When the request cannot be served; the message names the request and what to change.
    pub fn submit(&mut self, request: Request) -> Result<()> {
        self.scheduler.submit(request)
    }

    /// Computes one more token of everything that runs, and gives the responses that ended, in order of submission.
    ///
    /// # Errors
    /// When the logits of a sequence are not finite, or libtorch refuses an operation. Nothing is lost: the step can be
    /// tried again, or the requests aborted.
    pub fn step(&mut self) -> Result<Vec<Finished>> {
        self.scheduler.step(&self.pool)
    }

    /// Whether nothing is in flight and nothing waits to be handed out.
    pub fn is_idle(&self) -> bool {
        self.scheduler.in_flight() == 0
    }

    /// Ends everything in flight with the tokens it has, in order of submission.
    pub fn abort_all(&mut self) -> Vec<Finished> {
        self.scheduler.abort_all()
    }

    /// Generates all of `requests` and gives the responses in their order; `stop` is asked before every token.
    ///
    /// When `stop` answers true, what is unfinished ends as [`Finish::Abort`](super::Finish::Abort).
    ///
    /// # Errors
    /// As [`Engine::submit`] and [`Engine::step`], and when requests are already in flight. Nothing is in flight afterwards.
    pub fn generate(&mut self, requests: Vec<Request>, stop: &dyn Fn() -> bool) -> Result<Vec<Finished>> {
        if !self.is_idle() {
            return Err(Error::Input(format!(
                "generate: {} requests are in flight; finish them with step, or call abort_all first",
                self.scheduler.in_flight()
            )));
        }
        let order: Vec<u64> = requests.iter().map(|request| request.id).collect();
        let finished = self.run(requests, stop);
        if finished.is_err() {
            self.abort_all();
        }
        let mut finished = finished?;
        let places: std::collections::BTreeMap<u64, usize> =
            order.into_iter().enumerate().map(|(place, id)| (id, place)).collect();
        finished.sort_by_key(|finished| places.get(&finished.id).copied());
        Ok(finished)
    }

    fn run(&mut self, requests: Vec<Request>, stop: &dyn Fn() -> bool) -> Result<Vec<Finished>> {
        for request in requests {
            self.submit(request)?;
        }
        let mut finished = Vec::new();
        while !self.is_idle() {
            if stop() {
                finished.extend(self.abort_all());
            } else {
                finished.extend(self.step()?);
            }
        }
        Ok(finished)
    }
}
