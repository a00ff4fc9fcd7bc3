//! How the rewards of one group become advantages.

mod baseline;
mod normalized;
mod pass_k;

use std::cmp::Ordering;
use std::num::NonZeroU32;

pub use baseline::{opo_advantages, rloo_advantages};
pub use normalized::{drgrpo_advantages, grpo_advantages};
pub use pass_k::pass_k_advantages;

/// The choice of an estimator, with its constants; in a file `{ type = "grpo", eps = 1e-8 }`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)
)]
pub enum AdvantageEstimator {
    /// Reward less the group's mean, over its standard deviation: [`grpo_advantages`].
    Grpo {
        /// Added to the standard deviation; at least 0. Default 1e-8.
        #[cfg_attr(feature = "serde", serde(default = "default_eps"))]
        eps: f64,
    },
    /// Reward less the mean of the others: [`rloo_advantages`].
    Rloo {},
    /// Reward less the mean weighted by length: [`opo_advantages`].
    Opo {
        /// Added to the sum of lengths; at least 0. Default 1e-8.
        #[cfg_attr(feature = "serde", serde(default = "default_eps"))]
        eps: f64,
    },
    /// Reward less the group's mean, not divided by anything: [`drgrpo_advantages`].
    DrGrpo {},
    /// Credit for the group's chance of one success in `k` tries: [`pass_k_advantages`].
    PassK {
        /// Tries. Default 4.
        #[cfg_attr(feature = "serde", serde(default = "default_k"))]
        k: NonZeroU32,
        /// Added to the standard deviation; at least 0. Default 1e-6.
        #[cfg_attr(feature = "serde", serde(default = "default_pass_k_eps"))]
        eps: f64,
    },
}

/// GRPO with `eps` 1e-8.
impl Default for AdvantageEstimator {
    fn default() -> Self {
        Self::Grpo { eps: 1e-8 }
    }
}

impl AdvantageEstimator {
    /// Gives the advantage of each of a group's samples: `[n]` from `[n]` rewards and `[n]` response lengths in tokens.
    ///
    /// A group whose rewards are all equal gives zeros (but see [`rloo_advantages`] for a group of one). Finite rewards
    /// give finite advantages; with a reward that is not finite, all advantages of the group are NaN, so that it cannot
    /// pass unseen.
    ///
    /// # Panics
    /// When there are not as many lengths as rewards: that is a fault of the program, not of its data.
    #[must_use]
    pub fn compute(&self, rewards: &[f32], lengths: &[usize]) -> Vec<f32> {
        assert_eq!(
            rewards.len(),
            lengths.len(),
            "advantages: rewards and lengths of one group differ in number"
        );
        if rewards.iter().any(|reward| !reward.is_finite()) {
            return vec![f32::NAN; rewards.len()];
        }
        match *self {
            Self::Grpo { eps } => grpo_advantages(rewards, eps),
            Self::Rloo {} => rloo_advantages(rewards),
            Self::Opo { eps } => opo_advantages(rewards, lengths, eps),
            Self::DrGrpo {} => drgrpo_advantages(rewards),
            Self::PassK { k, eps } => pass_k_advantages(rewards, k, eps),
        }
    }

    /// Says what is wrong with the constants, one message a field; empty when nothing is.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        match *self {
            Self::Grpo { eps } | Self::Opo { eps } | Self::PassK { eps, .. }
                if !(eps.is_finite() && eps >= 0.0) =>
            {
                vec![format!("eps is {eps}: write 0 or a positive number, such as 1e-8")]
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(feature = "serde")]
fn default_eps() -> f64 {
    1e-8
}

#[cfg(feature = "serde")]
fn default_pass_k_eps() -> f64 {
    1e-6
}

#[cfg(feature = "serde")]
fn default_k() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(3)
}

/// Says whether all rewards are equal. Checked on its own, because a rounded mean would leave differences of its own.
fn is_flat(rewards: &[f32]) -> bool {
    rewards.iter().all(|reward| reward.partial_cmp(&rewards[0]) == Some(Ordering::Equal))
}

fn mean(rewards: &[f32]) -> f64 {
    rewards.iter().copied().map(f64::from).sum::<f64>() / rewards.len() as f64
}

/// Applies `advantage` to each reward in `f64`.
fn map(rewards: &[f32], advantage: impl Fn(f64) -> f64) -> Vec<f32> {
    rewards.iter().map(|&reward| to_f32(advantage(f64::from(reward)))).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounds to nearest; clamped, so that finite stays finite"
)]
fn to_f32(value: f64) -> f32 {
    value.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
}
