//! The clipped surrogate with the dual clip.

use crate::TokenLoss;

/// Where the policy loss is clipped, under the names of the reference system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualClip {
    /// The ratio is clipped at 1 minus this; PPO (Schulman 2017) takes 0.2.
    pub cliprange_low: f64,
    /// The ratio is clipped at 1 plus this; PPO takes 0.2, DAPO (Yu 2025) 0.28.
    pub cliprange_high: f64,
    /// A token of advantage A < 0 costs at most this times |A|; above 1, usually 3 (Ye 2020).
    pub clip_ratio_c: f64,
    /// The difference of log-probabilities is clamped from below here; usually −20.
    pub log_prob_diff_min: f64,
    /// The difference of log-probabilities is clamped from above here; usually 20.
    pub log_prob_diff_max: f64,
}

/// The policy loss of each token: `[t]` current and old log-probabilities and advantages to `[t]`, up to the shortest.
///
/// With δ = clamp(current − old), ρ = exp(δ) and advantage A it is max(−ρA, −clip(ρ)A), and where A < 0 at most −cA.
/// Not weighted or summed: that is the caller's.
#[must_use]
pub fn dual_clip_loss(
    log_probs: &[f64],
    old_log_probs: &[f64],
    advantages: &[f64],
    clip: &DualClip,
) -> Vec<TokenLoss> {
    log_probs
        .iter()
        .zip(old_log_probs)
        .zip(advantages)
        .map(|((log_prob, old), &advantage)| at_token(log_prob - old, advantage, clip))
        .collect()
}

fn at_token(difference: f64, advantage: f64, clip: &DualClip) -> TokenLoss {
    let bounded = difference.max(clip.log_prob_diff_min).min(clip.log_prob_diff_max);
    let moves = (clip.log_prob_diff_min..=clip.log_prob_diff_max).contains(&difference);
    let ratio = if difference.is_nan() { f64::NAN } else { bounded.exp() };
    let plain = -ratio * advantage;
    let clipped = -ratio.max(1.0 - clip.cliprange_low).min(1.0 + clip.cliprange_high) * advantage;
    let ceiling = -clip.clip_ratio_c * advantage;
    if clipped > plain {
        return TokenLoss { value: clipped, gradient: 0.0 };
    }
    if advantage < 0.0 && plain > ceiling {
        return TokenLoss { value: ceiling, gradient: 0.0 };
    }
    TokenLoss { value: plain, gradient: if moves { plain } else { 0.0 } }
}
