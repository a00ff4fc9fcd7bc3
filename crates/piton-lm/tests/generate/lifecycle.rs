//! How responses start and end, and what is refused.

use std::cell::Cell;
use std::sync::Arc;

use piton_lm::generate::{EngineConfig, Finish, Request, SamplingParams};

use crate::support::{Model, domain, greedy, request, run, sampled};

/// A greedy response of the tied model without stop ids, and its prompt.
fn unstopped(model: &Model) -> (Arc<[u32]>, Vec<u32>) {
    let case = &model.golden.cases[1];
    (case.prompt_ids.clone().into(), case.response_ids.clone())
}

#[test]
fn a_stop_token_ends_the_response_and_belongs_to_it() {
    let model = Model::load("tied");
    let (prompt, response) = unstopped(&model);
    let stop = response[7];
    let first = response.iter().position(|&id| id == stop).unwrap();
    let by_request = SamplingParams { stop_token_ids: vec![stop], ..greedy(50) };
    let by_engine = EngineConfig { eos_token_ids: Some(vec![stop]), ..EngineConfig::default() };
    for (params, config) in [(by_request, EngineConfig::default()), (greedy(50), by_engine)] {
        let found = run(&mut model.engine_with(config), vec![request(0, &prompt, params)]).remove(0);
        assert_eq!(found.finish, Finish::Stop);
        assert_eq!(found.response_ids, response[..=first]);
        assert_eq!(found.log_probs.len(), found.response_ids.len());
    }
}

#[test]
fn no_stop_token_is_chosen_before_min_tokens() {
    let model = Model::load("tied");
    let (prompt, response) = unstopped(&model);
    for temperature in [0.0, 1.0] {
        let params = SamplingParams {
            max_tokens: 40,
            min_tokens: 12,
            temperature,
            stop_token_ids: response.clone(),
            ..SamplingParams::default()
        };
        let requests = (0..20).map(|id| request(id, &prompt, params.clone())).collect();
        for found in run(&mut model.engine(), requests) {
            assert!(found.response_ids.len() > 12 || found.finish == Finish::Length);
            assert!(found.response_ids[..12].iter().all(|id| !response.contains(id)));
        }
    }
}

#[test]
fn the_budget_and_the_longest_sequence_end_a_response() {
    let model = Model::load("tied");
    let (prompt, response) = unstopped(&model);
    let found =
        run(&mut model.engine(), vec![request(0, &prompt, greedy(9)), request(1, &prompt, greedy(0))]);
    assert_eq!((found[0].finish, &found[0].response_ids[..]), (Finish::Length, &response[..9]));
    assert_eq!((found[1].finish, &found[1].response_ids[..]), (Finish::Length, &[][..]));

    let longest = model.config.max_position_embeddings;
    let almost: Arc<[u32]> = vec![3; longest - 2].into();
    let found = run(&mut model.engine(), vec![request(0, &almost, greedy(50))]).remove(0);
    assert_eq!((found.finish, found.response_ids.len()), (Finish::Length, 2));
}

#[test]
fn abort_keeps_the_tokens_so_far_and_empties_the_engine() {
    let model = Model::load("tied");
    let (prompt, response) = unstopped(&model);
    let mut engine = model.engine();
    engine.submit(request(4, &prompt, greedy(50))).unwrap();
    engine.submit(request(2, &prompt, greedy(3))).unwrap();
    for _ in 0..5 {
        engine.step().unwrap();
    }
    let aborted = engine.abort_all();
    assert_eq!(aborted.len(), 1, "the other had ended");
    assert_eq!((aborted[0].id, aborted[0].finish), (4, Finish::Abort));
    assert_eq!(aborted[0].response_ids, response[..5]);
    assert_eq!(aborted[0].log_probs.len(), 5);
    assert!(engine.is_idle());
}

#[test]
fn generate_asks_stop_before_every_token_and_answers_in_order() {
    let model = Model::load("tied");
    let (prompt, response) = unstopped(&model);
    let asked = Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 10
    };
    let requests = vec![
        request(7, &prompt, greedy(50)),
        request(3, &prompt, greedy(4)),
        request(5, &prompt, greedy(50)),
    ];
    let found = model.engine().generate(requests, &stop).unwrap();
    let ends: Vec<_> = found.iter().map(|found| (found.id, found.finish, found.response_ids.len())).collect();
    assert_eq!(ends, [(7, Finish::Abort, 10), (3, Finish::Length, 4), (5, Finish::Abort, 10)]);
    assert_eq!(found[0].response_ids, response[..10]);
}

#[test]
fn other_weights_are_loaded_in_place_and_only_between_requests() {
    let model = Model::load("tied");
    let (prompt, response) = unstopped(&model);
    let mut halved = model.weights.snapshot().unwrap().into_tensors();
    for tensor in halved.values_mut() {
        *tensor = tensor.f_mul_scalar(0.5).unwrap();
    }
    let halved = piton_lm::Weights::new(&model.config, halved, "halved").unwrap();
    let mut engine = model.engine();
    engine.submit(request(0, &prompt, greedy(20))).unwrap();
    engine.step().unwrap();
    let error = engine.load_weights(&halved, 2).unwrap_err().to_string();
    assert_eq!(error, "load weights 2: 1 requests are in flight under weights 1; call abort_all first");
    engine.abort_all();

    engine.load_weights(&halved, 2).unwrap();
    assert_eq!(engine.version(), 2);
    let other = run(&mut engine, vec![request(0, &prompt, greedy(20))]).remove(0);
    assert_ne!(other.response_ids, response[..20]);
    engine.load_weights(&model.weights, 3).unwrap();
    assert_eq!(run(&mut engine, vec![request(0, &prompt, greedy(20))])[0].response_ids, response[..20]);
}

#[test]
fn weights_with_nan_are_reported_and_the_engine_goes_on() {
    let model = Model::load("tied");
    let (prompt, response) = unstopped(&model);
    let mut broken = model.weights.snapshot().unwrap().into_tensors();
    let norm = broken.get_mut("model.norm.weight").unwrap();
    *norm = norm.f_mul_scalar(f64::NAN).unwrap();
    let broken = piton_lm::Weights::new(&model.config, broken, "broken").unwrap();
    let mut engine = model.engine();
    engine.load_weights(&broken, 2).unwrap();
    let error = engine.generate(vec![request(6, &prompt, greedy(5))], &|| false).unwrap_err().to_string();
    assert_eq!(
        error,
        "request 6: the logits of response position 0 are not finite; the weights hold NaN or have diverged"
    );
    engine.load_weights(&model.weights, 3).unwrap();
    assert_eq!(run(&mut engine, vec![request(6, &prompt, greedy(5))])[0].response_ids, response[..5]);
}

#[test]
fn what_cannot_be_served_is_refused_with_a_reason() {
    let model = Model::load("tied");
    let mut engine = model.engine();
    let mut refused = |request: Request| engine.submit(request).unwrap_err().to_string();
    let new = |prompt: Vec<u32>, params| Request::new(1, prompt, params, domain());

    assert_eq!(
        refused(new(vec![], greedy(1))),
        "request 1: the prompt is empty, expected at least one token"
    );
    assert_eq!(
        refused(new(vec![0; 257], greedy(1))),
        "request 1: 257 prompt and 0 response tokens, expected at most 256 together (max_position_embeddings); \
         shorten or drop the prompt"
    );
    assert_eq!(
        refused(new(vec![3, 97], greedy(1))),
        "request 1: token id 97 has no embedding row, expected ids below 97; \
         use the tokenizer the model was made with"
    );
    let params = SamplingParams { temperature: -1.0, top_p: 0.0, min_tokens: 4, ..sampled(3) };
    assert_eq!(
        refused(new(vec![1], params)),
        "request 1: sampling parameters: temperature is -1, expected 0 (greedy) or a positive number; \
         top_p is 0, expected a number above 0 and at most 1 (off); min_tokens is 4, expected at most max_tokens (3)"
    );
    let mut partial = new(vec![1], greedy(9));
    partial.response_ids = vec![5, 6];
    partial.log_probs = vec![-0.5];
    assert_eq!(
        refused(partial),
        "request 1: 2 response tokens but 1 log-probabilities, expected one for each"
    );
    engine.submit(new(vec![1], greedy(1))).unwrap();
    assert_eq!(
        engine.submit(new(vec![2], greedy(1))).unwrap_err().to_string(),
        "request 1: a request of this id is in flight; number requests with a counter"
    );
}
