//! A response's bits do not depend on what shares its batch.

use std::num::NonZeroUsize;
use std::sync::Arc;

use piton_lm::generate::{EngineConfig, Finished, Request};

use crate::support::{MODELS, Model, bits, request, run, sampled, threads};

const TOKENS: usize = 40;

fn requests(prompts: &[Arc<[u32]>]) -> Vec<Request> {
    prompts.iter().enumerate().map(|(id, prompt)| request(id as u64, prompt, sampled(TOKENS))).collect()
}

fn assert_same(found: &[Finished], expected: &[Finished], what: &str) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(bits(found), bits(expected), "{what}, request {}", found.id);
    }
}

#[test]
fn alone_among_7_and_among_64_gives_the_same_bits() {
    for name in MODELS {
        let model = Model::load(name);
        let prompts = model.prompts(64);
        let together = run(&mut model.engine(), requests(&prompts));
        assert_same(&run(&mut model.engine(), requests(&prompts[..7])), &together, name);
        let mut engine = model.engine();
        let alone: Vec<Finished> =
            requests(&prompts).into_iter().flat_map(|request| run(&mut engine, vec![request])).collect();
        assert_same(&alone, &together, name);
    }
}

#[test]
fn one_and_two_and_five_threads_give_the_same_bits() {
    let model = Model::load("untied");
    let prompts = model.prompts(33);
    let one = run(&mut model.engine_with(threads(1)), requests(&prompts));
    for count in [2, 5] {
        assert_same(&run(&mut model.engine_with(threads(count)), requests(&prompts)), &one, "threads");
    }
}

#[test]
fn admission_in_mid_flight_and_small_forwards_give_the_same_bits() {
    let model = Model::load("untied");
    let prompts = model.prompts(20);
    let expected = run(&mut model.engine(), requests(&prompts));
    let tight = EngineConfig {
        max_running: NonZeroUsize::new(6).unwrap(),
        max_tokens_per_forward: NonZeroUsize::new(13).unwrap(),
        ..threads(2)
    };
    for config in [EngineConfig::default(), tight] {
        let mut engine = model.engine_with(config);
        let mut found = Vec::new();
        for request in requests(&prompts) {
            engine.submit(request).unwrap();
            found.extend(engine.step().unwrap());
            found.extend(engine.step().unwrap());
        }
        while !engine.is_idle() {
            found.extend(engine.step().unwrap());
        }
        found.sort_by_key(|finished| finished.id);
        assert_eq!(found.len(), expected.len());
        assert_same(&found, &expected, "joined late");
    }
}

#[test]
fn a_shared_prompt_gives_the_same_bits_as_one_of_its_own() {
    let model = Model::load("tied");
    let prompt = &model.prompts(3)[2];
    let samples = |range: std::ops::Range<u64>| -> Vec<Request> {
        range.map(|sample| request(sample, prompt, sampled(TOKENS)).sample_of(0, sample)).collect()
    };
    let shared = run(&mut model.engine(), samples(0..8));
    let mut engine = model.engine();
    let own: Vec<Finished> =
        samples(0..8).into_iter().flat_map(|request| run(&mut engine, vec![request])).collect();
    assert_same(&own, &shared, "own prompt");

    // one that joins when the prompt has long been cached
    let mut found = Vec::new();
    for request in samples(0..8) {
        engine.submit(request).unwrap();
        found.extend(engine.step().unwrap());
    }
    while !engine.is_idle() {
        found.extend(engine.step().unwrap());
    }
    assert_same(&found, &shared, "joined late");
}

#[test]
fn an_aborted_response_goes_on_with_the_same_bits() {
    let model = Model::load("untied");
    let prompts = model.prompts(9);
    let expected = run(&mut model.engine(), requests(&prompts));
    for stop_after in [0, 1, 2, 17, TOKENS - 1] {
        let mut engine = model.engine();
        for request in requests(&prompts) {
            engine.submit(request).unwrap();
        }
        for _ in 0..stop_after {
            engine.step().unwrap();
        }
        let partial = engine.abort_all();
        assert!(partial.iter().all(|partial| partial.response_ids.len() == stop_after));
        let rest = requests(&prompts)
            .into_iter()
            .zip(&partial)
            .map(|(request, partial)| request.continue_from(partial))
            .collect();
        assert_same(&run(&mut engine, rest), &expected, "continued");
    }
}
