//! The loss: policy term and divergence from a reference model.

use serde::{Deserialize, Serialize};

/// The loss of group-relative policy optimization.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrpoLossConfig {
    /// The policy term.
    pub policy_loss_cfg: PolicyLossConfig,
    /// Adds `kl_loss_coef` times the divergence from the reference model. Default false.
    #[serde(default)]
    pub use_kl_loss: bool,
    /// Weight of the KL term; at least 0. Default 0.001.
    #[serde(default = "kl_loss_coef")]
    pub kl_loss_coef: f64,
    /// Estimator of the KL term; must be given with `use_kl_loss`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kl_loss_type: Option<KlLossType>,
}

/// The clipped policy term, with δ the difference of log-probabilities and ρ = exp(δ).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyLossConfig {
    /// Which formula. Default `vanilla`.
    #[serde(default)]
    pub loss_type: PolicyLossType,
    /// ρ is clipped at 1 minus this; from 0 to 1. PPO (Schulman 2017) takes 0.2.
    pub cliprange_low: f64,
    /// ρ is clipped at 1 plus this; at least 0. PPO takes 0.2, DAPO (Yu 2025) 0.28.
    pub cliprange_high: f64,
    /// A token of negative advantage A costs at most this times |A|; above 1. Default 3 (dual clip, Ye 2020).
    #[serde(default = "clip_ratio_c")]
    pub clip_ratio_c: f64,
    /// δ is clamped from below here; at most 0. Default -20.
    #[serde(default = "log_prob_diff_min")]
    pub log_prob_diff_min: f64,
    /// δ is clamped from above here; at least 0. Default 20.
    #[serde(default = "log_prob_diff_max")]
    pub log_prob_diff_max: f64,
}

/// Formula of the policy term.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyLossType {
    /// PPO's clipped surrogate with the dual clip.
    #[default]
    Vanilla,
}

/// Estimator of the divergence per token, on x the current and y the reference log-probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KlLossType {
    /// x − y; also `kl`.
    #[serde(alias = "kl")]
    K1,
    /// |x − y|.
    Abs,
    /// ½(x − y)²; also `mse`.
    #[serde(alias = "mse")]
    K2,
    /// exp(y − x) − (y − x) − 1, clamped; also `low_var_kl`.
    #[serde(alias = "low_var_kl")]
    K3,
}

impl GrpoLossConfig {
    /// One message a bad field.
    pub(super) fn faults(&self) -> Vec<String> {
        let policy = &self.policy_loss_cfg;
        let mut faults = Vec::new();
        let mut check = |key: &str, value: f64, legal: bool, write: &str| {
            if !(value.is_finite() && legal) {
                faults.push(format!("loss_cfg.{key} is {value}: write {write}"));
            }
        };
        let (low, high) = (policy.cliprange_low, policy.cliprange_high);
        check(
            "policy_loss_cfg.cliprange_low",
            low,
            (0.0..=1.0).contains(&low),
            "a number from 0 to 1, such as 0.2",
        );
        check("policy_loss_cfg.cliprange_high", high, high >= 0.0, "0 or a positive number, such as 0.2");
        let c = policy.clip_ratio_c;
        check("policy_loss_cfg.clip_ratio_c", c, c > 1.0, "a number above 1, such as 3");
        let (min, max) = (policy.log_prob_diff_min, policy.log_prob_diff_max);
        check("policy_loss_cfg.log_prob_diff_min", min, min <= 0.0, "0 or a negative number, such as -20");
        check("policy_loss_cfg.log_prob_diff_max", max, max >= 0.0, "0 or a positive number, such as 20");
        check(
            "kl_loss_coef",
            self.kl_loss_coef,
            self.kl_loss_coef >= 0.0,
            "0 or a positive number, such as 0.001",
        );
        if self.use_kl_loss && self.kl_loss_type.is_none() {
            faults.push(
                "loss_cfg.kl_loss_type is absent but use_kl_loss is true: write \"k1\", \"abs\", \"k2\" or \"k3\"".to_owned(),
            );
        }
        faults
    }
}

fn kl_loss_coef() -> f64 {
    0.001
}

fn clip_ratio_c() -> f64 {
    3.0
}

fn log_prob_diff_min() -> f64 {
    -20.0
}

fn log_prob_diff_max() -> f64 {
    20.0
}
