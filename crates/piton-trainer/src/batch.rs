//! From judged groups to what the learner sees.

use piton_agent::Group;
use piton_algo::AdvantageEstimator;

use crate::controller::TrainSample;

/// Turns groups into train samples: one advantage per label token, constant over a sample's tokens.
///
/// Samples keep the order of their groups and ids, so that the same batch always trains in the same order.
pub fn train_samples(groups: &[Group], estimator: &AdvantageEstimator) -> Vec<TrainSample> {
    groups.iter().flat_map(|group| of_group(group, estimator)).collect()
}

fn of_group(group: &Group, estimator: &AdvantageEstimator) -> Vec<TrainSample> {
    #[expect(clippy::cast_possible_truncation, reason = "scores are small numbers; training is in f32")]
    let rewards: Vec<f32> = group.samples.iter().map(|sample| sample.reward.score as f32).collect();
    let lengths: Vec<usize> = group.samples.iter().map(|sample| sample.response_ids.len()).collect();
    let advantages = estimator.compute(&rewards, &lengths);
    let prompt_len = group.prompt.prompt_ids.len();
    let sample_of = |(sample, advantage): (&piton_agent::Sample, f32)| {
        let mut tokens = Vec::with_capacity(prompt_len + sample.response_ids.len());
        tokens.extend_from_slice(&group.prompt.prompt_ids);
        tokens.extend_from_slice(&sample.response_ids);
        TrainSample {
            group_id: group.prompt.group_id,
            rollout_id: sample.rollout_id,
            tokens,
            prompt_len,
            loss_mask: vec![true; sample.response_ids.len()],
            advantages: vec![advantage; sample.response_ids.len()],
            rollout_log_probs: sample.logprobs.clone(),
        }
    };
    group.samples.iter().zip(advantages).map(sample_of).collect()
}
