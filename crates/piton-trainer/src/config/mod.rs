//! Configuration of the colocated trainer, with the names and nesting of the reference.

mod check;
mod interval;
mod keep;
mod rollout;
mod worker;

use std::path::{Path, PathBuf};

use piton_agent::AgentLoopManagerConfig;
use piton_algo::AdvantageEstimator;
use serde::{Deserialize, Serialize};

pub use interval::Interval;
pub use keep::MaxKeep;
pub use rollout::RolloutConfig;
pub use worker::*;

/// The colocated trainer: rollout and training take turns on the same machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColocateTrainerConfig {
    /// Hugging Face directory the policy starts from.
    pub load_from: PathBuf,
    /// Hugging Face directory of the tokenizer. Default: `load_from`.
    #[serde(default)]
    pub tokenizer_path: Option<PathBuf>,
    /// Number of train steps. This or `total_epochs`; steps win. May grow when a run is resumed.
    #[serde(default)]
    pub total_train_steps: Option<u64>,
    /// Number of passes over the prompts, in place of `total_train_steps`.
    #[serde(default)]
    pub total_epochs: Option<u64>,
    /// Groups (prompts) a train step consumes.
    pub train_batch_size: usize,
    /// Seed of everything random: order of prompts, sampling, shuffles. Default 42.
    #[serde(default = "seed")]
    pub seed: u64,
    /// Where the weights live and the arithmetic happens: "cpu" or "cuda:N". Default "cpu".
    #[serde(default = "device")]
    pub device: String,
    /// Threads of the arithmetic. On the CPU the results do not depend on it. Default: all cores.
    #[serde(default)]
    pub threads: Option<usize>,

    /// Directory of the run. Default `.piton/<recipe>` under the current folder.
    #[serde(default)]
    pub work_dir: Option<PathBuf>,
    /// Continue the newest experiment in `work_dir` instead of starting a new one. Default false.
    #[serde(default)]
    pub auto_resume: bool,
    /// Start from a checkpoint of another run.
    #[serde(default)]
    pub load_checkpoint_cfg: LoadCheckpointConfig,
    /// Steps between checkpoints; the last step and a stop always save. Default: off.
    #[serde(default)]
    pub checkpoint_interval: Interval,
    /// Checkpoints to keep. Default 3.
    #[serde(default)]
    pub checkpoint_maxkeep: MaxKeep,
    /// Save while training goes on: a save then costs a copy of the state. A stop and the last step wait until it is durable.
    /// Default true.
    #[serde(default = "yes")]
    pub checkpoint_background: bool,
    /// Saves in a row that may fail (a full disk, say) before the run ends; each is a warning, an event and counted in
    /// `train_metrics/failed_saves`. A failed save after a stop or the last step always ends the run. Default 2.
    #[serde(default = "failed_saves_allowed")]
    pub checkpoint_failures_allowed: u64,
    /// Leave the optimizer's state out of checkpoints; a resume then starts it anew. Default false.
    #[serde(default)]
    pub checkpoint_no_save_optimizer: bool,
    /// Leave the replay buffer out of checkpoints. Default false.
    #[serde(default)]
    pub checkpoint_no_save_replay_buffer: bool,
    /// Steps between Hugging Face exports; when on, the last step exports too. Default: off.
    #[serde(default)]
    pub hf_interval: Interval,
    /// Exports to keep. Default 3.
    #[serde(default)]
    pub hf_max_keep: MaxKeep,

    /// Steps between publishing weights to the rollout engine. Default 1.
    #[serde(default = "one")]
    pub sync_weights_interval: u64,
    /// Evaluate during training. Default true.
    #[serde(default = "yes")]
    pub enable_evaluate: bool,
    /// Evaluate before the first step, too. Default false.
    #[serde(default)]
    pub enable_initial_evaluate: bool,
    /// Steps between evaluations; the last step evaluates, too. Default 1.
    #[serde(default = "one")]
    pub evaluate_step: u64,

    /// How rewards become advantages. Default GRPO.
    #[serde(default)]
    pub advantage_estimator_config: AdvantageEstimator,
    /// The learner.
    pub train_worker_cfg: WorkerConfig,
    /// The rollout engine.
    #[serde(default)]
    pub rollout_config: RolloutConfig,
    /// The replay buffer.
    #[serde(default)]
    pub replay_buffer_config: ReplayBufferConfig,
    /// What is trained on.
    pub agent_loop_manager_cfg: AgentLoopManagerConfig,
    /// What is evaluated on; needed when `enable_evaluate` is on.
    #[serde(default)]
    pub eval_agent_loop_manager_cfg: Option<AgentLoopManagerConfig>,
    /// How evaluation samples.
    #[serde(default)]
    pub evaluator_config: EvaluatorConfig,
    /// Where metrics go. Default "jsonl".
    #[serde(default)]
    pub exp_tracker: ExpTracker,
}

/// What to take from an explicit checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadCheckpointConfig {
    /// A `ckpt-step-N` directory; its files are only read. `auto_resume` wins where it finds a run.
    pub checkpoint_path: Option<PathBuf>,
    /// Load the optimizer's state, too. Default true.
    pub load_optimizer_states: bool,
}

impl Default for LoadCheckpointConfig {
    fn default() -> Self {
        Self { checkpoint_path: None, load_optimizer_states: true }
    }
}

/// Kind of replay buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ReplayBufferConfig {
    /// First in, first out.
    #[default]
    Sync,
}

/// Which prompts an evaluation uses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluatorConfig {
    /// Number of prompts; 0 uses `eval_sample_ratio`. Default 0.
    pub eval_sample_num: usize,
    /// Share of the prompts, 0 to 1; 0 uses all. Default 0.
    pub eval_sample_ratio: f64,
}

/// Where metrics go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpTracker {
    /// `tracker.jsonl`, one line a step.
    #[default]
    Jsonl,
}

impl ColocateTrainerConfig {
    /// The tokenizer's directory.
    pub fn tokenizer_dir(&self) -> &Path {
        self.tokenizer_path.as_deref().unwrap_or(&self.load_from)
    }
}

fn failed_saves_allowed() -> u64 {
    2
}

fn seed() -> u64 {
    42
}

fn device() -> String {
    "cpu".to_owned()
}

fn one() -> u64 {
    1
}

fn yes() -> bool {
    true
}
