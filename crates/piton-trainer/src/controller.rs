//! The seam to a learner: what the step loop asks of whatever trains the weights.

use std::collections::BTreeMap;
use std::path::Path;

use piton_agent::{BoxError, RolloutMetadata};
use piton_checkpoint::{Checkpoint, Stage};
use piton_run::Stop;

/// One sample as the learner sees it: a flat token sequence with what each response token contributes to the loss.
///
/// The four response arrays have the same length, `tokens.len() - prompt_len`: the advantage of a token stands at the token
/// that is the label, never one off.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainSample {
    /// The prompt's id; samples of one group follow each other in a batch.
    pub group_id: u64,
    /// The sample's id.
    pub rollout_id: u64,
    /// `[prompt_len + response_len]` token ids.
    pub tokens: Vec<u32>,
    /// Number of leading tokens that are not generated; at least 1.
    pub prompt_len: usize,
    /// `[response_len]` whether a token is trained on.
    pub loss_mask: Vec<bool>,
    /// `[response_len]` advantages.
    pub advantages: Vec<f32>,
    /// `[response_len]` log-probabilities that the rollout engine reported.
    pub rollout_log_probs: Vec<f32>,
}

/// What [`TrainController::fit`] is told besides the data.
#[derive(Debug, Clone, Copy)]
pub struct FitContext<'a> {
    /// The train step, from 1.
    pub step: u64,
    /// Length of the run, for schedules.
    pub total_train_steps: u64,
    /// Asked between bounded units of work; see [`FitOutcome::Stopped`].
    pub stop: &'a Stop,
}

/// How a train step ended.
#[derive(Debug, Clone, PartialEq)]
pub enum FitOutcome {
    /// The step's updates are applied. Metrics by name, for the tracker.
    Trained(BTreeMap<String, f64>),
    /// A stop came before the first update of this step was applied: the weights and the optimizer are as before the step.
    Stopped,
}

/// What is to be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaveRequest {
    /// The completed train step.
    pub step: u64,
    /// The step whose weights the rollout engine holds. When it differs from `step`, those weights are part of the checkpoint.
    pub model_step: u64,
    /// Leave the optimizer's state out.
    pub no_save_optimizer: bool,
}

/// What is to be loaded.
#[derive(Debug, Clone, Copy)]
pub struct ResumeRequest<'a> {
    /// The verified checkpoint.
    pub checkpoint: &'a Checkpoint,
    /// The step whose weights the rollout engine must hold afterwards.
    pub model_step: u64,
    /// Load the optimizer's state; false starts it anew.
    pub load_optimizer_states: bool,
}

/// Which part of the learner's memory to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Weights, gradients and optimizer.
    All,
    /// Weights only.
    Model,
    /// Optimizer state only.
    Optimizer,
}

/// A learner. Callers bring their own by implementing this.
pub trait TrainController {
    /// Tells where the rollout engine is, before the first weights are published.
    ///
    /// # Errors
    /// Whatever makes that engine unreachable for this learner.
    fn update_rollout_info(&mut self, _info: &RolloutMetadata) -> Result<(), BoxError> {
        Ok(())
    }

    /// Trains on one batch. Either every update of the step is applied or none is.
    ///
    /// # Errors
    /// Whatever makes the step impossible; the run ends and the checkpoints stand.
    fn fit(&mut self, batch: &[TrainSample], context: FitContext<'_>) -> Result<FitOutcome, BoxError>;

    /// Writes the learner's state into a checkpoint being made: same state, same bytes.
    ///
    /// # Errors
    /// Whatever keeps the state from being written; the checkpoint then does not come into being.
    fn save(&mut self, stage: &mut Stage, request: SaveRequest) -> Result<(), BoxError>;

    /// Takes the learner's state from a checkpoint, all of it or nothing.
    ///
    /// # Errors
    /// Whatever does not fit: missing or mis-shaped tensors, another model.
    fn resume(&mut self, request: ResumeRequest<'_>) -> Result<(), BoxError>;

    /// Writes an export that other tools load, into an empty directory.
    ///
    /// # Errors
    /// Whatever keeps it from being written.
    fn save_hf(&mut self, dir: &Path) -> Result<(), BoxError>;

    /// Publishes the current weights to the rollout engine, as those of train step `model_step`.
    ///
    /// # Errors
    /// Whatever keeps the engine from holding exactly these weights.
    fn update_weights(&mut self, model_step: u64) -> Result<(), BoxError>;

    /// Brings state back to the device.
    ///
    /// # Errors
    /// Whatever keeps it from fitting.
    fn onload(&mut self, _target: Target) -> Result<(), BoxError> {
        Ok(())
    }

    /// Moves state off the device.
    ///
    /// # Errors
    /// Whatever keeps it from moving.
    fn offload(&mut self, _target: Target) -> Result<(), BoxError> {
        Ok(())
    }
}
