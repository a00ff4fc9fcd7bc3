//! The learner as the step loop sees it.

use std::fmt;
use std::path::{Path, PathBuf};

use piton_agent::BoxError;
use piton_checkpoint::Stage;
use piton_lm::{ExportDtype, HfModel, Weights, export};
use piton_torch::{AdamW, check_finite};
use piton_trainer::{
    FitContext, FitOutcome, ResumeRequest, SaveRequest, TrainController, TrainSample, WorkerConfig,
};

use crate::fit::fit;
use crate::policy::{Policy, optimizer};
use crate::publish::PublishWeights;
use crate::state::{load, save};
use crate::{Error, Result};

/// Trains a policy by GRPO, and publishes its weights to a rollout engine.
///
/// Nothing in it is random: a step is a function of the weights, the optimizer's state, the batch and the step's number.
pub struct GrpoLearner {
    config: WorkerConfig,
    policy: Policy,
    optimizer: AdamW,
    reference: Option<Policy>,
    rollout: Box<dyn PublishWeights>,
    companions: PathBuf,
}

impl GrpoLearner {
    /// A learner at train step 0 that takes the weights of `model` over, on the device they are on.
    ///
    /// `reference` is the frozen model of the KL term; absent, with `use_kl_loss`, a copy of `model`. Exports get the tokenizer's
    /// files from the directory `companions`.
    ///
    /// # Errors
    /// When the configuration has no meaning; all bad fields are named.
    pub fn new(
        config: WorkerConfig,
        model: HfModel,
        reference: Option<HfModel>,
        rollout: Box<dyn PublishWeights>,
        companions: PathBuf,
    ) -> Result<Self> {
        config.check().map_err(|faults| Error::Settings { context: "train_worker_cfg", faults })?;
        let HfModel { config: shape, weights } = model;
        let reference = match (config.loss_cfg.use_kl_loss, reference) {
            (true, Some(HfModel { config: shape, weights })) => Some(Policy::frozen(&shape, weights)?),
            (true, None) => Some(Policy::frozen(&shape, weights.snapshot()?)?),
            (false, _) => None,
        };
        let policy = Policy::trainable(&shape, weights)?;
        let optimizer = optimizer(&policy, &config.optim_cfg)?;
        Ok(Self { config, policy, optimizer, reference, rollout, companions })
    }

    /// The weights now; they change in place.
    pub fn weights(&self) -> &Weights {
        self.policy.weights()
    }

    /// Optimizer updates applied so far.
    pub fn updates(&self) -> u64 {
        self.optimizer.steps()
    }

    fn take_over(&mut self, request: ResumeRequest<'_>) -> Result<()> {
        let fresh = optimizer(&self.policy, &self.config.optim_cfg)?;
        let loaded = load(request, self.policy.config(), fresh)?;
        self.rollout.publish(loaded.rollout.as_ref().unwrap_or(&loaded.policy), request.model_step)?;
        self.policy.load(&loaded.policy)?;
        self.optimizer = loaded.optimizer;
        Ok(())
    }
}

impl TrainController for GrpoLearner {
    fn fit(&mut self, batch: &[TrainSample], context: FitContext<'_>) -> Result<FitOutcome, BoxError> {
        let reference = self.reference.as_mut();
        Ok(fit(&mut self.policy, &mut self.optimizer, reference, &self.config, batch, context)?)
    }

    fn save(&mut self, stage: &mut Stage, request: SaveRequest) -> Result<(), BoxError> {
        Ok(save(stage, request, self.policy.params(), &self.optimizer, &*self.rollout)?)
    }

    fn resume(&mut self, request: ResumeRequest<'_>) -> Result<(), BoxError> {
        Ok(self.take_over(request)?)
    }

    fn save_hf(&mut self, dir: &Path) -> Result<(), BoxError> {
        check_finite("export: weights", self.policy.params())?;
        Ok(export(self.policy.config(), self.policy.weights(), &self.companions, ExportDtype::F32, dir)?)
    }

    fn update_weights(&mut self, model_step: u64) -> Result<(), BoxError> {
        Ok(self.rollout.publish(self.policy.weights(), model_step)?)
    }
}

impl fmt::Debug for GrpoLearner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpoLearner")
            .field("config", &self.config)
            .field("updates", &self.updates())
            .finish_non_exhaustive()
    }
}
