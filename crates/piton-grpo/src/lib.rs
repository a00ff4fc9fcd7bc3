//! The GRPO learner: packing, log-probabilities, losses and optimizer steps, and the engine beside it.
//!
//! ```text
//! TrainSample       tokens  [p p p p r r r r r]           one sample: prompt_len = 4, five response tokens
//!                   loss_mask       [1 1 1 0 1]           what is trained on
//!                   advantages      [a a a a a]           the label's advantage stands at the label
//!   plan  ─────>    Update { passes: [Pass { shared: [[0, 1, 2], [3, 4, 5]], tokens: 87 }], trained_tokens: 60 }
//!   forward ───>    [N] log-probabilities of the trained tokens, each prompt computed once for its whole group
//!   loss ──────>    Σ over all passes of an update / trained tokens of the update: one token-mean, however it is cut
//!   update ────>    clip, then AdamW; skipped and counted when the gradient is not finite
//!   publish ───>    LocalRollout holds a copy of the weights, stamped with their train step
//! ```
//!
//! The loss on tensors is a function of its own:
//!
//! ```
//! use piton_grpo::loss::policy_loss;
//! use piton_trainer::{PolicyLossConfig, PolicyLossType};
//! use tch::Tensor;
//!
//! # fn main() -> piton_grpo::Result<()> {
//! let config = PolicyLossConfig {
//!     loss_type: PolicyLossType::Vanilla,
//!     cliprange_low: 0.2,
//!     cliprange_high: 0.2,
//!     clip_ratio_c: 3.0,
//!     log_prob_diff_min: -20.0,
//!     log_prob_diff_max: 20.0,
//! };
//! let (now, before) = (Tensor::from_slice(&[-1.0_f32]), Tensor::from_slice(&[-2.0_f32]));
//! let loss = policy_loss(&now, &before, &Tensor::from_slice(&[1.0_f32]), &config)?;
//! assert_eq!(loss.double_value(&[0]), f64::from(-1.2_f32)); // the ratio e is clipped at 1.2
//! # Ok(())
//! # }
//! ```
//!
//! [`build`] makes a [`GrpoLearner`] and a [`LocalRollout`] from a trainer's configuration; [`warmup`] makes a starting model by
//! the same updates with a cross-entropy loss.
//!
//! # How fast
//!
//! A whole step of 32 prompts × 8 samples with the 0.5 M model, by the real trainer, beside TRL 1.16.0's `GRPOTrainer` on
//! two threads of a two-core AMD EPYC (Zen 4), medians over one adjacent pair of runs on a machine that was not quite
//! idle: 0.089 s against 0.374 s for responses of about 3 tokens, 0.95 s against 2.01 s for 64.
//! `cargo xtask bench step --interop` runs both sides, a 5 M model too.
//!
//! # What it does not do
//!
//! It computes no advantages and judges nothing: samples come with both. It does not shuffle: nothing in a train step is random. It
//! trains on one device of one process. It does not correct for a mismatch between engine and learner: on the CPU there is none
//! while the data is fresh, and elsewhere it is reported.

pub mod batch;
mod build;
mod convert;
mod error;
mod fit;
mod labels;
mod learner;
pub mod loss;
pub mod metrics;
mod policy;
mod publish;
mod rollout;
mod schedule;
mod state;
mod supervised;
mod update;
mod warmup;

pub use build::{BuildTrainer, LocalControllers, build};
pub use error::{Error, Result};
pub use learner::GrpoLearner;
pub use publish::PublishWeights;
pub use rollout::{LocalRollout, RolloutSettings, WeightPublisher};
pub use state::{MODEL_FILE, OPTIMIZER_FILE, ROLLOUT_FILE};
pub use warmup::{WarmupOptions, WarmupProgress, WarmupTarget, warmup};
