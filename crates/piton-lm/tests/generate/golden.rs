//! Equality with transformers.

use std::num::NonZeroUsize;

use piton_lm::generate::{EngineConfig, Kernels};

use crate::support::{MODELS, Model, greedy, request, run, sampled};

#[test]
fn greedy_responses_equal_those_of_transformers() {
    for name in MODELS {
        let model = Model::load(name);
        let requests = model
            .golden
            .cases
            .iter()
            .enumerate()
            .map(|(id, case)| {
                request(id as u64, &case.prompt_ids.clone().into(), greedy(case.response_ids.len()))
            })
            .collect();
        for (found, case) in run(&mut model.engine(), requests).iter().zip(&model.golden.cases) {
            assert_eq!(found.response_ids, case.response_ids, "{name}, prompt of {}", case.prompt_ids.len());
            for (position, (found, expected)) in found.log_probs.iter().zip(&case.log_probs).enumerate() {
                assert!(
                    (found - expected).abs() < 1e-4,
                    "{name} at {position}: {found}, transformers {expected}"
                );
            }
        }
    }
}

#[test]
fn libtorch_kernels_give_the_same_responses_to_5e_5() {
    tch::set_num_threads(1); // of this thread: operations this small only wait for helpers
    for name in MODELS {
        let model = Model::load(name);
        let prompts = model.prompts(6);
        let requests = || {
            let mut requests = Vec::new();
            for (group, prompt) in prompts.iter().enumerate() {
                for sample in 0..2 {
                    let id = group as u64 * 2 + sample;
                    requests.push(request(id, prompt, sampled(70)).sample_of(group as u64, sample));
                }
            }
            requests
        };
        let own = run(&mut model.engine(), requests());
        let tight = EngineConfig {
            kernels: Kernels::Libtorch,
            max_running: NonZeroUsize::new(5).unwrap(),
            max_tokens_per_forward: NonZeroUsize::new(50).unwrap(),
            ..EngineConfig::default()
        };
        for config in [EngineConfig { kernels: Kernels::Libtorch, ..EngineConfig::default() }, tight] {
            for (found, own) in run(&mut model.engine_with(config), requests()).iter().zip(&own) {
                assert_eq!(found.response_ids, own.response_ids, "{name}, request {}", found.id);
                for (found, own) in found.log_probs.iter().zip(&own.log_probs) {
                    assert!((found - own).abs() < 5e-5, "{name}: {found}, own kernels {own}");
                }
            }
        }
    }
}
