//! The log-softmax of one row of logits, in the one order that generation and training share.

use super::kernels::{exp_sum, max};

/// What a row's log-probabilities have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Normalizer {
    pub(crate) largest: f32,
    /// Sum of the exponentials of the logits less the largest.
    pub(crate) total: f32,
}

impl Normalizer {
    /// Reads a row; its exponentials, less the largest, go to `exponentials`, of the same length.
    pub(crate) fn new(logits: &[f32], exponentials: &mut [f32]) -> Self {
        let largest = max(logits);
        Self { largest, total: exp_sum(logits, largest, 1.0, exponentials) }
    }

    /// Log-probability of a token with this logit.
    #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest single")]
    pub(crate) fn log_prob(&self, logit: f32) -> f32 {
        (f64::from(logit - self.largest) - f64::from(self.total).ln()) as f32
    }
}
