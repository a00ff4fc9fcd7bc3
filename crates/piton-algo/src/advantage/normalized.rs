//! Rewards against the group's mean, with and without its spread.

use super::{is_flat, map, mean};

/// GRPO: (r − mean) / (std + eps), the standard deviation unbiased (n − 1). `[n]` to `[n]`.
///
/// Shao et al., "DeepSeekMath", 2024. Zeros for a group of one and for equal rewards.
#[must_use]
pub fn grpo_advantages(rewards: &[f32], eps: f64) -> Vec<f32> {
    if is_flat(rewards) {
        return vec![0.0; rewards.len()];
    }
    let mean = mean(rewards);
    let spread: f64 = rewards.iter().map(|&reward| (f64::from(reward) - mean).powi(2)).sum();
    let std = (spread / (rewards.len() - 1) as f64).sqrt();
    map(rewards, |reward| (reward - mean) / (std + eps))
}

/// Dr. GRPO: r − mean, as in its paper. `[n]` to `[n]`.
///
/// Liu et al., "Understanding R1-Zero-like training", 2025. The reference system divides by the standard deviation
/// and weighs by length / `max_length` here; the paper drops that division on purpose, and a loss that is a mean over all
/// tokens of a step already gives long and short answers the same weight a token, which is the paper's other half.
#[must_use]
pub fn drgrpo_advantages(rewards: &[f32]) -> Vec<f32> {
    if is_flat(rewards) {
        return vec![0.0; rewards.len()];
    }
    let mean = mean(rewards);
    map(rewards, |reward| reward - mean)
}
