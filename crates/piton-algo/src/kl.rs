//! Estimators of the divergence of the current policy from a reference.

use crate::TokenLoss;

/// Which estimator, on x the current and y the reference log-probability (Schulman, "Approximating KL divergence", 2020).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KlEstimator {
    /// x − y: unbiased, may be negative.
    K1,
    /// |x − y|.
    Abs,
    /// ½(x − y)².
    K2,
    /// exp(t) − t − 1 with t = y − x, clamped to ±20, the value to ±10: unbiased and never negative.
    K3,
}

/// The estimate at each token: `[t]` current and reference log-probabilities to `[t]`, up to the shorter.
///
/// Where a clamp of [`KlEstimator::K3`] holds, its gradient is 0, as in PyTorch.
#[must_use]
pub fn kl(estimator: KlEstimator, log_probs: &[f64], ref_log_probs: &[f64]) -> Vec<TokenLoss> {
    log_probs.iter().zip(ref_log_probs).map(|(x, y)| at_token(estimator, x - y)).collect()
}

fn at_token(estimator: KlEstimator, difference: f64) -> TokenLoss {
    match estimator {
        KlEstimator::K1 => TokenLoss { value: difference, gradient: 1.0 },
        KlEstimator::Abs => {
            let sign = if difference == 0.0 { 0.0 } else { difference.signum() };
            TokenLoss { value: difference.abs(), gradient: sign }
        }
        KlEstimator::K2 => TokenLoss { value: 0.5 * difference * difference, gradient: difference },
        KlEstimator::K3 => {
            let t = (-difference).clamp(-20.0, 20.0);
            let value = t.exp_m1() - t;
            let moves = difference.abs() <= 20.0 && value <= 10.0;
            TokenLoss { value: value.clamp(-10.0, 10.0), gradient: if moves { -t.exp_m1() } else { 0.0 } }
        }
    }
}
