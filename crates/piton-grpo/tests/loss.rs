//! Losses and their gradients against PyTorch's autograd in float64 (fixtures/golden/grpo/loss.py), and the references on
//! slices in piton-algo against the same numbers.

#![allow(clippy::unwrap_used, reason = "a failure of a test should stop it where it happens")]

use piton_algo::{DualClip, KlEstimator, TokenLoss, dual_clip_loss, kl};
use piton_grpo::loss::{kl_loss, policy_loss};
use piton_trainer::{KlLossType, PolicyLossConfig, PolicyLossType};
use serde::Deserialize;
use tch::{Kind, Tensor};

#[derive(Deserialize)]
struct Golden {
    log_probs: Vec<f64>,
    old_log_probs: Vec<f64>,
    advantages: Vec<f64>,
    policy: Vec<PolicyCase>,
    kl: Vec<KlCase>,
}

#[derive(Deserialize)]
struct PolicyCase {
    cliprange_low: f64,
    cliprange_high: f64,
    clip_ratio_c: f64,
    log_prob_diff_min: f64,
    log_prob_diff_max: f64,
    loss: Vec<f64>,
    gradient: Vec<f64>,
}

#[derive(Deserialize)]
struct KlCase {
    kl_loss_type: KlLossType,
    loss: Vec<f64>,
    gradient: Vec<f64>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../../../fixtures/golden/grpo/loss.json")).unwrap()
}

/// Value and gradient of a loss per token, in both precisions: equal to the golden to 1e-12 in f64 and 2e-5 in f32, relative
/// to 1 or the value if larger (f32 holds exp(19) to 1e-7, and the difference of logarithms in it to 2e-6).
fn check(loss_of: impl Fn(&Tensor, &Tensor, &Tensor) -> Tensor, loss: &[f64], gradient: &[f64]) {
    let golden = golden();
    for (kind, tolerance) in [(Kind::Double, 1e-12), (Kind::Float, 2e-5)] {
        let tensor = |values: &[f64]| Tensor::from_slice(values).to_kind(kind);
        let log_probs = tensor(&golden.log_probs).set_requires_grad(true);
        let found = loss_of(&log_probs, &tensor(&golden.old_log_probs), &tensor(&golden.advantages));
        found.sum(kind).backward();
        for (what, found, expected) in [("loss", &found, loss), ("gradient", &log_probs.grad(), gradient)] {
            let found: Vec<f64> = Vec::try_from(found.to_kind(Kind::Double)).unwrap();
            assert_eq!(found.len(), expected.len());
            for (token, (found, expected)) in found.iter().zip(expected).enumerate() {
                let error = (found - expected).abs() / expected.abs().max(1.0);
                assert!(error <= tolerance, "{kind:?} {what} of token {token}: {found}, expected {expected}");
            }
        }
    }
}

#[test]
fn the_policy_loss_and_its_gradient_equal_pytorch() {
    for case in golden().policy {
        let config = PolicyLossConfig {
            loss_type: PolicyLossType::Vanilla,
            cliprange_low: case.cliprange_low,
            cliprange_high: case.cliprange_high,
            clip_ratio_c: case.clip_ratio_c,
            log_prob_diff_min: case.log_prob_diff_min,
            log_prob_diff_max: case.log_prob_diff_max,
        };
        check(|lp, old, a| policy_loss(lp, old, a, &config).unwrap(), &case.loss, &case.gradient);
    }
}

#[test]
fn every_kl_estimator_and_its_gradient_equal_pytorch() {
    for case in golden().kl {
        check(
            |lp, reference, _| kl_loss(lp, reference, case.kl_loss_type).unwrap(),
            &case.loss,
            &case.gradient,
        );
    }
}

/// The reference on slices gives the golden's values and gradients to 1e-12, relative to 1 or the value if larger.
fn check_slices(found: &[TokenLoss], loss: &[f64], gradient: &[f64]) {
    assert_eq!(found.len(), loss.len());
    for (token, found) in found.iter().enumerate() {
        for (found, expected) in [(found.value, loss[token]), (found.gradient, gradient[token])] {
            let error = (found - expected).abs() / expected.abs().max(1.0);
            assert!(error <= 1e-12, "token {token}: {found}, expected {expected}");
        }
    }
}

#[test]
fn the_references_on_slices_equal_pytorch_too() {
    let golden = golden();
    for case in &golden.policy {
        let clip = DualClip {
            cliprange_low: case.cliprange_low,
            cliprange_high: case.cliprange_high,
            clip_ratio_c: case.clip_ratio_c,
            log_prob_diff_min: case.log_prob_diff_min,
            log_prob_diff_max: case.log_prob_diff_max,
        };
        let found = dual_clip_loss(&golden.log_probs, &golden.old_log_probs, &golden.advantages, &clip);
        check_slices(&found, &case.loss, &case.gradient);
    }
    for case in &golden.kl {
        let estimator = match case.kl_loss_type {
            KlLossType::K1 => KlEstimator::K1,
            KlLossType::Abs => KlEstimator::Abs,
            KlLossType::K2 => KlEstimator::K2,
            KlLossType::K3 => KlEstimator::K3,
        };
        check_slices(&kl(estimator, &golden.log_probs, &golden.old_log_probs), &case.loss, &case.gradient);
    }
}
