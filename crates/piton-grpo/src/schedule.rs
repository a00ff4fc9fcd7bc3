//! The learning rate of an update, as a function of where it stands in the run.

use piton_algo::lr_at;
use piton_trainer::{FitContext, WorkerConfig};

/// The rate of update `at`, from 0, of the train step in `context`.
///
/// A train step counts as `optimizer_steps` steps of the schedule, whether or not its batch had groups enough for all of them.
pub(crate) fn learning_rate(config: &WorkerConfig, context: FitContext<'_>, at: usize) -> f64 {
    let updates_a_step = config.optimizer_steps as u64;
    let step = context.step.saturating_sub(1).saturating_mul(updates_a_step).saturating_add(at as u64 + 1);
    let total = context.total_train_steps.saturating_mul(updates_a_step);
    lr_at(step, total, config.optim_cfg.lr, &config.lr_cfg)
}
