//! From a batch of samples to forward passes: pure planning, no tensors.
//!
//! ```text
//! batch     g0 g0 g0 g0 g1 g1 g1 g1 g2 g2 g2 g2      samples; one group shares its prompt
//! updates  [g0 g0 g0 g0 g1 g1 g1 g1][g2 g2 g2 g2]    optimizer_steps = 2, cut between groups
//! passes   [g0 g0 g0][g0 g1 g1][g1 g1] [g2 g2 g2 ..  at most pack_max_length tokens each
//! ```
//!
//! In a pass the prompt of consecutive samples of one group is computed once.

use std::ops::Range;

use piton_trainer::TrainSample;

use crate::{Error, Result};

/// Samples of one batch that one optimizer update is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// In the order in which they are computed; empty when no token of its samples is trained on.
    pub passes: Vec<Pass>,
    /// Number of tokens that are trained on: what the loss is divided by.
    pub trained_tokens: usize,
}

/// Samples that one forward pass computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// Samples that share one prompt, as indices into the batch.
    pub shared: Vec<Vec<usize>>,
    /// Number of tokens computed: every shared prompt once, every response whole.
    pub tokens: usize,
}

impl Pass {
    /// Indices of the samples, in order.
    pub fn samples(&self) -> impl Iterator<Item = usize> {
        self.shared.iter().flatten().copied()
    }
}

/// Cuts a batch into at most `optimizer_steps` updates along the borders of its groups, and those into passes.
///
/// Group i of n belongs to update floor(i · updates / n): the same batch is always cut the same way. With fewer groups than
/// `optimizer_steps` every group is an update of its own. A sample without a trained token is left out.
///
/// # Errors
/// When a sample is longer than `pack_max_length`, or its arrays contradict each other.
pub fn plan(batch: &[TrainSample], optimizer_steps: usize, pack_max_length: usize) -> Result<Vec<Update>> {
    for sample in batch {
        check(sample, pack_max_length)?;
    }
    let groups = groups(batch);
    let updates = optimizer_steps.min(groups.len());
    let cut = |update: usize| (update * groups.len()).div_ceil(updates);
    Ok((0..updates)
        .map(|update| {
            let samples = || groups[cut(update)..cut(update + 1)].iter().cloned();
            Update {
                passes: passes(batch, samples(), pack_max_length),
                trained_tokens: samples().flatten().map(|index| trained(&batch[index])).sum(),
            }
        })
        .collect())
}

/// Number of tokens of a sample that are trained on.
fn trained(sample: &TrainSample) -> usize {
    sample.loss_mask.iter().filter(|&&trained| trained).count()
}

/// Runs of consecutive samples of one group id with the same prompt tokens.
fn groups(batch: &[TrainSample]) -> Vec<Range<usize>> {
    let prompt = |index: usize| (batch[index].group_id, &batch[index].tokens[..batch[index].prompt_len]);
    let mut groups: Vec<Range<usize>> = Vec::new();
    for index in 0..batch.len() {
        match groups.last_mut() {
            Some(group) if prompt(group.start) == prompt(index) => group.end = index + 1,
            _ => groups.push(index..index + 1),
        }
    }
    groups
}

/// Fills passes in order; a group that does not fit into the rest of a pass is continued in the next.
fn passes(batch: &[TrainSample], groups: impl Iterator<Item = Range<usize>>, limit: usize) -> Vec<Pass> {
    let mut passes: Vec<Pass> = Vec::new();
    for group in groups {
        let prompt = batch[group.start].prompt_len;
        let mut last_pass_has_prompt = false;
        for index in group.filter(|&index| trained(&batch[index]) > 0) {
            let response = batch[index].tokens.len() - prompt;
            let added = if last_pass_has_prompt { response } else { prompt + response };
            match passes.last_mut() {
                Some(pass) if pass.tokens + added <= limit => {
                    pass.tokens += added;
                    match pass.shared.last_mut() {
                        Some(members) if last_pass_has_prompt => members.push(index),
                        _ => pass.shared.push(vec![index]),
                    }
                }
                _ => passes.push(Pass { shared: vec![vec![index]], tokens: prompt + response }),
            }
            last_pass_has_prompt = true;
        }
    }
    passes
}

fn check(sample: &TrainSample, limit: usize) -> Result<()> {
    let rollout_id = sample.rollout_id;
    let tokens = sample.tokens.len();
    let fault = |fault: String| Err(Error::Sample { rollout_id, fault });
    if sample.prompt_len == 0 || sample.prompt_len > tokens {
        return fault(format!(
            "prompt_len is {}, expected 1 to {tokens}, its number of tokens",
            sample.prompt_len
        ));
    }
    let response = tokens - sample.prompt_len;
    let lengths = [
        ("loss_mask", sample.loss_mask.len()),
        ("advantages", sample.advantages.len()),
        ("rollout_log_probs", sample.rollout_log_probs.len()),
    ];
    for (name, found) in lengths {
        if found != response {
            return fault(format!(
                "{name} has {found} entries, expected {response}, one for each response token"
            ));
        }
    }
    if tokens > limit {
        return Err(Error::SampleTooLong { rollout_id, tokens, limit });
    }
    Ok(())
}
