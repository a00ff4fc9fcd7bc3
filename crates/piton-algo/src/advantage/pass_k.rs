//! Credit for a group's chance of at least one success.

use std::num::NonZeroU32;

use super::map;

/// Pass@k: a sample succeeds when its reward is above 0; advantages are those of the mean over all draws of `k`. `[n]` to `[n]`.
///
/// With c successes, ρ = 1 − C(n−c, k)/C(n, k) and σ = √(ρ(1−ρ)) + eps, a success gets (1 − ρ)/σ and a failure
/// (1 − ρ − C(n−c−1, k−1)/C(n−1, k−1))/σ (Chen et al., "Pass@k training", 2025); they sum to 0. Zeros where every draw
/// or none holds a success: the reference system gives −1/eps, a million, when c = 0. A group smaller than `k` is
/// treated with k = 1, so that ρ = c/n.
#[must_use]
pub fn pass_k_advantages(rewards: &[f32], k: NonZeroU32, eps: f64) -> Vec<f32> {
    let n = rewards.len() as u64;
    let successes = rewards.iter().filter(|&&reward| reward > 0.0).count() as u64;
    let k = if u64::from(k.get()) <= n { u64::from(k.get()) } else { 1 };
    let failures = n - successes;
    if successes == 0 || failures < k {
        return vec![0.0; rewards.len()];
    }
    let fail = share_of_draws(failures, n, k);
    if fail <= 0.0 {
        return vec![0.0; rewards.len()]; // so small that it is 0 in f64: every draw, for all we can tell
    }
    let sigma = (fail * (1.0 - fail)).sqrt() + eps;
    let success = fail / sigma;
    let failure = (fail - share_of_draws(failures - 1, n - 1, k - 1)) / sigma;
    map(rewards, |reward| if reward > 0.0 { success } else { failure })
}

/// C(some, k) / C(all, k) for k ≤ some ≤ all: the share of draws of `k` that come wholly from `some`.
fn share_of_draws(some: u64, all: u64, k: u64) -> f64 {
    (0..k).map(|drawn| (some - drawn) as f64 / (all - drawn) as f64).product()
}
