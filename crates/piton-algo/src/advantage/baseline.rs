//! Rewards against a baseline of least variance.

use super::{is_flat, map};

/// RLOO: r − mean of the others. `[n]` to `[n]`.
///
/// Ahmadian et al., "Back to basics", 2024. Zeros for equal rewards of two or more. A group of one has no others: it keeps
/// its reward, which is REINFORCE without a baseline.
#[must_use]
pub fn rloo_advantages(rewards: &[f32]) -> Vec<f32> {
    if rewards.len() == 1 {
        return rewards.to_vec();
    }
    if is_flat(rewards) {
        return vec![0.0; rewards.len()];
    }
    let sum: f64 = rewards.iter().copied().map(f64::from).sum();
    let others = (rewards.len() - 1) as f64;
    map(rewards, |reward| reward - (sum - reward) / others)
}

/// OPO: r − Σ(r·length) / (Σ length + eps). `[n]` rewards and `[n]` response lengths in tokens to `[n]`.
///
/// Hao et al., "On-policy RL with optimal reward baseline", 2025. Zeros for equal rewards. Where no sample has a token
/// there is no baseline. Lengths beyond the rewards, and missing ones, count for nothing.
#[must_use]
pub fn opo_advantages(rewards: &[f32], lengths: &[usize], eps: f64) -> Vec<f32> {
    if is_flat(rewards) {
        return vec![0.0; rewards.len()];
    }
    let weighted = rewards.iter().zip(lengths).map(|(&reward, &length)| f64::from(reward) * length as f64);
    let tokens: usize = lengths.iter().take(rewards.len()).sum();
    let baseline = if tokens == 0 { 0.0 } else { weighted.sum::<f64>() / (tokens as f64 + eps) };
    map(rewards, |reward| reward - baseline)
}
