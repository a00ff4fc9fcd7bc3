//! Advantages, schedules and losses of policy optimization on plain slices.
//!
//! ```text
//! one group = all answers to one prompt
//!   rewards  [n] f32    1.0   0.0   0.0   1.0
//!   lengths  [n] usize   12    30     9    11     response tokens
//!                         |  AdvantageEstimator::compute
//!                         v
//!   advantages [n] f32  0.87 -0.87 -0.87  0.87    one a sample; the trainer repeats it over the sample's tokens
//! ```
//!
//! ```
//! use piton_algo::{AdvantageEstimator, LrConfig, LrType, lr_at};
//!
//! let grpo = AdvantageEstimator::default();
//! let advantages = grpo.compute(&[1.0, 0.0, 0.0, 1.0], &[12, 30, 9, 11]);
//! assert!((advantages[0] - 0.866_025).abs() < 1e-6);
//! assert_eq!(grpo.compute(&[0.3, 0.3], &[5, 7]), [0.0, 0.0]); // nothing to learn, and never NaN
//!
//! let course = LrConfig { lr_type: LrType::Cosine, warmup_ratio: 0.1, lr_min: 0.0 };
//! assert_eq!(lr_at(5, 100, 3e-4, &course), 1.5e-4); // step 5 of 10 that warm up
//! assert_eq!(lr_at(11, 100, 3e-4, &course), 3e-4);
//! ```
//!
//! Every function is pure: the same arguments give the same numbers. Sums are taken in `f64`, whatever comes in. The
//! expected values of the tests come from PyTorch, by the scripts in `fixtures/golden/`.
//!
//! # What it does not do
//!
//! It holds no state, draws nothing at random, and knows no tensors: the learner computes the same losses on its tensors
//! and is tested against these. Without its default feature `serde` it depends on nothing.

mod advantage;
mod kl;
mod policy_loss;
mod schedule;
mod summary;

pub use advantage::{
    AdvantageEstimator, drgrpo_advantages, grpo_advantages, opo_advantages, pass_k_advantages,
    rloo_advantages,
};
pub use kl::{KlEstimator, kl};
pub use policy_loss::{DualClip, dual_clip_loss};
pub use schedule::{LrConfig, LrType, lr_at};
pub use summary::Summary;

/// A loss at one token, and its derivative with respect to the token's current log-probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenLoss {
    /// The loss.
    pub value: f64,
    /// Its derivative.
    pub gradient: f64,
}
