//! What the learner is told: optimizer, schedule, loss and how a batch is cut into forward passes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

mod loss;
mod optim;

pub use loss::{GrpoLossConfig, KlLossType, PolicyLossConfig, PolicyLossType};
pub use optim::{AdamWConfig, OnNonFinite};
pub use piton_algo::{LrConfig, LrType};

/// Settings of the train worker, named as in the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerConfig {
    /// Hugging Face directory of the starting weights. Absent: the trainer's `load_from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_from: Option<PathBuf>,
    /// The optimizer.
    #[serde(default)]
    pub optim_cfg: AdamWConfig,
    /// The learning rate's course over the run.
    #[serde(default)]
    pub lr_cfg: LrConfig,
    /// The loss.
    pub loss_cfg: GrpoLossConfig,
    /// Updates per train step; at least 1, and at most the number of groups in a batch takes effect. Default 1.
    #[serde(default = "one")]
    pub optimizer_steps: usize,
    /// Largest number of tokens computed in one forward pass; a shared prompt counts once.
    /// No sample, prompt and response together, may be longer.
    pub pack_max_length: usize,
    /// Hugging Face directory of the reference model of the KL term. Absent: the starting weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ref_load_from: Option<PathBuf>,
    /// Seed of the worker's own randomness. Absent: the trainer's seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl WorkerConfig {
    /// Checks every value.
    ///
    /// # Errors
    /// One message a bad field: its key below this struct, what was found and what to write instead.
    pub fn check(&self) -> Result<(), Vec<String>> {
        let mut faults = self.optim_cfg.faults();
        faults.extend(self.lr_cfg.faults().into_iter().map(|fault| format!("lr_cfg.{fault}")));
        faults.extend(self.loss_cfg.faults());
        if self.optimizer_steps == 0 {
            faults.push(
                "optimizer_steps is 0: write the number of updates per train step, 1 or more".to_owned(),
            );
        }
        if self.pack_max_length == 0 {
            faults.push(
                "pack_max_length is 0: write the number of tokens one forward pass may have".to_owned(),
            );
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }
}

fn one() -> usize {
    1
}
