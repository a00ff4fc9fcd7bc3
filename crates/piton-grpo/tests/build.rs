//! From a trainer's configuration to controllers that work together.

#![allow(clippy::unwrap_used, reason = "a failure of a test should stop it where it happens")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::fixtures;
use piton_agent::{GenerateRequest, Phase, RolloutController, SampleParams};
use piton_grpo::{LocalControllers, build};
use piton_lm::{ExportDtype, ModelConfig, export, init};
use piton_rng::Seed;
use piton_run::Stop;
use piton_trainer::{ColocateTrainerConfig, FitContext, TrainController, TrainSample};
use serde_json::json;
use tch::Device;

fn config(model: &Path, tokenizer: &Path) -> ColocateTrainerConfig {
    serde_json::from_value(json!({
        "load_from": model, "tokenizer_path": tokenizer,
        "total_train_steps": 1, "train_batch_size": 1, "seed": 7,
        "agent_loop_manager_cfg": {"tasks": []},
        "train_worker_cfg": {
            "pack_max_length": 512,
            "loss_cfg": {"policy_loss_cfg": {"cliprange_low": 0.2, "cliprange_high": 0.2}},
        },
    }))
    .unwrap()
}

/// A model directory: the default recipe's shape and tokenizer, with random weights.
fn model_dir(dir: &Path) {
    let source = fixtures().join("models/chain-sum");
    let model = ModelConfig::read(&source.join("config.json")).unwrap();
    let weights = init(&model, Seed(1), Device::Cpu).unwrap();
    export(&model, &weights, &source, ExportDtype::F32, dir).unwrap();
}

#[test]
fn both_sides_start_from_the_same_weights_and_the_export_has_the_tokenizer() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("model");
    model_dir(&dir);
    let LocalControllers { mut train, rollout } = build(&config(&dir, &dir)).unwrap();
    let prompt = [5, 6, 7];
    let request = GenerateRequest {
        task: "sums".into(),
        phase: Phase::Train,
        group_id: 0,
        rollout_id: 0,
        index: 0,
        prompt_ids: prompt.into(),
        params: Arc::new(SampleParams { max_tokens: 8, ..SampleParams::default() }),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answer = runtime.block_on(rollout.generate(request)).unwrap();
    let response_len = answer.response_ids.len();
    let sample = TrainSample {
        group_id: 0,
        rollout_id: 0,
        tokens: [&prompt[..], &answer.response_ids].concat(),
        prompt_len: prompt.len(),
        loss_mask: vec![true; response_len],
        advantages: vec![1.0; response_len],
        rollout_log_probs: answer.logprobs,
    };
    let context = FitContext { step: 1, total_train_steps: 1, stop: &Stop::manual() };
    let metrics = common::trained(train.fit(&[sample], context).unwrap());
    assert!(metrics["mismatch/mismatch_logprob_abs_diff"] < 1e-5);

    let hf = temp.path().join("hf");
    train.save_hf(&hf).unwrap();
    for file in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        assert_eq!(std::fs::read(hf.join(file)).unwrap(), std::fs::read(dir.join(file)).unwrap(), "{file}");
    }
    build(&config(&hf, &hf)).unwrap();
}

#[test]
fn keys_without_a_meaning_here_are_named_together() {
    let dir = fixtures().join("golden/grpo/update");
    let mut config = config(&dir, &fixtures().join("models/chain-sum"));
    config.device = "tpu".to_owned();
    config.rollout_config.model_path = Some("elsewhere".into());
    let error = build(&config).unwrap_err().to_string();
    assert!(error.contains("device is \"tpu\": write \"cpu\" or \"cuda:N\""), "{error}");
    assert!(error.contains("rollout_config.model_path is elsewhere"), "{error}");
}

#[test]
fn a_tokenizer_of_another_model_is_refused() {
    let dir = fixtures().join("golden/grpo/update");
    let error = build(&config(&dir, &fixtures().join("models/chain-sum"))).unwrap_err().to_string();
    assert!(error.contains("the model has 48 embedding rows"), "{error}");
}

#[test]
fn a_context_longer_than_the_model_allows_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    model_dir(temp.path());
    let mut config = config(temp.path(), temp.path());
    config.rollout_config.context_length = Some(257);
    let error = build(&config).unwrap_err().to_string();
    assert!(error.contains("rollout_config.context_length is 257: write 1 to 256"), "{error}");
}
