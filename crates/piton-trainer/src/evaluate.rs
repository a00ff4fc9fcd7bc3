//! Evaluation metrics, named as in the reference.

use std::collections::BTreeMap;

use piton_agent::{Group, Produced};

use crate::config::EvaluatorConfig;
use crate::metrics::summarise;

/// The k for which `pass@k` is reported.
const PASS_AT: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Number of prompts of each task to evaluate on: `None` for all.
pub(crate) fn limit(config: &EvaluatorConfig, prompts: usize) -> Option<usize> {
    if config.eval_sample_num > 0 {
        return Some(config.eval_sample_num);
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count"
    )]
    let share = (config.eval_sample_ratio * prompts as f64).ceil() as usize;
    (share > 0).then_some(share)
}

/// Metrics of one evaluation, with the prefix `eval/`.
///
/// `eval/accuracy` is the share of samples with a score above 0; samples of groups that failed count as wrong. With several
/// samples a prompt, `eval/pass@k` is the share of prompts with a right answer among the first k.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn metrics(produced: &Produced) -> BTreeMap<String, f64> {
    let groups = &produced.groups;
    let mut metrics = BTreeMap::new();
    let k = groups.iter().map(|group| group.samples.len()).max().unwrap_or(1);
    let samples = || groups.iter().flat_map(|group| &group.samples);
    let attempts = samples().count() + produced.stats.failed_groups * k;
    let right = samples().filter(|sample| sample.reward.score > 0.0).count();
    metrics.insert("eval/accuracy".to_owned(), right as f64 / attempts.max(1) as f64);
    metrics.insert("eval/samples".to_owned(), attempts as f64);
    metrics.insert("eval/failed_samples".to_owned(), (produced.stats.failed_groups * k) as f64);
    summarise("eval/rewards", samples().map(|sample| sample.reward.score), &mut metrics);
    summarise("eval/response_len", samples().map(|sample| sample.response_ids.len() as f64), &mut metrics);
    if k > 1 {
        let prompts = groups.len() + produced.stats.failed_groups;
        for at in PASS_AT.into_iter().filter(|&at| at <= k) {
            let passed = groups.iter().filter(|group| passes(group, at)).count();
            metrics.insert(format!("eval/pass@{at}"), passed as f64 / prompts.max(1) as f64);
        }
    }
    metrics
}

fn passes(group: &Group, at: usize) -> bool {
    group.samples.iter().take(at).any(|sample| sample.reward.score > 0.0)
}
