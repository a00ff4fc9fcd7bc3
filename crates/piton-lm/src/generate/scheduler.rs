//! Continuous batching: who runs, which rows go into a forward, what becomes of the logits.
//!
//! ```text
//! submit -> queue -> Prefill (prompt not yet cached; every sample of it waits here) -> Running -> Finished
//!              '-----------------------------------------------------------------------^
//!                          the same prompt is in use: its keys and values are shared
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Weak};

use rayon::ThreadPool;
use rayon::prelude::*;

use super::backend::{Backend, Head, Unit};
use super::sampling::{Choice, Sampled};
use super::{Finish, Finished, Request};
use crate::{Error, ModelConfig, Result, Weights};

/// Limits of one forward and of the model.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) max_running: usize,
    pub(crate) max_tokens_per_forward: usize,
    pub(crate) eos_token_ids: Vec<u32>,
}

/// All requests in flight over one backend.
#[derive(Debug)]
pub(crate) struct Scheduler<B: Backend> {
    backend: B,
    config: ModelConfig,
    limits: Limits,
    queue: VecDeque<Job>,
    prefills: Vec<Prefill<B::Cache>>,
    running: Vec<Running<B::Cache>>,
    /// Prompts in use, by content.
    prompts: BTreeMap<Arc<[u32]>, Weak<Prompt<B::Cache>>>,
    /// Ended and not yet handed out, with their order.
    ended: Vec<(u64, Finished)>,
    ids: BTreeSet<u64>,
    submitted: u64,
}

/// The scheduler of any backend, as the engine sees it.
pub(crate) trait Schedule: Debug + Send {
    /// Requests that were submitted and not yet handed out.
    fn in_flight(&self) -> usize;

    /// Copies other weights in place.
    fn load(&mut self, weights: &Weights) -> Result<()>;

    /// Checks a request and lines it up.
    fn submit(&mut self, request: Request) -> Result<()>;

    /// One forward over everything that runs.
    fn step(&mut self, pool: &ThreadPool) -> Result<Vec<Finished>>;

    /// Ends everything in flight.
    fn abort_all(&mut self) -> Vec<Finished>;
}

/// A request and what follows from it.
#[derive(Debug)]
struct Job {
    order: u64,
    request: Request,
    stop_ids: Vec<u32>,
    /// Most response tokens.
    budget: usize,
}

/// A prompt on its way into the cache.
#[derive(Debug)]
struct Prefill<C> {
    prompt_ids: Arc<[u32]>,
    cache: C,
    cached: usize,
    planned: usize,
    logits: Vec<f32>,
    jobs: Vec<Job>,
}

/// A prompt in the cache, shared by its samples.
#[derive(Debug)]
struct Prompt<C> {
    cache: C,
    /// Of its last token: every sample's first token is drawn from them.
    logits: Vec<f32>,
}

/// A response under way.
#[derive(Debug)]
struct Running<C> {
    job: Job,
    prompt: Arc<Prompt<C>>,
    /// The response's own keys and values.
    cache: C,
    /// Response tokens in `cache`.
    cached: usize,
    planned: usize,
    sampled: Option<Sampled>,
}

impl<B: Backend + Debug + Send> Schedule for Scheduler<B> {
    fn in_flight(&self) -> usize {
        self.ids.len()
    }

    fn load(&mut self, weights: &Weights) -> Result<()> {
        self.backend.load(weights)
    }

    fn submit(&mut self, request: Request) -> Result<()> {
        request.check(&self.config)?;
        if !self.ids.insert(request.id) {
            return Err(Error::Input(format!(
                "request {}: a request of this id is in flight; number requests with a counter",
                request.id
            )));
        }
        let mut stop_ids = self.limits.eos_token_ids.clone();
        stop_ids.extend_from_slice(&request.params.stop_token_ids);
        let room = self.config.max_position_embeddings - request.prompt_ids.len();
        let job =
            Job { order: self.submitted, budget: request.params.max_tokens.min(room), stop_ids, request };
        self.submitted += 1;
        match job.end() {
            Some(finish) => self.ended.push(job.finish(finish)),
            None => self.queue.push_back(job),
        }
        Ok(())
    }

    fn step(&mut self, pool: &ThreadPool) -> Result<Vec<Finished>> {
        self.admit()?;
        self.forward(pool)?;
        self.start_prefilled()?;
        self.choose_first_tokens(pool)?;
        self.collect();
        Ok(self.hand_out())
    }

    fn abort_all(&mut self) -> Vec<Finished> {
        let mut jobs: Vec<Job> = self.queue.drain(..).collect();
        for prefill in std::mem::take(&mut self.prefills) {
            self.backend.give_back(prefill.cache);
            jobs.extend(prefill.jobs);
        }
        for sequence in std::mem::take(&mut self.running) {
            jobs.push(release(&mut self.backend, sequence));
        }
        self.prompts.clear();
        self.ended.extend(jobs.into_iter().map(|job| job.finish(Finish::Abort)));
        self.hand_out()
    }
}

impl<B: Backend> Scheduler<B> {
    pub(crate) fn new(backend: B, config: &ModelConfig, limits: Limits) -> Self {
        Self {
            backend,
            config: config.clone(),
            limits,
            queue: VecDeque::new(),
            prefills: Vec::new(),
            running: Vec::new(),
            prompts: BTreeMap::new(),
            ended: Vec::new(),
            ids: BTreeSet::new(),
            submitted: 0,
        }
    }

    fn admit(&mut self) -> Result<()> {
        let mut live =
            self.running.len() + self.prefills.iter().map(|prefill| prefill.jobs.len()).sum::<usize>();
        while live < self.limits.max_running
            && let Some(job) = self.queue.pop_front()
        {
            live += 1;
            let prompt_ids = Arc::clone(&job.request.prompt_ids);
            if let Some(prompt) = self.prompts.get(&prompt_ids).and_then(Weak::upgrade) {
                let cache = self.backend.empty_cache()?;
                self.running.push(Running::new(job, prompt, cache));
            } else if let Some(prefill) =
                self.prefills.iter_mut().find(|prefill| prefill.prompt_ids == prompt_ids)
            {
                prefill.jobs.push(job);
            } else {
                let cache = self.backend.empty_cache()?;
                let jobs = vec![job];
                self.prefills.push(Prefill {
                    prompt_ids,
                    cache,
                    cached: 0,
                    planned: 0,
                    logits: Vec::new(),
                    jobs,
                });
            }
        }
        Ok(())
    }

    /// Packs as many pending tokens as fit, started responses first, and runs them.
    ///
    /// Nothing counts as cached before all went well, so a step that failed can be tried again.
    fn forward(&mut self, pool: &ThreadPool) -> Result<()> {
        let mut room = self.limits.max_tokens_per_forward;
        let mut units = Vec::new();
        for sequence in &mut self.running {
            if let Some(unit) = sequence.plan(&mut room) {
                units.push(unit);
            }
        }
        for prefill in &mut self.prefills {
            if let Some(unit) = prefill.plan(&mut room) {
                units.push(unit);
            }
        }
        if units.is_empty() {
            return Ok(());
        }
        self.backend.forward(pool, &mut units)?;
        if let Some(sequence) =
            self.running.iter().find(|sequence| sequence.is_due() && sequence.sampled.is_none())
        {
            return Err(sequence.job.not_finite());
        }
        for sequence in &mut self.running {
            sequence.cached += std::mem::take(&mut sequence.planned);
        }
        for prefill in &mut self.prefills {
            prefill.cached += std::mem::take(&mut prefill.planned);
        }
        Ok(())
    }

    /// Lets the samples of every completed prompt start.
    fn start_prefilled(&mut self) -> Result<()> {
        let (ready, filling) = std::mem::take(&mut self.prefills)
            .into_iter()
            .partition(|prefill| prefill.cached == prefill.prompt_ids.len());
        self.prefills = filling;
        let ready: Vec<Prefill<B::Cache>> = ready;
        for Prefill { prompt_ids, cache, logits, jobs, .. } in ready {
            let prompt = Arc::new(Prompt { cache, logits });
            self.prompts.insert(prompt_ids, Arc::downgrade(&prompt));
            for job in jobs {
                let cache = self.backend.empty_cache()?;
                self.running.push(Running::new(job, Arc::clone(&prompt), cache));
            }
        }
        Ok(())
    }

    /// First tokens come from the prompt's logits, with no forward of their own.
    fn choose_first_tokens(&mut self, pool: &ThreadPool) -> Result<()> {
        let mut starting: Vec<_> =
            self.running.iter_mut().filter(|sequence| sequence.job.request.response_ids.is_empty()).collect();
        pool.install(|| {
            starting.par_iter_mut().for_each_init(Vec::new, |scratch, sequence| {
                sequence.sampled = sequence.job.choice().pick(&sequence.prompt.logits, scratch);
            });
        });
        match starting.iter().find(|sequence| sequence.sampled.is_none()) {
            Some(sequence) => Err(sequence.job.not_finite()),
            None => Ok(()),
        }
    }

    /// Appends the chosen tokens and takes out the responses that end.
    fn collect(&mut self) {
        let before = self.running.len();
        for mut sequence in std::mem::take(&mut self.running) {
            if let Some(Sampled { token, log_prob }) = sequence.sampled.take() {
                sequence.job.request.response_ids.push(token);
                sequence.job.request.log_probs.push(log_prob);
            }
            match sequence.job.end() {
                Some(finish) => self.ended.push(release(&mut self.backend, sequence).finish(finish)),
                None => self.running.push(sequence),
            }
        }
        if self.running.len() < before {
            self.prompts.retain(|_, prompt| prompt.strong_count() > 0);
        }
    }

    /// Ended responses in the order they were submitted.
    fn hand_out(&mut self) -> Vec<Finished> {
        let mut ended = std::mem::take(&mut self.ended);
        ended.sort_by_key(|(order, _)| *order);
        for (_, finished) in &ended {
            self.ids.remove(&finished.id);
        }
        ended.into_iter().map(|(_, finished)| finished).collect()
    }
}

impl Job {
    /// Whether the response, as it stands, is complete.
    fn end(&self) -> Option<Finish> {
        let response = &self.request.response_ids;
        match response.last() {
            Some(last) if self.stop_ids.contains(last) && response.len() > self.request.params.min_tokens => {
                Some(Finish::Stop)
            }
            _ => (response.len() >= self.budget).then_some(Finish::Length),
        }
    }

    fn finish(self, finish: Finish) -> (u64, Finished) {
        let Request { id, response_ids, log_probs, .. } = self.request;
        (self.order, Finished { id, response_ids, log_probs, finish })
    }

    /// How the next token is chosen.
    fn choice(&self) -> Choice<'_> {
        let Request { response_ids, params, domain, group, sample, .. } = &self.request;
        let position = response_ids.len();
        Choice {
            params,
            banned: if position < params.min_tokens { &self.stop_ids } else { &[] },
            uniform: domain.stream([*group, *sample, position as u64]).next_f64(),
        }
    }

    fn not_finite(&self) -> Error {
        Error::Input(format!(
            "request {}: the logits of response position {} are not finite; the weights hold NaN or have diverged",
            self.request.id,
            self.request.response_ids.len()
        ))
    }
}

impl<C> Prefill<C> {
    /// Takes as much of the prompt as fits into `room`.
    fn plan(&mut self, room: &mut usize) -> Option<Unit<'_, C>> {
        let pending = &self.prompt_ids[self.cached..];
        self.planned = pending.len().min(*room);
        *room -= self.planned;
        (self.planned > 0).then(|| Unit {
            tokens: &pending[..self.planned],
            prompt: None,
            cached: self.cached,
            cache: &mut self.cache,
            head: if self.planned == pending.len() { Head::Keep(&mut self.logits) } else { Head::Skip },
        })
    }
}

impl<C> Running<C> {
    fn new(job: Job, prompt: Arc<Prompt<C>>, cache: C) -> Self {
        Self { job, prompt, cache, cached: 0, planned: 0, sampled: None }
    }

    /// Takes as many response tokens as are not cached and fit into `room`.
    fn plan(&mut self, room: &mut usize) -> Option<Unit<'_, C>> {
        let pending = self.job.request.response_ids.len() - self.cached;
        self.planned = pending.min(*room);
        *room -= self.planned;
        let due = self.is_due();
        self.sampled = None;
        let request = &self.job.request;
        (self.planned > 0).then(|| Unit {
            tokens: &request.response_ids[self.cached..self.cached + self.planned],
            prompt: Some((&self.prompt.cache, request.prompt_ids.len())),
            cached: self.cached,
            cache: &mut self.cache,
            head: if due { Head::Sample(self.job.choice(), &mut self.sampled) } else { Head::Skip },
        })
    }

    /// Whether the planned rows end with the newest token.
    fn is_due(&self) -> bool {
        self.planned > 0 && self.cached + self.planned == self.job.request.response_ids.len()
    }
}

/// Gives back what only this response held.
fn release<B: Backend>(backend: &mut B, sequence: Running<B::Cache>) -> Job {
    backend.give_back(sequence.cache);
    if let Some(prompt) = Arc::into_inner(sequence.prompt) {
        backend.give_back(prompt.cache);
    }
    sequence.job
}
