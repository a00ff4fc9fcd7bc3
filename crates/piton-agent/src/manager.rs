//! The colocated manager: one call per train step produces that step's batch.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use piton_data::SamplerState;
use piton_replay::{BufferState, FifoBuffer};

use crate::agent_loop::LoopContext;
use crate::allocate::allocate;
use crate::config::AgentLoopManagerConfig;
use crate::error::Error;
use crate::produce::{self, Ended, Production, StopFlag};
use crate::rollout::{Phase, RolloutController};
use crate::sample::Group;
use crate::task::{Task, Tokenizers};

/// Largest number of groups the colocated manager's buffer holds.
pub const BUFFER_CAPACITY: NonZeroUsize = NonZeroUsize::new(1 << 20).expect("not zero");

/// Turns prompts into batches of judged groups, for one or several tasks.
pub struct ColocateManager {
    tasks: Vec<Task>,
    buffer: FifoBuffer<Group>,
    rollout: Arc<dyn RolloutController>,
    runtime: Arc<tokio::runtime::Runtime>,
    group_timeout: Duration,
}

/// What the manager needs besides its configuration.
pub struct ManagerContext<'a> {
    /// The engine.
    pub rollout: Arc<dyn RolloutController>,
    /// Tokenizer directory of tasks that name none.
    pub tokenizer_path: &'a Path,
    /// Seed of the order of prompts.
    pub seed: u64,
    /// Longest time one group may take.
    pub group_timeout: Duration,
}

/// One step's batch.
#[derive(Debug)]
pub struct Produced {
    /// The groups, tasks in order of their names, each task's in order of their ids.
    pub groups: Vec<Group>,
    /// What producing them took.
    pub stats: ProduceStats,
}

/// Figures of one step's production.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProduceStats {
    /// Samples generated and judged.
    pub produced_samples: usize,
    /// Tokens generated.
    pub produced_tokens: usize,
    /// Groups dropped because a sample failed.
    pub failed_groups: usize,
    /// The last failure, in words.
    pub last_failure: Option<String>,
    /// Sum of all scores judged.
    pub raw_rewards_sum: f64,
    /// Number of scores judged.
    pub raw_rewards_count: usize,
    /// Wall seconds of each group.
    pub group_s: Vec<f64>,
}

/// How production ended.
#[derive(Debug)]
pub enum ProduceOutcome {
    /// The batch is complete.
    Batch(Produced),
    /// A stop came first. The manager's state is then that of a step half produced: save the state of before.
    Stopped,
}

/// Everything a checkpoint needs of the manager.
#[derive(Debug, Clone, PartialEq)]
pub struct ManagerState {
    /// Position of every task's sampler.
    pub samplers: BTreeMap<String, SamplerState>,
    /// Finished groups not yet trained on.
    pub buffer: BufferState<Group>,
}

impl std::fmt::Debug for ManagerContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManagerContext").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ColocateManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColocateManager")
            .field("tasks", &self.tasks.iter().map(|task| &task.name).collect::<Vec<_>>())
            .field("buffered", &self.buffer.len())
            .finish_non_exhaustive()
    }
}

impl ColocateManager {
    /// Reads the data of every task and tokenises it.
    ///
    /// # Errors
    /// A wrong configuration, data that cannot be used.
    pub fn build(
        config: &AgentLoopManagerConfig,
        context: &ManagerContext<'_>,
        tokenizers: &mut Tokenizers,
    ) -> Result<Self, Error> {
        config.check().map_err(Error::Config)?;
        let mut tasks = config
            .tasks
            .iter()
            .map(|task| Task::build(task, context.tokenizer_path, context.seed, tokenizers))
            .collect::<Result<Vec<_>, _>>()?;
        tasks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self {
            tasks,
            buffer: FifoBuffer::new(BUFFER_CAPACITY),
            rollout: Arc::clone(&context.rollout),
            runtime: produce::runtime()?,
            group_timeout: context.group_timeout,
        })
    }

    /// Number of usable prompts of every task, in order of their names.
    pub fn prompts(&self) -> impl Iterator<Item = (&str, usize)> {
        self.tasks.iter().map(|task| (task.name.as_str(), task.len()))
    }

    /// Of every task, in order of their names: tokens of its longest prompt, and `max_tokens` of its responses.
    pub fn lengths(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.tasks.iter().map(|task| {
            let (prompt, response) = task.lengths();
            (task.name.as_str(), prompt, response)
        })
    }

    /// Produces `batch_size` groups for train step `step`.
    ///
    /// # Errors
    /// Too many failures in a row, or an engine that refuses a call.
    pub fn produce_batch(
        &mut self,
        batch_size: usize,
        step: u64,
        stop: StopFlag<'_>,
    ) -> Result<ProduceOutcome, Error> {
        self.rollout
            .continue_generation()
            .map_err(|source| Error::Controller { call: "continue_generation", source })?;
        let weights: Vec<f64> = self.tasks.iter().map(|task| task.weight).collect();
        let sizes = allocate(batch_size, &weights, step);
        let runtime = Arc::clone(&self.runtime);
        let mut stats = ProduceStats::default();
        for (index, &size) in sizes.iter().enumerate() {
            let name = self.tasks[index].name.clone();
            let missing = size.saturating_sub(self.buffer.count(&name));
            if missing == 0 {
                continue;
            }
            match runtime.block_on(self.produce_task(index, missing, stop))? {
                Ended::Stopped => return Ok(ProduceOutcome::Stopped),
                Ended::Complete(production) => self.keep(&name, production, &mut stats)?,
            }
        }
        let mut groups = Vec::with_capacity(batch_size);
        for (task, &size) in self.tasks.iter().zip(&sizes) {
            groups.extend(self.buffer.take(&task.name, size));
        }
        Ok(ProduceOutcome::Batch(Produced { groups, stats }))
    }

    async fn produce_task(
        &mut self,
        index: usize,
        wanted: usize,
        stop: StopFlag<'_>,
    ) -> Result<Ended, Error> {
        let task = &mut self.tasks[index];
        let context = LoopContext {
            rollout: Arc::clone(&self.rollout),
            phase: Phase::Train,
            prompt_repeat_k: task.prompt_repeat_k,
        };
        let agent_loop = Arc::clone(&task.agent_loop);
        let name = task.name.clone();
        let mut draw = || Some(task.draw());
        produce::produce(&name, &*agent_loop, &context, wanted, self.group_timeout, &mut draw, stop).await
    }

    fn keep(&mut self, task: &str, production: Production, stats: &mut ProduceStats) -> Result<(), Error> {
        stats.failed_groups += production.failed_groups;
        stats.last_failure = production.last_failure.or(stats.last_failure.take());
        stats.group_s.extend(production.group_s);
        for group in production.groups {
            stats.produced_samples += group.samples.len();
            stats.produced_tokens +=
                group.samples.iter().map(|sample| sample.response_ids.len()).sum::<usize>();
            stats.raw_rewards_sum += group.samples.iter().map(|sample| sample.reward.score).sum::<f64>();
            stats.raw_rewards_count += group.samples.len();
            self.buffer
                .put(task, group)
                .map_err(|_| Error::BufferFull { capacity: self.buffer.capacity().get() })?;
        }
        Ok(())
    }

    /// The state to save: nothing in it depends on how the batch came about.
    pub fn state(&self) -> ManagerState {
        ManagerState {
            samplers: self.tasks.iter().map(|task| (task.name.clone(), task.sampler_state())).collect(),
            buffer: self.buffer.state(),
        }
    }

    /// Takes a saved state.
    ///
    /// # Errors
    /// When it belongs to other tasks or other data; nothing is changed in the buffer then.
    pub fn restore(&mut self, state: ManagerState) -> Result<(), Error> {
        let saved: Vec<&String> = state.samplers.keys().collect();
        let now: Vec<&String> = self.tasks.iter().map(|task| &task.name).collect();
        if saved != now {
            return Err(Error::Config(vec![format!(
                "the checkpoint has the tasks {saved:?}, the configuration {now:?}: use the tasks of the run, or a new work_dir"
            )]));
        }
        for task in &mut self.tasks {
            task.restore(&state.samplers[&task.name])?;
        }
        self.buffer = FifoBuffer::from_state(state.buffer).map_err(|source| Error::State {
            task: "replay_buffer".to_owned(),
            message: source.to_string(),
        })?;
        Ok(())
    }

    /// Answers every prompt once (`prompt_repeat_k` samples each), or the first `limit` prompts of each task.
    ///
    /// # Errors
    /// An engine that refuses a call.
    pub fn evaluate(&self, limit: Option<usize>, stop: StopFlag<'_>) -> Result<ProduceOutcome, Error> {
        self.rollout
            .continue_generation()
            .map_err(|source| Error::Controller { call: "continue_generation", source })?;
        let mut produced = Produced { groups: Vec::new(), stats: ProduceStats::default() };
        for task in &self.tasks {
            let rows = limit.map_or(task.len(), |limit| limit.min(task.len()));
            let started = Instant::now();
            let context = LoopContext {
                rollout: Arc::clone(&self.rollout),
                phase: Phase::Eval,
                prompt_repeat_k: task.prompt_repeat_k,
            };
            let mut prompts = (0..rows).map(|row| task.prompt(row as u64, row));
            let mut draw = || prompts.next();
            let ended = self.runtime.block_on(produce::produce(
                &task.name,
                &*task.agent_loop,
                &context,
                rows,
                self.group_timeout,
                &mut draw,
                stop,
            ))?;
            let Ended::Complete(production) = ended else { return Ok(ProduceOutcome::Stopped) };
            produced.stats.group_s.push(started.elapsed().as_secs_f64());
            produced.stats.failed_groups += production.failed_groups;
            produced.stats.last_failure = production.last_failure.or(produced.stats.last_failure.take());
            produced.groups.extend(production.groups);
        }
        Ok(ProduceOutcome::Batch(produced))
    }
}
