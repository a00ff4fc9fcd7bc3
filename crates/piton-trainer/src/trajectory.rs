//! The lines of `train_rollout_<N>.jsonl` and `eval_rollout_<N>.jsonl`.

use piton_agent::{FinishReason, Group, label};
use piton_algo::Summary;
use serde::Serialize;

/// First line of a trajectory file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TrajectorySummary {
    /// Mean score.
    reward_mean: Option<f64>,
    /// Standard deviation of the scores, unbiased; null for fewer than two samples.
    reward_std: Option<f64>,
    /// Largest score.
    reward_max: Option<f64>,
    /// Smallest score.
    reward_min: Option<f64>,
    /// Mean response length in tokens.
    response_len_mean: Option<f64>,
    /// Its standard deviation, unbiased.
    response_len_std: Option<f64>,
    /// Longest response.
    response_len_max: Option<f64>,
    /// Shortest response.
    response_len_min: Option<f64>,
    /// Number of samples that follow.
    total_len: usize,
}

/// One line of a trajectory file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Line<'a> {
    /// The first.
    Summary(TrajectorySummary),
    /// All others.
    Sample(Trajectory<'a>),
}

/// One sample in a trajectory file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Trajectory<'a> {
    rollout_id: u64,
    group_id: u64,
    task_name: &'a str,
    data_source: &'a str,
    finish_reason: FinishReason,
    prompt: String,
    label: String,
    response: &'a str,
    reward: f64,
    reward_payload: &'a piton_agent::Reward,
    prompt_len: usize,
    response_len: usize,
    prompt_ids: &'a [u32],
    response_ids: &'a [u32],
    logprobs: &'a [f32],
    response_model_steps: &'a [u64],
}

/// Every line of the file for these groups: the summary, then the samples.
pub(crate) fn lines(groups: &[Group]) -> Vec<Line<'_>> {
    let samples = || groups.iter().flat_map(|group| group.samples.iter().map(move |sample| (group, sample)));
    let rewards = Summary::of(&samples().map(|(_, sample)| sample.reward.score).collect::<Vec<_>>());
    let lengths =
        Summary::of(&samples().map(|(_, sample)| sample.response_ids.len() as f64).collect::<Vec<_>>());
    let summary = TrajectorySummary {
        reward_mean: rewards.map(|rewards| rewards.mean),
        reward_std: rewards.and_then(|rewards| rewards.std),
        reward_max: rewards.map(|rewards| rewards.max),
        reward_min: rewards.map(|rewards| rewards.min),
        response_len_mean: lengths.map(|lengths| lengths.mean),
        response_len_std: lengths.and_then(|lengths| lengths.std),
        response_len_max: lengths.map(|lengths| lengths.max),
        response_len_min: lengths.map(|lengths| lengths.min),
        total_len: samples().count(),
    };
    let mut lines = vec![Line::Summary(summary)];
    lines.extend(samples().map(|(group, sample)| {
        Line::Sample(Trajectory {
            rollout_id: sample.rollout_id,
            group_id: group.prompt.group_id,
            task_name: &group.prompt.task,
            data_source: &group.prompt.row.data_source,
            finish_reason: sample.finish_reason,
            prompt: prompt_text(&group.prompt.row),
            label: label(&group.prompt.row).into_owned(),
            response: &sample.response,
            reward: sample.reward.score,
            reward_payload: &sample.reward,
            prompt_len: group.prompt.prompt_ids.len(),
            response_len: sample.response_ids.len(),
            prompt_ids: &group.prompt.prompt_ids,
            response_ids: &sample.response_ids,
            logprobs: &sample.logprobs,
            response_model_steps: &sample.response_model_steps,
        })
    }));
    lines
}

/// The messages' texts, one after the other.
fn prompt_text(row: &piton_data::Row) -> String {
    row.prompt.iter().filter_map(|message| message.content.as_deref()).collect::<Vec<_>>().join("\n")
}
