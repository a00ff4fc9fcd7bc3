//! A step's tracker line.

use std::collections::BTreeMap;

use piton_agent::{ProduceStats, Produced};
use piton_algo::Summary;

use crate::controller::TrainSample;

/// Prefixes under which clock and machine values stand; everything else is the same in every repetition of a step.
pub const VOLATILE_PREFIXES: [&str; 4] = ["time/", "timing/", "throughput/", "memory/"];

/// Whether a metric depends on the clock or the machine.
pub fn is_volatile(name: &str) -> bool {
    VOLATILE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Adds `<prefix>/mean`, `/min` and `/max`, where there are values.
pub(crate) fn summarise(
    prefix: &str,
    values: impl Iterator<Item = f64>,
    metrics: &mut BTreeMap<String, f64>,
) -> Option<Summary> {
    let summary = Summary::of(&values.collect::<Vec<_>>())?;
    for (name, value) in [("mean", summary.mean), ("min", summary.min), ("max", summary.max)] {
        metrics.insert(format!("{prefix}/{name}"), value);
    }
    Some(summary)
}

/// Wall seconds of the phases of one step.
#[derive(Debug, Clone, Default)]
pub(crate) struct PhaseTimes(pub(crate) BTreeMap<&'static str, f64>);

impl PhaseTimes {
    /// Runs `work` and adds its wall seconds to the phase.
    pub(crate) fn measure<T>(&mut self, phase: &'static str, work: impl FnOnce() -> T) -> T {
        let started = std::time::Instant::now();
        let result = work();
        *self.0.entry(phase).or_default() += started.elapsed().as_secs_f64();
        result
    }
}

/// The metrics of what was produced and what will be trained on.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn response(produced: &Produced, batch: &[TrainSample], metrics: &mut BTreeMap<String, f64>) {
    let groups = &produced.groups;
    let samples = || groups.iter().flat_map(|group| &group.samples);
    metrics.insert("response/batch_size".to_owned(), samples().count() as f64);
    let rewards = summarise("response/rewards", samples().map(|sample| sample.reward.score), metrics);
    raw_rewards(&produced.stats, rewards.map(|rewards| rewards.mean), metrics);
    let advantages =
        batch.iter().flat_map(|sample| &sample.advantages).map(|advantage| f64::from(*advantage));
    summarise("response/advantages", advantages, metrics);
    let lengths = samples().map(|sample| sample.response_ids.len() as f64);
    if let Some(std) = summarise("response/response_len", lengths, metrics).and_then(|lengths| lengths.std) {
        metrics.insert("response/response_len/std".to_owned(), std);
    }
    summarise(
        "response/prompt_len",
        groups.iter().map(|group| group.prompt.prompt_ids.len() as f64),
        metrics,
    );
    let constant = groups.iter().filter(|group| has_no_spread(group)).count();
    metrics.insert("response/zero_variance_groups".to_owned(), constant as f64);
    metrics.insert("async/failed_groups".to_owned(), produced.stats.failed_groups as f64);
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn raw_rewards(stats: &ProduceStats, fallback: Option<f64>, metrics: &mut BTreeMap<String, f64>) {
    let mean = if stats.raw_rewards_count > 0 {
        Some(stats.raw_rewards_sum / stats.raw_rewards_count as f64)
    } else {
        fallback
    };
    if let Some(mean) = mean {
        metrics.insert("response/raw_rewards/mean".to_owned(), mean);
    }
}

/// All samples have the same score: the group teaches nothing under a mean-relative advantage.
#[expect(clippy::float_cmp, reason = "equal scores are equal numbers: they come from the same judger")]
fn has_no_spread(group: &piton_agent::Group) -> bool {
    group.samples.windows(2).all(|pair| pair[0].reward.score == pair[1].reward.score)
}

/// Wall-clock figures of a finished step.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn timing(
    times: &PhaseTimes,
    produced: &Produced,
    batch: &[TrainSample],
    metrics: &mut BTreeMap<String, f64>,
) {
    for (phase, seconds) in &times.0 {
        metrics.insert(format!("time/{phase}"), *seconds);
    }
    let of = |phase: &str| times.0.get(phase).copied().filter(|seconds| *seconds > 0.0);
    // The reference counts input tokens: prompt plus response, less the last one.
    let tokens: usize = batch.iter().map(|sample| sample.tokens.len().saturating_sub(1)).sum();
    let mut rate = |name: &str, amount: usize, seconds: Option<f64>| {
        if let Some(seconds) = seconds {
            metrics.insert(format!("throughput/{name}"), amount as f64 / seconds);
        }
    };
    rate("effective_sgs", batch.len(), of("step"));
    rate("effective_tgs", tokens, of("step"));
    rate("training_tgs", tokens, of("training"));
    rate("rollout_sgs", produced.stats.produced_samples, of("produce_batch"));
    rate("rollout_tgs", produced.stats.produced_tokens, of("produce_batch"));
    let mut seconds = produced.stats.group_s.clone();
    seconds.sort_by(f64::total_cmp);
    if let Some(count) = std::num::NonZeroUsize::new(seconds.len()) {
        let count = count.get();
        metrics.insert("timing/task_n".to_owned(), count as f64);
        metrics.insert("timing/task_mean_s".to_owned(), seconds.iter().sum::<f64>() / count as f64);
        metrics.insert("timing/task_p50_s".to_owned(), seconds[count / 2]);
        metrics.insert("timing/task_p99_s".to_owned(), seconds[(count * 99 / 100).min(count - 1)]);
    }
}
