//! The optimizer and the course of its learning rate.

use serde::{Deserialize, Serialize};

/// AdamW with decoupled weight decay (Loshchilov 2019), the gradient clipped by its global norm before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdamWConfig {
    /// Peak learning rate; 0 is legal and leaves the weights as they are. Default 1e-5.
    pub lr: f64,
    /// Decoupled weight decay; at least 0. Default 0.01.
    pub weight_decay: f64,
    /// Decay rates of the first and second moment, from 0 to below 1. Default 0.9 and 0.95.
    pub betas: [f64; 2],
    /// Added to the root of the second moment, as in `torch.optim.AdamW`; above 0. Default 1e-8.
    pub eps: f64,
    /// The gradient is scaled down to this norm when its own is larger; above 0. Default 1.
    pub max_grad_norm: f64,
    /// An update whose gradient norm, before clipping, is above this is skipped. Absent: only one that is not finite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_grad_norm_threshold: Option<f64>,
    /// What an update whose loss or gradient is NaN or infinite does: "skip" leaves weights and moments as they are and is
    /// counted in `train_metrics/skipped_steps`; "stop" ends the run with an error. Default "skip".
    pub on_non_finite: OnNonFinite,
}

/// What to do about an update that is not finite.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnNonFinite {
    /// Leave it out and go on.
    #[default]
    Skip,
    /// End the run.
    Stop,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self {
            lr: 1e-5,
            weight_decay: 0.01,
            betas: [0.9, 0.95],
            eps: 1e-8,
            max_grad_norm: 1.0,
            skip_grad_norm_threshold: None,
            on_non_finite: OnNonFinite::Skip,
        }
    }
}

impl AdamWConfig {
    /// One message a bad field.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |key: &str, value: f64, legal: bool, write: &str| {
            if !(value.is_finite() && legal) {
                faults.push(format!("optim_cfg.{key} is {value}: write {write}"));
            }
        };
        check("lr", self.lr, self.lr >= 0.0, "0 or a positive number, such as 1e-5");
        check(
            "weight_decay",
            self.weight_decay,
            self.weight_decay >= 0.0,
            "0 or a positive number, such as 0.01",
        );
        for (index, beta) in self.betas.into_iter().enumerate() {
            check(&format!("betas[{index}]"), beta, (0.0..1.0).contains(&beta), "a number from 0 to below 1");
        }
        check("eps", self.eps, self.eps > 0.0, "a positive number, such as 1e-8");
        check("max_grad_norm", self.max_grad_norm, self.max_grad_norm > 0.0, "a positive number, such as 1");
        if let Some(threshold) = self.skip_grad_norm_threshold {
            check(
                "skip_grad_norm_threshold",
                threshold,
                threshold > 0.0,
                "a positive number, or leave it out",
            );
        }
        faults
    }
}
