//! What one train step tells the tracker: means over its trained tokens and over its updates.

use std::collections::BTreeMap;

use piton_trainer::PolicyLossConfig;

/// Collects the figures of one train step. All sums are in f64; a mean over nothing is 0.
#[derive(Debug, Clone, Default)]
pub struct StepMetrics {
    tokens: f64,
    old: f64,
    rollout: f64,
    rollout_minus_old: f64,
    rollout_k3: f64,
    rollout_abs: f64,
    ratio_dev: f64,
    kl1: f64,
    kl3: f64,
    clipped_low: f64,
    clipped_high: f64,
    ratio_max: Option<f64>,
    ratio_min: Option<f64>,
    updates: Vec<UpdateFigures>,
}

/// The figures of one optimizer update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpdateFigures {
    /// Loss over the update's tokens.
    pub loss: f64,
    /// KL estimate per token, when the loss has that term.
    pub kl: Option<f64>,
    /// Norm of the gradient before clipping; not finite when the gradient is not.
    pub grad_norm: f64,
    /// Learning rate of the schedule at this update.
    pub lr: f64,
    /// Whether the update was applied rather than skipped.
    pub applied: bool,
}

impl StepMetrics {
    /// Adds trained tokens: `[N]` log-probabilities now, before the step's first update, and as the rollout engine said.
    pub fn add_tokens(&mut self, current: &[f32], old: &[f32], rollout: &[f32], config: &PolicyLossConfig) {
        for ((&current, &old), &rollout) in current.iter().zip(old).zip(rollout) {
            let (current, old, rollout) = (f64::from(current), f64::from(old), f64::from(rollout));
            self.tokens += 1.0;
            self.old += old;
            self.rollout += rollout;
            let mismatch = old - rollout;
            self.rollout_minus_old -= mismatch;
            self.rollout_k3 += mismatch.exp_m1() - mismatch;
            self.rollout_abs += mismatch.abs();
            let delta = (current - old).clamp(config.log_prob_diff_min, config.log_prob_diff_max);
            let deviation = delta.exp_m1();
            self.ratio_dev += deviation.abs();
            self.kl1 -= delta;
            self.kl3 += deviation - delta;
            self.clipped_low += f64::from(deviation < -config.cliprange_low);
            self.clipped_high += f64::from(deviation > config.cliprange_high);
            let ratio = deviation + 1.0;
            self.ratio_max = Some(self.ratio_max.map_or(ratio, |max| max.max(ratio)));
            self.ratio_min = Some(self.ratio_min.map_or(ratio, |min| min.min(ratio)));
        }
    }

    /// Adds an update, applied or skipped.
    pub fn add_update(&mut self, figures: UpdateFigures) {
        self.updates.push(figures);
    }

    /// The figures by their names in the tracker. A figure that is not finite is left out: JSON cannot carry it.
    pub fn finish(&self) -> BTreeMap<String, f64> {
        let per_token = |sum: f64| sum / self.tokens.max(1.0);
        let updates = |figure: &dyn Fn(&UpdateFigures) -> Option<f64>| {
            let values: Vec<f64> =
                self.updates.iter().filter_map(figure).filter(|value| value.is_finite()).collect();
            (!values.is_empty()).then(|| mean(&values))
        };
        let skipped = self.updates.iter().map(|update| f64::from(!update.applied)).sum::<f64>();
        let figures = [
            ("train_metrics/loss", updates(&|update| Some(update.loss))),
            ("train_metrics/kl_loss", updates(&|update| update.kl)),
            ("train_metrics/grad_norm", updates(&|update| Some(update.grad_norm))),
            ("train_metrics/lr", updates(&|update| Some(update.lr))),
            ("train_metrics/tokens", Some(self.tokens)),
            ("train_metrics/skipped_steps", Some(skipped)),
            ("train_metrics/reduced_train_policy_ratio_abs_dev_mean", Some(per_token(self.ratio_dev))),
            ("train_metrics/reduced_train_policy_kl1", Some(per_token(self.kl1))),
            ("train_metrics/reduced_train_policy_kl3", Some(per_token(self.kl3))),
            ("train_metrics/reduced_train_policy_clip_frac_low", Some(per_token(self.clipped_low))),
            ("train_metrics/reduced_train_policy_clip_frac_high", Some(per_token(self.clipped_high))),
            ("train_metrics/reduced_train_policy_ratio_max", Some(self.ratio_max.unwrap_or(0.0))),
            ("train_metrics/reduced_train_policy_ratio_min", Some(self.ratio_min.unwrap_or(0.0))),
            ("entropy/train", Some(-per_token(self.old))),
            ("entropy/rollout", Some(-per_token(self.rollout))),
            ("mismatch/mismatch_kl", Some(per_token(self.rollout_minus_old))),
            ("mismatch/mismatch_k3_kl", Some(per_token(self.rollout_k3))),
            ("mismatch/mismatch_logprob_abs_diff", Some(per_token(self.rollout_abs))),
        ];
        figures
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value.filter(|value| value.is_finite())?)))
            .collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    let count = u32::try_from(values.len()).map_or(f64::MAX, f64::from);
    values.iter().sum::<f64>() / count
}
