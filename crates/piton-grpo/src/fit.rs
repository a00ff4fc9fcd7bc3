//! One train step: log-probabilities before it, passes forward and backward, and the optimizer's updates.

use piton_torch::AdamW;
use piton_trainer::{FitContext, FitOutcome, GrpoLossConfig, TrainSample, WorkerConfig};
use tch::{Kind, Tensor};

use crate::Result;
use crate::batch::{Update, plan};
use crate::convert::{float, values};
use crate::labels::Labels;
use crate::loss::{kl_loss, policy_loss};
use crate::metrics::{StepMetrics, UpdateFigures};
use crate::policy::Policy;
use crate::schedule::learning_rate;
use crate::update::apply;

/// Trains `policy` on one batch; either every update of the step is applied or none is.
///
/// A stop is seen between passes as long as no update was applied: the gradients are then dropped.
pub(crate) fn fit(
    policy: &mut Policy,
    optimizer: &mut AdamW,
    mut reference: Option<&mut Policy>,
    config: &WorkerConfig,
    batch: &[TrainSample],
    context: FitContext<'_>,
) -> Result<FitOutcome> {
    let updates = plan(batch, config.optimizer_steps, config.pack_max_length)?;
    let Some(old) = old_log_probs(policy, batch, &updates, context)? else {
        return Ok(FitOutcome::Stopped);
    };
    let mut metrics = StepMetrics::default();
    let mut applied = false;
    for (at, (update, old)) in updates.iter().zip(old).enumerate() {
        let mut old = old.into_iter();
        let (mut loss, mut kl) = (0.0, 0.0);
        for pass in &update.passes {
            if !applied && context.stop.is_requested() {
                policy.zero_grad()?;
                return Ok(FitOutcome::Stopped);
            }
            let labels = Labels::new(batch, pass, policy.device())?;
            let current_n = policy.log_probs(batch, pass, &labels)?;
            // Before the step's first update the current policy is the old one.
            let old_n = old.next().map_or_else(|| current_n.f_detach(), Ok)?;
            let reference_n = match &mut reference {
                Some(reference) => Some(tch::no_grad(|| reference.log_probs(batch, pass, &labels))?),
                None => None,
            };
            let terms = Terms::new(&config.loss_cfg, &labels, &current_n, &old_n, reference_n)?;
            let tokens = float(update.trained_tokens);
            loss += terms.backward(policy, &current_n, tokens)?;
            kl += terms.kl / tokens;
            metrics.add_tokens(
                &values(&current_n)?,
                &values(&old_n)?,
                &labels.rollout_log_probs,
                &config.loss_cfg.policy_loss_cfg,
            );
        }
        let lr = learning_rate(config, context, at);
        let (grad_norm, done) = apply(policy, optimizer, &config.optim_cfg, lr, loss, update.trained_tokens)?;
        applied |= done;
        let kl = reference.as_ref().map(|_| kl);
        metrics.add_update(UpdateFigures { loss, kl, grad_norm, lr, applied: done });
    }
    Ok(FitOutcome::Trained(metrics.finish()))
}

/// `[update][pass] [N]` log-probabilities under the weights before the step, for every update but the first, whose list is
/// empty; `None` when a stop came.
fn old_log_probs(
    policy: &mut Policy,
    batch: &[TrainSample],
    updates: &[Update],
    context: FitContext<'_>,
) -> Result<Option<Vec<Vec<Tensor>>>> {
    let _guard = tch::no_grad_guard();
    let mut old = Vec::with_capacity(updates.len());
    for (at, update) in updates.iter().enumerate() {
        let mut of_update = Vec::new();
        for pass in update.passes.iter().filter(|_| at > 0) {
            if context.stop.is_requested() {
                return Ok(None);
            }
            let labels = Labels::new(batch, pass, policy.device())?;
            of_update.push(policy.log_probs(batch, pass, &labels)?.f_detach()?);
        }
        old.push(of_update);
    }
    Ok(Some(old))
}

/// The loss of one pass, summed over its tokens.
///
/// What is reported is summed here in f64: libtorch's sums of many numbers depend on the number of threads.
struct Terms {
    sum: Tensor,
    value: f64,
    kl: f64,
}

impl Terms {
    fn new(
        config: &GrpoLossConfig,
        labels: &Labels,
        current_n: &Tensor,
        old_n: &Tensor,
        reference_n: Option<Tensor>,
    ) -> Result<Self> {
        let policy_n = policy_loss(current_n, old_n, &labels.advantages_n, &config.policy_loss_cfg)?;
        let value = sum_of(&policy_n)?;
        let sum = policy_n.f_sum(Kind::Float)?;
        match (config.kl_loss_type, reference_n) {
            (Some(kind), Some(reference_n)) => {
                let kl_n = kl_loss(current_n, &reference_n, kind)?;
                let kl = sum_of(&kl_n)?;
                let sum = sum.f_add(&kl_n.f_sum(Kind::Float)?.f_mul_scalar(config.kl_loss_coef)?)?;
                Ok(Self { sum, value: value + config.kl_loss_coef * kl, kl })
            }
            _ => Ok(Self { sum, value, kl: 0.0 }),
        }
    }

    /// Adds the gradient of the mean over the update's `tokens`; returns this pass's part of that mean.
    fn backward(&self, policy: &mut Policy, current_n: &Tensor, tokens: f64) -> Result<f64> {
        let loss = self.sum.f_div_scalar(tokens)?;
        policy.backward(current_n, &loss)?;
        Ok(self.value / tokens)
    }
}

fn sum_of(terms_n: &Tensor) -> Result<f64> {
    Ok(values(terms_n)?.into_iter().map(f64::from).sum())
}
