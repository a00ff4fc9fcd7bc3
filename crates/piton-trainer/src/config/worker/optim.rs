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
        }
    }
}

/// The course of the learning rate: a linear warm-up, then the named shape down to `lr_min`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LrConfig {
    /// Shape after the warm-up. Default `constant`.
    pub lr_type: LrType,
    /// Part of the run that warms up, from 0 to 1. Default 0.03.
    pub warmup_ratio: f64,
    /// Learning rate at the end of `cosine` and `linear`; at least 0. Default 1e-6.
    pub lr_min: f64,
}

impl Default for LrConfig {
    fn default() -> Self {
        Self { lr_type: LrType::Constant, warmup_ratio: 0.03, lr_min: 1e-6 }
    }
}

/// Shape of the learning rate after the warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LrType {
    /// Stays at its peak.
    #[default]
    Constant,
    /// Half a cosine down to `lr_min`.
    Cosine,
    /// A straight line down to `lr_min`.
    Linear,
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
        check("weight_decay", self.weight_decay, self.weight_decay >= 0.0, "0 or a positive number, such as 0.01");
        for (index, beta) in self.betas.into_iter().enumerate() {
            check(&format!("betas[{index}]"), beta, (0.0..1.0).contains(&beta), "a number from 0 to below 1");
        }
        check("eps", self.eps, self.eps > 0.0, "a positive number, such as 1e-8");
        check("max_grad_norm", self.max_grad_norm, self.max_grad_norm > 0.0, "a positive number, such as 1");
        if let Some(threshold) = self.skip_grad_norm_threshold {
            check("skip_grad_norm_threshold", threshold, threshold > 0.0, "a positive number, or leave it out");
        }
        faults
    }
}

impl LrConfig {
    /// One message a bad field.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !(0.0..=1.0).contains(&self.warmup_ratio) {
            faults.push(format!("lr_cfg.warmup_ratio is {}: write a number from 0 to 1", self.warmup_ratio));
        }
        if !(self.lr_min.is_finite() && self.lr_min >= 0.0) {
            faults.push(format!("lr_cfg.lr_min is {}: write 0 or a positive number, such as 1e-6", self.lr_min));
        }
        faults
    }
}
