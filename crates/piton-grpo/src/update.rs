//! The end of an optimizer update: clip, then step or skip.

use piton_torch::AdamW;
use piton_trainer::{AdamWConfig, OnNonFinite};

use crate::policy::Policy;
use crate::{Error, Result};

/// Applies the gradients that `policy` has collected, and clears them; says their norm before clipping and whether the update
/// was applied.
///
/// It is skipped when the loss or the norm is not finite, when the norm is above `skip_grad_norm_threshold`, and when no token
/// was trained on: neither weights nor moments nor the step counter change then.
///
/// # Errors
/// [`Error::NonFinite`] where the configuration says that the run stops for it.
pub(crate) fn apply(
    policy: &mut Policy,
    optimizer: &mut AdamW,
    config: &AdamWConfig,
    lr: f64,
    loss: f64,
    trained_tokens: usize,
) -> Result<(f64, bool)> {
    let grad_norm = policy.clip_grad_norm(config.max_grad_norm)?;
    if config.on_non_finite == OnNonFinite::Stop && !(loss.is_finite() && grad_norm.is_finite()) {
        policy.zero_grad()?;
        return Err(Error::NonFinite { loss, grad_norm });
    }
    let acceptable = config.skip_grad_norm_threshold.is_none_or(|threshold| grad_norm <= threshold);
    let apply = loss.is_finite() && grad_norm.is_finite() && acceptable && trained_tokens > 0;
    if apply {
        optimizer.set_lr(lr)?;
        policy.step(optimizer)?;
    }
    policy.zero_grad()?;
    Ok((grad_norm, apply))
}
