//! The backward edge: weights from the learner to whatever generates.

use piton_lm::Weights;

use crate::Result;

/// An engine that takes weights and says which it holds.
pub trait PublishWeights: Send {
    /// Makes the engine hold a copy of exactly these weights, as those of train step `model_step`; returns when it does.
    ///
    /// # Errors
    /// When the engine has ended, or the weights belong to another model.
    fn publish(&self, weights: &Weights, model_step: u64) -> Result<()>;

    /// A copy of the weights that the engine holds, and their train step.
    ///
    /// # Errors
    /// When the engine has ended.
    fn published(&self) -> Result<(Weights, u64)>;
}
