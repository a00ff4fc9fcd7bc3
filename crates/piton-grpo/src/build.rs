//! From a trainer's configuration to a learner and a rollout engine in this process.

use std::num::NonZeroUsize;
use std::sync::Arc;

use piton_agent::BoxError;
use piton_data::Tokenizer;
use piton_lm::generate::EngineConfig;
use piton_lm::{HfModel, ModelConfig};
use piton_rng::Seed;
use piton_trainer::{ColocateTrainer, ColocateTrainerConfig, Controllers, RunContext};
use tch::Device;

use crate::learner::GrpoLearner;
use crate::rollout::{LocalRollout, RolloutSettings};
use crate::{Error, Result};

/// A learner and the engine it publishes to, both in this process.
#[derive(Debug)]
pub struct LocalControllers {
    /// The learner.
    pub train: GrpoLearner,
    /// The rollout engine.
    pub rollout: Arc<LocalRollout>,
}

impl From<LocalControllers> for Controllers {
    fn from(local: LocalControllers) -> Self {
        Self { train: Box::new(local.train), rollout: local.rollout }
    }
}

/// Loads model and tokenizer and starts the engine; both sides then hold the starting weights.
///
/// With `threads` it sets how many libtorch uses in this process.
///
/// # Errors
/// When a key has no meaning here (all are named), or a model or tokenizer cannot be loaded or do not fit each other.
pub fn build(config: &ColocateTrainerConfig) -> Result<LocalControllers> {
    let device = check(config)?;
    let threads = config.threads.and_then(NonZeroUsize::new);
    if let Some(threads) = threads {
        piton_torch::set_threads(threads.get())?;
    }
    let worker = config.train_worker_cfg.clone();
    let model = HfModel::load(worker.load_from.as_ref().unwrap_or(&config.load_from), device)?;
    let tokenizer = Tokenizer::from_dir(config.tokenizer_dir())?;
    model.config.check_tokenizer(tokenizer.vocab_size())?;
    let reference = match worker.ref_load_from.as_ref().filter(|_| worker.loss_cfg.use_kl_loss) {
        Some(dir) => Some(HfModel::load(dir, device)?),
        None => None,
    };
    let rollout = &config.rollout_config;
    let settings =
        RolloutSettings { seed: Seed(config.seed), context_length: context_length(config, &model.config)? };
    let engine = EngineConfig {
        max_running: NonZeroUsize::new(rollout.rollout_max_batch_size_per_instance)
            .unwrap_or(NonZeroUsize::MIN),
        eos_token_ids: Some(tokenizer.eos_ids().to_vec()),
        device,
        threads,
        ..EngineConfig::default()
    };
    let rollout = LocalRollout::start(&model.config, &model.weights, tokenizer, engine, settings)?;
    let publisher = Box::new(rollout.publisher());
    let train = GrpoLearner::new(worker, model, reference, publisher, config.tokenizer_dir().to_path_buf())?;
    Ok(LocalControllers { train, rollout: Arc::new(rollout) })
}

/// Checks the keys that only this engine can judge; gives the device.
fn check(config: &ColocateTrainerConfig) -> Result<Device> {
    let mut faults = Vec::new();
    let mut same = |key: &str, found: Option<&std::path::PathBuf>, used: &std::path::Path| {
        if let Some(found) = found.filter(|found| found.as_path() != used) {
            faults.push(format!(
                "{key} is {}, but the engine in this process takes {}: leave the key out",
                found.display(),
                used.display()
            ));
        }
    };
    let policy = config.train_worker_cfg.load_from.as_ref().unwrap_or(&config.load_from);
    same("rollout_config.model_path", config.rollout_config.model_path.as_ref(), policy);
    same(
        "rollout_config.tokenizer_path",
        config.rollout_config.tokenizer_path.as_ref(),
        config.tokenizer_dir(),
    );
    let device = device(&config.device);
    if device.is_none() {
        faults
            .push(format!("device is {:?}: write \"cpu\" or \"cuda:N\", such as \"cuda:0\"", config.device));
    }
    match device {
        Some(device) if faults.is_empty() => Ok(device),
        _ => Err(Error::Settings { context: "configuration", faults }),
    }
}

fn device(name: &str) -> Option<Device> {
    match name.split_once(':') {
        None if name == "cpu" => Some(Device::Cpu),
        None if name == "cuda" => Some(Device::Cuda(0)),
        Some(("cuda", index)) => index.parse().ok().map(Device::Cuda),
        _ => None,
    }
}

fn context_length(config: &ColocateTrainerConfig, model: &ModelConfig) -> Result<usize> {
    let limit = model.max_position_embeddings;
    match config.rollout_config.context_length {
        None => Ok(limit),
        Some(length) if (1..=limit).contains(&length) => Ok(length),
        Some(length) => Err(Error::Settings {
            context: "configuration",
            faults: vec![format!(
                "rollout_config.context_length is {length}: write 1 to {limit}, the model's max_position_embeddings, \
                 or leave the key out"
            )],
        }),
    }
}

/// `build()` for a trainer's configuration: this crate's engines under the step loop.
///
/// Callers with engines of their own use [`ColocateTrainerConfig::build_with`] instead.
pub trait BuildTrainer {
    /// Loads the model, starts the engine, reads the data, takes the work_dir and resumes where there is something to resume.
    ///
    /// # Errors
    /// Those of [`build`] and of [`ColocateTrainerConfig::build_with`].
    fn build(self, context: RunContext) -> std::result::Result<ColocateTrainer, BoxError>;
}

impl BuildTrainer for ColocateTrainerConfig {
    fn build(self, context: RunContext) -> std::result::Result<ColocateTrainer, BoxError> {
        let controllers = build(&self)?;
        Ok(self.build_with(controllers.into(), context)?)
    }
}
