//! What is sampled follows the distribution that transformers' warpers give.

use piton_lm::generate::{Request, SamplingParams};

use crate::support::{MODELS, Model, domain, greedy, request, run};

/// Draws; the least probability that is counted in a cell of its own has 20 of them.
const DRAWS: u64 = 5_000;

#[test]
fn first_tokens_follow_temperature_top_k_and_top_p() {
    for name in MODELS {
        let model = Model::load(name);
        let prompt: std::sync::Arc<[u32]> = model.golden.cases.last().unwrap().prompt_ids.clone().into();
        let mut engine = model.engine();
        for expected in &model.golden.distributions {
            let params = SamplingParams {
                max_tokens: 1,
                temperature: expected.temperature,
                top_k: expected.top_k,
                top_p: expected.top_p,
                ..SamplingParams::default()
            };
            let requests = (0..DRAWS)
                .map(|sample| request(sample, &prompt, params.clone()).sample_of(3, sample))
                .collect();
            let mut counts = vec![0.0_f64; expected.probs.len()];
            for finished in run(&mut engine, requests) {
                counts[finished.response_ids[0] as usize] += 1.0;
            }
            let context = format!("{name}, {params:?}");
            check_chi_square(&counts, &expected.probs, &context);
        }
    }
}

/// Counts against probabilities; cells that expect fewer than 20 are taken together.
fn check_chi_square(counts: &[f64], probs: &[f64], context: &str) {
    let draws = DRAWS as f64;
    let (mut statistic, mut cells) = (0.0, 0.0);
    let (mut rare_count, mut rare_expected) = (0.0, 0.0);
    for (token, (&count, &prob)) in counts.iter().zip(probs).enumerate() {
        let expected = prob * draws;
        if prob == 0.0 {
            assert!(count == 0.0, "{context}: token {token} is filtered out and was drawn");
        } else if expected < 20.0 {
            rare_count += count;
            rare_expected += expected;
        } else {
            statistic += (count - expected).powi(2) / expected;
            cells += 1.0;
        }
    }
    if rare_expected >= 20.0 {
        statistic += (rare_count - rare_expected).powi(2) / rare_expected;
        cells += 1.0;
    }
    let freedom: f64 = cells - 1.0;
    // the statistic has mean `freedom` and variance 2 freedom; the seed is fixed, so this cannot flicker
    assert!(
        statistic < freedom + 4.0 * (2.0 * freedom).sqrt() + 4.0,
        "{context}: chi-square {statistic} of {freedom}"
    );
}

#[test]
fn a_token_depends_on_group_sample_and_position_only() {
    let model = Model::load("tied");
    let prompt = &model.prompts(1)[0];
    let params = SamplingParams { max_tokens: 30, ..SamplingParams::default() };
    let response = |engine: &mut _, id, group, sample| {
        let request = Request::new(id, prompt.clone(), params.clone(), domain()).sample_of(group, sample);
        run(engine, vec![request]).remove(0).response_ids
    };
    let mut engine = model.engine();
    let first = response(&mut engine, 1, 4, 2);
    assert_eq!(response(&mut engine, 9, 4, 2), first, "the id plays no part");
    assert_ne!(response(&mut engine, 1, 4, 3), first);
    assert_ne!(response(&mut engine, 1, 5, 2), first);
}

#[test]
fn top_k_1_and_temperature_0_are_greedy() {
    let model = Model::load("tied");
    let prompt = &model.prompts(2)[1];
    let top_1 = SamplingParams { max_tokens: 20, top_k: 1, ..SamplingParams::default() };
    let found = run(&mut model.engine(), vec![request(0, prompt, top_1), request(1, prompt, greedy(20))]);
    assert_eq!(found[0].response_ids, found[1].response_ids);
}
