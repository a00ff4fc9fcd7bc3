//! GRPO's losses per token, on tensors; sums and normalisation are the caller's.
//!
//! Suffix `n`: one entry for each token that is trained on. Gradients flow through the current log-probabilities only.

use piton_trainer::{KlLossType, PolicyLossConfig, PolicyLossType};
use tch::Tensor;

use crate::Result;

/// `[N]` the policy loss of each token: PPO's clipped surrogate with the dual clip (Ye 2020).
///
/// With ρ = exp(clamp(current − old)) and advantage A it is max(−ρA, −clip(ρ)A), and where A < 0 at most −cA.
///
/// # Errors
/// When the shapes differ.
pub fn policy_loss(
    log_probs_n: &Tensor,
    old_log_probs_n: &Tensor,
    advantages_n: &Tensor,
    config: &PolicyLossConfig,
) -> Result<Tensor> {
    let PolicyLossType::Vanilla = config.loss_type;
    let delta_n =
        log_probs_n.f_sub(old_log_probs_n)?.f_clamp(config.log_prob_diff_min, config.log_prob_diff_max)?;
    let ratio_n = delta_n.f_exp()?;
    let clipped_n = ratio_n.f_clamp(1.0 - config.cliprange_low, 1.0 + config.cliprange_high)?;
    let loss_n = ratio_n.f_mul(advantages_n)?.f_neg()?.f_maximum(&clipped_n.f_mul(advantages_n)?.f_neg()?)?;
    let bounded_n = loss_n.f_minimum(&advantages_n.f_mul_scalar(-config.clip_ratio_c)?)?;
    Ok(bounded_n.f_where_self(&advantages_n.f_lt(0.0)?, &loss_n)?)
}

/// `[N]` the estimated divergence of the current policy from the reference at each token.
///
/// The clamps of [`KlLossType::K3`] (±20 on the difference, ±10 on the value) stop its gradient outside them.
///
/// # Errors
/// When the shapes differ.
pub fn kl_loss(log_probs_n: &Tensor, ref_log_probs_n: &Tensor, kind: KlLossType) -> Result<Tensor> {
    let difference_n = log_probs_n.f_sub(ref_log_probs_n)?;
    Ok(match kind {
        KlLossType::K1 => difference_n,
        KlLossType::Abs => difference_n.f_abs()?,
        KlLossType::K2 => difference_n.f_square()?.f_mul_scalar(0.5)?,
        KlLossType::K3 => {
            let t_n = difference_n.f_neg()?.f_clamp(-20.0, 20.0)?;
            t_n.f_exp()?.f_sub(&t_n)?.f_sub_scalar(1.0)?.f_clamp(-10.0, 10.0)?
        }
    })
}
