//! One update by cross-entropy, with the passes and the update of the GRPO step.

use piton_torch::AdamW;
use piton_trainer::{AdamWConfig, TrainSample};
use tch::Kind;

use crate::batch::plan;
use crate::labels::Labels;
use crate::policy::Policy;
use crate::update::apply;
use crate::{Result, convert};

/// Takes one update that makes the trained tokens of `batch` likelier; gives their mean negative log-probability before it.
pub(crate) fn cross_entropy_update(
    policy: &mut Policy,
    optimizer: &mut AdamW,
    config: &AdamWConfig,
    lr: f64,
    batch: &[TrainSample],
    pack_max_length: usize,
) -> Result<f64> {
    let (mut loss, mut trained_tokens) = (0.0, 0);
    for update in plan(batch, 1, pack_max_length)? {
        trained_tokens += update.trained_tokens;
        let tokens = convert::float(update.trained_tokens);
        for pass in &update.passes {
            let labels = Labels::new(batch, pass, policy.device())?;
            let log_probs_n = policy.log_probs(batch, pass, &labels)?;
            let mean = log_probs_n.f_sum(Kind::Float)?.f_div_scalar(-tokens)?;
            policy.backward(&log_probs_n, &mean)?;
            loss += mean.f_double_value(&[])?;
        }
    }
    apply(policy, optimizer, config, lr, loss, trained_tokens)?;
    Ok(loss)
}
