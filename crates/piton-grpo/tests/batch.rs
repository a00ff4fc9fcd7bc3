//! How a batch is cut into updates and forward passes.

#![allow(clippy::unwrap_used, reason = "a failure of a test should stop it where it happens")]

use piton_grpo::batch::{Update, plan};
use piton_trainer::TrainSample;

/// A sample of group `group` whose prompt is `prompt_len` times the group's number; every response token is trained on.
fn sample(group: u32, prompt_len: usize, response_len: usize) -> TrainSample {
    TrainSample {
        group_id: u64::from(group),
        rollout_id: 0,
        tokens: [vec![group; prompt_len], vec![9; response_len]].concat(),
        prompt_len,
        loss_mask: vec![true; response_len],
        advantages: vec![1.0; response_len],
        rollout_log_probs: vec![-1.0; response_len],
    }
}

/// Per update, per pass: (groups of samples that share a prompt, computed tokens).
fn shape(updates: &[Update]) -> Vec<Vec<(Vec<Vec<usize>>, usize)>> {
    let pass = |pass: &piton_grpo::batch::Pass| (pass.shared.clone(), pass.tokens);
    updates.iter().map(|update| update.passes.iter().map(pass).collect()).collect()
}

fn groups_of(sizes: &[usize]) -> Vec<TrainSample> {
    let group = |(group, &size): (usize, &usize)| vec![sample(u32::try_from(group).unwrap(), 3, 2); size];
    sizes.iter().enumerate().flat_map(group).collect()
}

#[test]
fn a_shared_prompt_counts_once_in_a_pass_and_again_in_the_next() {
    // 3 + 2 + 2 = 7 fills the first pass; the third sample of group 0 brings its prompt along: 5, then group 1 needs 5 more.
    let updates = plan(&groups_of(&[3, 1]), 1, 7).unwrap();
    assert_eq!(shape(&updates), [vec![(vec![vec![0, 1]], 7), (vec![vec![2]], 5), (vec![vec![3]], 5)]]);
    assert_eq!(updates[0].trained_tokens, 8);
    let updates = plan(&groups_of(&[3, 1]), 1, 100).unwrap();
    assert_eq!(shape(&updates), [vec![(vec![vec![0, 1, 2], vec![3]], 9 + 5)]]);
}

#[test]
fn updates_are_cut_between_groups_and_none_is_empty() {
    let counts = |sizes: &[usize], optimizer_steps| -> Vec<usize> {
        let updates = plan(&groups_of(sizes), optimizer_steps, 100).unwrap();
        updates.iter().map(|update| update.passes.iter().flat_map(|pass| pass.samples()).count()).collect()
    };
    assert_eq!(counts(&[4, 4, 4, 4], 2), [8, 8]);
    assert_eq!(counts(&[4, 4, 4], 2), [8, 4]);
    assert_eq!(counts(&[1, 1, 1, 1, 1], 3), [2, 2, 1]);
    assert_eq!(counts(&[4, 4], 5), [4, 4]);
    assert_eq!(counts(&[], 2), [0; 0]);
}

#[test]
fn a_sample_without_a_trained_token_is_not_computed() {
    let mut batch = groups_of(&[3]);
    batch[1].loss_mask = vec![false; 2];
    let updates = plan(&batch, 1, 100).unwrap();
    assert_eq!(shape(&updates), [vec![(vec![vec![0, 2]], 7)]]);
    assert_eq!(updates[0].trained_tokens, 4);
    for sample in &mut batch {
        sample.loss_mask = vec![false; 2];
    }
    let updates = plan(&batch, 1, 100).unwrap();
    assert_eq!((updates[0].passes.len(), updates[0].trained_tokens), (0, 0));
}

#[test]
fn equal_prompts_of_two_groups_are_two_groups() {
    let mut batch = vec![sample(1, 3, 2); 2];
    batch[1].group_id = 2;
    assert_eq!(plan(&batch, 2, 100).unwrap().len(), 2);
}

#[test]
fn a_sample_that_fits_no_pass_names_both_lengths() {
    assert_eq!(
        plan(&[sample(1, 6, 5)], 1, 10).unwrap_err().to_string(),
        "sample 0 has 11 tokens, prompt and response together, but pack_max_length is 10; \
         raise pack_max_length to 11 or more, or allow shorter responses"
    );
}

#[test]
fn arrays_of_a_wrong_length_are_named() {
    let mut short = sample(1, 6, 5);
    short.advantages.pop();
    assert_eq!(
        plan(&[short], 1, 100).unwrap_err().to_string(),
        "sample 0: advantages has 4 entries, expected 5, one for each response token"
    );
    let mut promptless = sample(1, 6, 5);
    promptless.prompt_len = 0;
    assert_eq!(
        plan(&[promptless], 1, 100).unwrap_err().to_string(),
        "sample 0: prompt_len is 0, expected 1 to 11, its number of tokens"
    );
}
