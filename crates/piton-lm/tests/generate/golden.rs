//! Equality with transformers.

use crate::support::{MODELS, Model, greedy, request, run};

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
