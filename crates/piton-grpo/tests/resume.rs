//! What a checkpoint of the learner promises.

#![allow(clippy::unwrap_used, reason = "a failure of a test should stop it where it happens")]

mod common;

use common::{batch, fit, learner, save, store, trained, worker};
use piton_checkpoint::{Checkpoint, Overwrite};
use piton_grpo::{GrpoLearner, MODEL_FILE, OPTIMIZER_FILE, PublishWeights, ROLLOUT_FILE};
use piton_run::Stop;
use piton_torch::write_safetensors;
use piton_trainer::{FitContext, FitOutcome, ResumeRequest, SaveRequest, TrainController};

fn weight_bytes(learner: &GrpoLearner) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_safetensors(learner.weights().tensors(), &std::collections::BTreeMap::new(), &mut bytes).unwrap();
    bytes
}

fn resume(learner: &mut GrpoLearner, checkpoint: &Checkpoint, model_step: u64) {
    learner.resume(ResumeRequest { checkpoint, model_step, load_optimizer_states: true }).unwrap();
}

#[test]
fn two_steps_then_two_after_a_resume_equal_four_to_the_byte() {
    for optimizer_steps in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = store(dir.path());
        let (mut whole, _) = learner(worker(optimizer_steps, 1e-2));
        for step in 1..=2 {
            fit(&mut whole, step, &batch(step));
        }
        let half = save(&mut store, &mut whole, 2, 2);
        let (mut resumed, held) = learner(worker(optimizer_steps, 1e-2));
        resume(&mut resumed, &half, 2);
        assert_eq!(held.step(), Some(2));
        for step in 3..=4 {
            fit(&mut whole, step, &batch(step));
            fit(&mut resumed, step, &batch(step));
        }
        let expected = save(&mut store, &mut whole, 4, 4);
        let found = save(&mut store_at(dir.path(), "resumed"), &mut resumed, 4, 4);
        for file in [MODEL_FILE, OPTIMIZER_FILE] {
            assert_eq!(
                expected.read(file).unwrap(),
                found.read(file).unwrap(),
                "{file}, {optimizer_steps} updates a step"
            );
        }
        assert_ne!(expected.read(MODEL_FILE).unwrap(), half.read(MODEL_FILE).unwrap());
    }
}

fn store_at(dir: &std::path::Path, name: &str) -> piton_checkpoint::Store {
    store(&dir.join(name))
}

#[test]
fn saving_twice_gives_the_same_bytes_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut learner, _) = learner(worker(1, 1e-2));
    fit(&mut learner, 1, &batch(1));
    let first = save(&mut store_at(dir.path(), "a"), &mut learner, 1, 1);
    let second = save(&mut store_at(dir.path(), "b"), &mut learner, 1, 1);
    for file in [MODEL_FILE, OPTIMIZER_FILE] {
        assert_eq!(first.read(file).unwrap(), second.read(file).unwrap());
    }
}

#[test]
fn a_rate_of_zero_leaves_the_weights_as_they_are() {
    let (mut learner, _) = learner(worker(2, 0.0));
    let before = weight_bytes(&learner);
    let metrics = trained(fit(&mut learner, 1, &batch(1)));
    assert_eq!(weight_bytes(&learner), before);
    assert_eq!(learner.updates(), 2);
    assert!(metrics["train_metrics/grad_norm"] > 0.0);
}

#[test]
fn off_the_sync_interval_the_engine_s_older_weights_are_part_of_the_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let (mut trained, held) = learner(worker(1, 1e-2));
    trained.update_weights(0).unwrap();
    let old = weight_bytes(&trained);
    fit(&mut trained, 1, &batch(1));
    let checkpoint = save(&mut store(dir.path()), &mut trained, 1, 0);
    assert_eq!(checkpoint.read(ROLLOUT_FILE).unwrap(), old);

    let (mut resumed, resumed_held) = learner(worker(1, 1e-2));
    resume(&mut resumed, &checkpoint, 0);
    assert_eq!(resumed_held.step(), Some(0));
    assert_eq!(weight_bytes(&resumed), weight_bytes(&trained));
    let (weights, _) = resumed_held.published().unwrap();
    let (expected, _) = held.published().unwrap();
    for (name, tensor) in expected.tensors() {
        assert_eq!(tensor, &weights.tensors()[name], "{name}");
    }
}

#[test]
fn a_resume_that_cannot_be_whole_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store(dir.path());
    let (mut learner, held) = learner(worker(1, 1e-2));
    let request = SaveRequest { step: 1, model_step: 1, no_save_optimizer: true };
    let checkpoint = store.save(1, Overwrite::Refuse, |stage| learner.save(stage, request)).unwrap();
    fit(&mut learner, 1, &batch(1));
    let before = weight_bytes(&learner);
    for (model_step, load_optimizer_states, named) in [(1, true, OPTIMIZER_FILE), (0, false, ROLLOUT_FILE)] {
        let request = ResumeRequest { checkpoint: &checkpoint, model_step, load_optimizer_states };
        let error = learner.resume(request).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
        assert_eq!(weight_bytes(&learner), before);
        assert_eq!(held.step(), None);
    }
    let request = ResumeRequest { checkpoint: &checkpoint, model_step: 1, load_optimizer_states: false };
    learner.resume(request).unwrap();
    assert_eq!(learner.updates(), 0);
}

#[test]
fn a_gradient_that_is_not_finite_is_skipped_and_counted() {
    let (mut learner, _) = learner(worker(2, 1e-2));
    let before = weight_bytes(&learner);
    let mut bad = batch(1);
    bad[0].advantages[0] = f32::NAN; // the first of two updates
    let metrics = trained(fit(&mut learner, 1, &bad));
    assert!((metrics["train_metrics/skipped_steps"] - 1.0).abs() < 1e-9);
    assert_eq!(learner.updates(), 1);
    assert_ne!(weight_bytes(&learner), before);
    let finite = |tensor: &tch::Tensor| tensor.isfinite().all().int64_value(&[]) == 1;
    assert!(learner.weights().tensors().values().all(finite));
}

#[test]
fn a_gradient_that_is_not_finite_can_stop_the_run_and_changes_nothing() {
    let mut config = worker(1, 1e-2);
    config.optim_cfg.on_non_finite = piton_trainer::OnNonFinite::Stop;
    let (mut learner, _) = learner(config);
    let before = weight_bytes(&learner);
    let mut bad = batch(1);
    bad[0].advantages[0] = f32::INFINITY;
    let context = FitContext { step: 1, total_train_steps: 4, stop: &Stop::manual() };
    let error = learner.fit(&bad, context).unwrap_err().to_string();
    assert!(error.contains("not finite") && error.contains("on_non_finite"), "{error}");
    assert_eq!((weight_bytes(&learner), learner.updates()), (before, 0));
    trained(fit(&mut learner, 1, &batch(1)));
}

#[test]
fn a_gradient_above_the_threshold_is_skipped() {
    let mut config = worker(1, 1e-2);
    config.optim_cfg.skip_grad_norm_threshold = Some(1e-6);
    let (mut learner, _) = learner(config);
    let before = weight_bytes(&learner);
    let metrics = trained(fit(&mut learner, 1, &batch(1)));
    assert!((metrics["train_metrics/skipped_steps"] - 1.0).abs() < 1e-9);
    assert_eq!((weight_bytes(&learner), learner.updates()), (before, 0));
}

#[test]
fn a_batch_without_a_trained_token_costs_nothing_and_is_counted() {
    let (mut learner, _) = learner(worker(1, 1e-2));
    let before = weight_bytes(&learner);
    let mut masked = batch(1);
    for sample in &mut masked {
        sample.loss_mask.fill(false);
    }
    let metrics = trained(fit(&mut learner, 1, &masked));
    assert!(metrics.values().all(|value| value.is_finite()));
    assert!(metrics["train_metrics/loss"].abs() < 1e-9);
    assert!((metrics["train_metrics/skipped_steps"] - 1.0).abs() < 1e-9);
    assert_eq!((weight_bytes(&learner), learner.updates()), (before, 0));
}

#[test]
fn weights_that_are_not_finite_are_named_and_never_saved() {
    let dir = tempfile::tempdir().unwrap();
    let (mut learner, _) = learner(worker(1, 1e-2));
    let name = "model.layers.1.self_attn.k_norm.weight";
    tch::no_grad(|| drop(learner.weights().tensors()[name].get(0).fill_(f64::NAN)));
    let request = SaveRequest { step: 1, model_step: 1, no_save_optimizer: false };
    let error =
        store(dir.path()).save(1, Overwrite::Refuse, |stage| learner.save(stage, request)).unwrap_err();
    assert!(error.to_string().contains(name), "{error}");
    let export = dir.path().join("hf");
    assert!(learner.save_hf(&export).unwrap_err().to_string().contains(name));
    assert!(!export.exists());
}

#[test]
fn a_stop_before_the_first_update_leaves_no_trace() {
    let stop = Stop::manual();
    stop.request("test");
    for optimizer_steps in [1, 2] {
        let (mut learner, _) = learner(worker(optimizer_steps, 1e-2));
        let context = FitContext { step: 1, total_train_steps: 4, stop: &stop };
        assert_eq!(learner.fit(&batch(1), context).unwrap(), FitOutcome::Stopped);
        let (mut fresh, _) = self::learner(worker(optimizer_steps, 1e-2));
        fit(&mut learner, 1, &batch(1));
        fit(&mut fresh, 1, &batch(1));
        assert_eq!(weight_bytes(&learner), weight_bytes(&fresh));
    }
}

#[test]
fn how_a_batch_is_cut_into_passes_does_not_change_the_loss() {
    let mut losses = Vec::new();
    for pack_max_length in [14, 40, 1000] {
        let mut config = worker(1, 1e-2);
        config.pack_max_length = pack_max_length;
        let (mut learner, _) = learner(config);
        let metrics = trained(fit(&mut learner, 1, &batch(1)));
        losses.push((metrics["train_metrics/loss"], metrics["train_metrics/grad_norm"]));
    }
    for (loss, norm) in &losses {
        assert!((loss - losses[0].0).abs() < 1e-5 && (norm - losses[0].1).abs() < 1e-4, "{losses:?}");
    }
}
