//! Everything against PyTorch in float64: `fixtures/golden/algo.py`.
#![cfg(feature = "serde")]
#![expect(clippy::unwrap_used, reason = "a helper of tests: a panic is the failure")]

use piton_algo::{
    AdvantageEstimator, DualClip, KlEstimator, LrConfig, Summary, TokenLoss, dual_clip_loss, kl, lr_at,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

#[derive(Deserialize)]
struct Cases<T> {
    cases: Vec<T>,
}

#[derive(Deserialize)]
struct AdvantageCase {
    estimator: AdvantageEstimator,
    rewards: Vec<f32>,
    lengths: Vec<usize>,
    advantages: Vec<f64>,
}

#[derive(Deserialize)]
struct LrCase {
    config: LrConfig,
    base_lr: f64,
    total_steps: u64,
    rates: Vec<f64>,
}

#[derive(Deserialize)]
struct Losses {
    log_probs: Vec<f64>,
    old_log_probs: Vec<f64>,
    advantages: Vec<f64>,
    policy: Vec<PolicyCase>,
    kl: Vec<KlCase>,
}

#[derive(Deserialize)]
struct PolicyCase {
    /// `cliprange_low, cliprange_high, clip_ratio_c, log_prob_diff_min, log_prob_diff_max`
    clip: [f64; 5],
    #[serde(flatten)]
    expected: Expected,
}

#[derive(Deserialize)]
struct KlCase {
    estimator: String,
    #[serde(flatten)]
    expected: Expected,
}

#[derive(Deserialize)]
struct Expected {
    value: Vec<f64>,
    gradient: Vec<f64>,
}

#[derive(Deserialize)]
struct SummaryCase {
    values: Vec<f64>,
    mean: f64,
    std: Option<f64>,
    min: f64,
    max: f64,
}

fn read<T: DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).unwrap()
}

#[track_caller]
fn check(what: &str, found: impl IntoIterator<Item = f64>, expected: &[f64], relative: f64, absolute: f64) {
    let found: Vec<f64> = found.into_iter().collect();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let tolerance = relative * expected.abs() + absolute;
        assert!((found - expected).abs() <= tolerance, "{what}, entry {at}: {found}, expected {expected}");
    }
}

/// Two roundings to `f32` are 1.2e-7.
#[test]
fn advantages_equal_pytorch() {
    let Cases::<AdvantageCase> { cases } =
        read(include_str!("../../../fixtures/golden/algo/advantages.json"));
    for case in cases {
        let found = case.estimator.compute(&case.rewards, &case.lengths).into_iter().map(f64::from);
        check(&format!("{:?} of {:?}", case.estimator, case.rewards), found, &case.advantages, 1.2e-7, 0.0);
    }
}

/// PyTorch's linear and cosine schedulers step by recurrences, which gather rounding.
#[test]
fn learning_rates_equal_pytorchs_schedulers() {
    let Cases::<LrCase> { cases } = read(include_str!("../../../fixtures/golden/algo/schedules.json"));
    for case in cases {
        let rates =
            (1..=case.total_steps).map(|step| lr_at(step, case.total_steps, case.base_lr, &case.config));
        check(&format!("{:?}", case.config), rates, &case.rates, 1e-12, 1e-18);
    }
}

fn check_losses(what: &str, found: &[TokenLoss], expected: &Expected) {
    check(&format!("{what} value"), found.iter().map(|loss| loss.value), &expected.value, 1e-12, 1e-15);
    check(
        &format!("{what} gradient"),
        found.iter().map(|loss| loss.gradient),
        &expected.gradient,
        1e-12,
        1e-15,
    );
}

#[test]
fn policy_losses_and_gradients_equal_autograd() {
    let golden: Losses = read(include_str!("../../../fixtures/golden/algo/losses.json"));
    for PolicyCase { clip, expected } in golden.policy {
        let [cliprange_low, cliprange_high, clip_ratio_c, log_prob_diff_min, log_prob_diff_max] = clip;
        let clip =
            DualClip { cliprange_low, cliprange_high, clip_ratio_c, log_prob_diff_min, log_prob_diff_max };
        let found = dual_clip_loss(&golden.log_probs, &golden.old_log_probs, &golden.advantages, &clip);
        check_losses(&format!("{clip:?}"), &found, &expected);
    }
}

#[test]
fn kl_estimates_and_gradients_equal_autograd() {
    let golden: Losses = read(include_str!("../../../fixtures/golden/algo/losses.json"));
    for KlCase { estimator, expected } in golden.kl {
        let kind = match estimator.as_str() {
            "k1" => KlEstimator::K1,
            "abs" => KlEstimator::Abs,
            "k2" => KlEstimator::K2,
            "k3" => KlEstimator::K3,
            other => panic!("no estimator {other:?}"),
        };
        check_losses(&estimator, &kl(kind, &golden.log_probs, &golden.old_log_probs), &expected);
    }
}

#[test]
fn summaries_equal_pytorch() {
    let Cases::<SummaryCase> { cases } = read(include_str!("../../../fixtures/golden/algo/summaries.json"));
    for case in cases {
        let found = Summary::of(&case.values).unwrap();
        check("mean", [found.mean], &[case.mean], 1e-14, 0.0);
        check("std", found.std, case.std.as_slice(), 1e-12, 0.0);
        check("range", [found.min, found.max], &[case.min, case.max], 0.0, 0.0);
        assert_eq!(found.count, case.values.len());
    }
}

#[test]
fn nothing_has_no_summary() {
    assert_eq!(Summary::of::<f32>(&[]), None);
}
