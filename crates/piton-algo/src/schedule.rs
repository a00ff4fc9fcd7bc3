//! The course of the learning rate.

use std::f64::consts::PI;

/// A linear warm-up, then the named shape, under the names of the reference system.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, default)
)]
pub struct LrConfig {
    /// Shape after the warm-up. Default `constant`.
    pub lr_type: LrType,
    /// Share of the run that warms up, from 0 to 1. Default 0.03.
    pub warmup_ratio: f64,
    /// Learning rate that `cosine` and `linear` go down to; at least 0. Default 1e-6.
    pub lr_min: f64,
}

/// Shape of the learning rate after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum LrType {
    /// Stays at its peak.
    #[default]
    Constant,
    /// A straight line down to `lr_min`.
    Linear,
    /// Half a cosine down to `lr_min`.
    Cosine,
}

/// The reference system's defaults.
impl Default for LrConfig {
    fn default() -> Self {
        Self { lr_type: LrType::Constant, warmup_ratio: 0.03, lr_min: 1e-6 }
    }
}

impl LrConfig {
    /// Says what is wrong with the fields, one message each; empty when nothing is.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !(0.0..=1.0).contains(&self.warmup_ratio) {
            faults.push(format!("warmup_ratio is {}: write a number from 0 to 1", self.warmup_ratio));
        }
        if !(self.lr_min.is_finite() && self.lr_min >= 0.0) {
            faults.push(format!("lr_min is {}: write 0 or a positive number, such as 1e-6", self.lr_min));
        }
        faults
    }
}

/// Gives the learning rate that step `step` of `total_steps` trains with, counted from 1.
///
/// With W = ⌊`warmup_ratio` · T⌋, steps 1 to W rise as `step` / W (no step trains at rate 0), and step W + 1 + i goes
/// i / (T − W) of the way down, as PyTorch's schedulers do when stepped after each update. Steps past the end stay at the
/// bottom. The bottom is never above `base_lr`, so a `base_lr` of 0 is 0 throughout.
///
/// Defined for every step, total and finite `base_lr`: step 0 counts as 1, fields that [`LrConfig::faults`] would name are moved into their
/// range, and nothing is ever negative. It is a function of its arguments alone: when a resumed run has a larger
/// `total_steps`, its next step is where a run of that length would be, which can mean a higher rate than before.
#[must_use]
pub fn lr_at(step: u64, total_steps: u64, base_lr: f64, config: &LrConfig) -> f64 {
    let base_lr = base_lr.max(0.0);
    let (step, total) = (step.max(1) as f64, total_steps as f64);
    let warmup = (config.warmup_ratio.max(0.0).clamp(0.0, 1.0) * total).floor();
    if step <= warmup {
        return base_lr * (step / warmup);
    }
    let lr_min = config.lr_min.max(0.0).min(base_lr);
    let way_down = if step > total { 1.0 } else { (step - 1.0 - warmup) / (total - warmup) };
    let remaining = match config.lr_type {
        LrType::Constant => return base_lr,
        LrType::Linear => 1.0 - way_down,
        LrType::Cosine => 0.5 * (1.0 + (PI * way_down).cos()),
    };
    (base_lr * remaining + lr_min * (1.0 - remaining)).clamp(lr_min, base_lr)
}
