//! One whole train step against transformers and PyTorch in float64: fixtures/golden/grpo/update.py.

#![allow(clippy::unwrap_used, reason = "a failure of a test should stop it where it happens")]

mod common;

use common::{GoldenStep, fit, fixtures, learner, trained, worker};
use piton_torch::read_safetensors_file;
use piton_trainer::{KlLossType, TrainSample};

#[test]
fn a_step_of_two_updates_ends_with_the_weights_that_pytorch_ends_with() {
    let dir = fixtures().join("golden/grpo/update");
    let golden: GoldenStep = serde_json::from_slice(&std::fs::read(dir.join("step.json")).unwrap()).unwrap();
    let mut config = worker(2, golden.settings.lr);
    config.loss_cfg.use_kl_loss = true;
    config.loss_cfg.kl_loss_coef = golden.settings.kl_loss_coef;
    config.loss_cfg.kl_loss_type = Some(KlLossType::K3);
    let (mut learner, _) = learner(config);
    let batch: Vec<TrainSample> = golden
        .batch
        .into_iter()
        .map(|sample| TrainSample {
            group_id: sample.group_id,
            rollout_id: 0,
            tokens: sample.tokens,
            prompt_len: sample.prompt_len,
            loss_mask: sample.loss_mask,
            advantages: sample.advantages,
            rollout_log_probs: sample.rollout_log_probs,
        })
        .collect();

    let metrics = trained(fit(&mut learner, 1, &batch));

    let mean =
        |figure: fn(&common::GoldenUpdate) -> f64| golden.updates.iter().map(figure).sum::<f64>() / 2.0;
    for (name, expected) in
        [("loss", mean(|update| update.loss)), ("grad_norm", mean(|update| update.grad_norm))]
    {
        let found = metrics[&format!("train_metrics/{name}")];
        assert!((found - expected).abs() < 1e-4, "{name}: {found}, expected {expected}");
    }
    // the golden's rollout log-probabilities are those of the starting model
    assert!(metrics["mismatch/mismatch_logprob_abs_diff"] < 1e-5);
    assert!(metrics["train_metrics/skipped_steps"].abs() < 1e-9);

    let after = read_safetensors_file(&dir.join("after.safetensors")).unwrap().tensors;
    let before = common::tiny_model().weights;
    for (name, expected) in &after {
        let far = |tensor: &tch::Tensor| (tensor.detach() - expected).abs().max().double_value(&[]);
        let error = far(&learner.weights().tensors()[name]);
        assert!(error < 1e-5, "{name} is off by {error}");
        // and the step is a hundred times larger than that
        assert!(far(&before.tensors()[name]) > 1e-3, "{name} did not move");
    }
}
