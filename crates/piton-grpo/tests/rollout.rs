//! The engine in this process, as agent loops and the learner see it.

#![allow(clippy::unwrap_used, reason = "a failure of a test should stop it where it happens")]

mod common;

use std::sync::Arc;

use common::{fixtures, trained, worker};
use piton_agent::{FinishReason, GenerateRequest, Generation, Phase, RolloutController, SampleParams};
use piton_data::Tokenizer;
use piton_grpo::{GrpoLearner, LocalRollout, PublishWeights, RolloutSettings};
use piton_lm::generate::EngineConfig;
use piton_lm::{HfModel, ModelConfig, init};
use piton_rng::Seed;
use piton_run::Stop;
use piton_trainer::{FitContext, TrainController, TrainSample};
use tch::{Device, Tensor};

const PROMPT: [u32; 5] = [7, 11, 13, 17, 19];

fn model(seed: u64) -> HfModel {
    let config = ModelConfig::read(&fixtures().join("models/chain-sum/config.json")).unwrap();
    let weights = init(&config, Seed(seed), Device::Cpu).unwrap();
    HfModel { config, weights }
}

fn start(model: &HfModel, seed: u64) -> LocalRollout {
    let tokenizer = Tokenizer::from_dir(fixtures().join("models/chain-sum")).unwrap();
    let settings = RolloutSettings { seed: Seed(seed), context_length: 64 };
    LocalRollout::start(&model.config, &model.weights, tokenizer, EngineConfig::default(), settings).unwrap()
}

fn request(group_id: u64, index: u64) -> GenerateRequest {
    GenerateRequest {
        task: "sums".into(),
        phase: Phase::Train,
        group_id,
        rollout_id: group_id * 8 + index,
        index,
        prompt_ids: PROMPT.into(),
        params: Arc::new(SampleParams { max_tokens: 12, ..SampleParams::default() }),
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn generate(rollout: &LocalRollout, requests: Vec<GenerateRequest>) -> Vec<Generation> {
    let waiting: Vec<_> = requests.into_iter().map(|request| rollout.generate(request)).collect();
    block_on(async {
        let mut answers = Vec::new();
        for answer in waiting {
            answers.push(answer.await.unwrap());
        }
        answers
    })
}

fn samples(generations: &[Generation]) -> Vec<TrainSample> {
    let sample = |(at, generation): (u64, &Generation)| {
        let response_len = generation.response_ids.len();
        TrainSample {
            group_id: 0,
            rollout_id: at,
            tokens: [&PROMPT[..], &generation.response_ids].concat(),
            prompt_len: PROMPT.len(),
            loss_mask: vec![true; response_len],
            advantages: vec![if at % 2 == 0 { 1.0 } else { -1.0 }; response_len],
            rollout_log_probs: generation.logprobs.clone(),
        }
    };
    (0..).zip(generations).map(sample).collect()
}

#[test]
fn after_every_update_engine_and_learner_hold_the_same_policy() {
    let model = model(1);
    let rollout = start(&model, 3);
    let publisher = rollout.publisher();
    let mut config = worker(1, 1e-3);
    config.pack_max_length = 1000;
    let companions = fixtures().join("models/chain-sum");
    let mut learner = GrpoLearner::new(config, model, None, Box::new(publisher.clone()), companions).unwrap();
    let stop = Stop::manual();
    let mut mismatches = Vec::new();
    for step in 1..=4 {
        let generations = generate(&rollout, (0..8).map(|index| request(step, index)).collect());
        let version = if step == 4 { 2 } else { step - 1 };
        assert!(generations.iter().all(|one| one.model_steps == vec![version; one.response_ids.len()]));
        let context = FitContext { step, total_train_steps: 4, stop: &stop };
        let metrics = trained(learner.fit(&samples(&generations), context).unwrap());
        mismatches.push(metrics["mismatch/mismatch_logprob_abs_diff"]);
        if step == 3 {
            continue; // not published: the fourth step finds an engine one step behind
        }
        learner.update_weights(step).unwrap();
        let (held, version) = publisher.published().unwrap();
        assert_eq!(version, step);
        for (name, tensor) in learner.weights().tensors() {
            assert_eq!(tensor, &held.tensors()[name], "{name} after step {step}");
        }
    }
    assert!(mismatches[..3].iter().all(|mismatch| *mismatch < 1e-5), "{mismatches:?}");
    assert!(mismatches[3] > 1e-3, "{mismatches:?}");
}

#[test]
fn a_response_depends_on_its_ids_and_not_on_its_company() {
    let model = model(1);
    let rollout = start(&model, 3);
    let alone = generate(&rollout, vec![request(5, 2)]);
    let together = generate(&rollout, (0..8).rev().map(|index| request(5, index)).collect());
    assert_eq!(alone[0], together[5]);
    assert_ne!(alone[0].response_ids, together[4].response_ids);
    let eval = GenerateRequest { phase: Phase::Eval, ..request(5, 2) };
    let other_task = GenerateRequest { task: "other".into(), ..request(5, 2) };
    for other in generate(&rollout, vec![eval, other_task]) {
        assert_ne!(other.response_ids, alone[0].response_ids);
    }
    assert_ne!(generate(&start(&model, 4), vec![request(5, 2)])[0].response_ids, alone[0].response_ids);
}

#[test]
fn a_pause_answers_at_once_with_the_tokens_so_far() {
    let rollout = start(&model(1), 3);
    let full = generate(&rollout, vec![request(5, 2)]);
    rollout.pause_generation().unwrap();
    let paused = generate(&rollout, vec![request(5, 2)]);
    assert_eq!(paused[0].finish_reason, FinishReason::Abort);
    assert!(full[0].response_ids.starts_with(&paused[0].response_ids));
    assert_eq!(paused[0].logprobs.len(), paused[0].response_ids.len());
    rollout.continue_generation().unwrap();
    assert_eq!(generate(&rollout, vec![request(5, 2)]), full);
}

#[test]
fn the_context_length_bounds_prompt_and_response_together() {
    let rollout = start(&model(1), 3);
    let long = |tokens: usize| GenerateRequest {
        prompt_ids: vec![7; tokens].into(),
        params: Arc::new(SampleParams { max_tokens: 100, min_tokens: 100, ..SampleParams::default() }),
        ..request(1, 0)
    };
    let answer = generate(&rollout, vec![long(60)]);
    assert_eq!((answer[0].response_ids.len(), answer[0].finish_reason), (4, FinishReason::Length));
    assert_eq!(
        block_on(rollout.generate(long(64))).unwrap_err().to_string(),
        "generate: the prompt has 64 tokens and context_length is 64, so no token of a response fits; \
         shorten or drop the prompt, or raise context_length"
    );
}

#[test]
fn an_engine_that_cannot_go_on_is_an_error_of_every_request_and_recovers() {
    let model = model(1);
    let rollout = start(&model, 3);
    let good = generate(&rollout, vec![request(5, 2)]);
    let broken = model.weights.snapshot().unwrap();
    tch::no_grad(|| drop(broken.norm().shallow_clone().fill_(f64::NAN)));
    rollout.publisher().publish(&broken, 1).unwrap();
    let waiting: Vec<_> = (0..3).map(|index| rollout.generate(request(5, index))).collect();
    for answer in waiting {
        let error = block_on(answer).unwrap_err().to_string();
        assert!(error.contains("not finite"), "{error}");
    }
    rollout.publisher().publish(&model.weights, 0).unwrap();
    assert_eq!(generate(&rollout, vec![request(5, 2)]), good);
}

#[test]
fn weights_of_another_model_are_refused_and_the_old_ones_stay() {
    let model = model(1);
    let rollout = start(&model, 3);
    let publisher = rollout.publisher();
    let other = common::tiny_model();
    assert!(publisher.publish(&other.weights, 9).is_err());
    let (held, version) = publisher.published().unwrap();
    assert_eq!(version, 0);
    let same = |name: &String| -> bool { held.tensors()[name] == model.weights.tensors()[name] };
    assert!(model.weights.tensors().keys().all(same));
}

#[test]
fn after_the_engine_is_dropped_its_publisher_says_so() {
    let model = model(1);
    let publisher = start(&model, 3).publisher();
    assert_eq!(
        publisher.publish(&model.weights, 1).unwrap_err().to_string(),
        "publish weights: the rollout thread has ended: it was shut down"
    );
}

#[test]
fn what_was_published_is_a_copy() {
    let model = model(1);
    let rollout = start(&model, 3);
    let before: Tensor = rollout.publisher().published().unwrap().0.norm().shallow_clone();
    tch::no_grad(|| drop(model.weights.norm().shallow_clone().fill_(0.0)));
    assert_eq!(before, *rollout.publisher().published().unwrap().0.norm());
}
