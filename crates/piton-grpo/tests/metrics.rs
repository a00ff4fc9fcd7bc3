//! The figures of a train step, against arithmetic by hand.

use piton_grpo::metrics::{StepMetrics, UpdateFigures};
use piton_trainer::{PolicyLossConfig, PolicyLossType};

const CONFIG: PolicyLossConfig = PolicyLossConfig {
    loss_type: PolicyLossType::Vanilla,
    cliprange_low: 0.2,
    cliprange_high: 0.2,
    clip_ratio_c: 3.0,
    log_prob_diff_min: -20.0,
    log_prob_diff_max: 20.0,
};

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-7
}

#[test]
fn token_figures_follow_their_formulas() {
    let ln2 = std::f32::consts::LN_2;
    let mut metrics = StepMetrics::default();
    // ratios 2, 1/2, 1, 1; old - rollout: 0, 0, ln 2, -ln 2
    metrics.add_tokens(&[-1.0 + ln2, -1.0 - ln2], &[-1.0, -1.0], &[-1.0, -1.0], &CONFIG);
    metrics.add_tokens(&[-2.0, -2.0], &[-2.0, -2.0], &[-2.0 - ln2, -2.0 + ln2], &CONFIG);
    let found = metrics.finish();
    let ln2 = f64::from(ln2);
    for (name, expected) in [
        ("train_metrics/tokens", 4.0),
        ("entropy/train", 1.5),
        ("entropy/rollout", 1.5),
        ("mismatch/mismatch_kl", 0.0),
        ("mismatch/mismatch_logprob_abs_diff", ln2 / 2.0),
        // (2 - 1 - ln 2) + (1/2 - 1 + ln 2) = 1/2
        ("mismatch/mismatch_k3_kl", 0.125),
        ("train_metrics/reduced_train_policy_kl1", 0.0),
        ("train_metrics/reduced_train_policy_kl3", 0.125),
        ("train_metrics/reduced_train_policy_ratio_abs_dev_mean", (1.0 + 0.5) / 4.0),
        ("train_metrics/reduced_train_policy_ratio_max", 2.0),
        ("train_metrics/reduced_train_policy_ratio_min", 0.5),
        ("train_metrics/reduced_train_policy_clip_frac_low", 0.25),
        ("train_metrics/reduced_train_policy_clip_frac_high", 0.25),
    ] {
        assert!(close(found[name], expected), "{name}: {}, expected {expected}", found[name]);
    }
}

#[test]
fn a_skipped_update_counts_and_its_infinite_norm_does_not_spoil_the_mean() {
    let mut metrics = StepMetrics::default();
    let update = UpdateFigures { loss: 1.0, kl: None, grad_norm: 0.5, lr: 1e-3, applied: true };
    metrics.add_update(update);
    metrics.add_update(UpdateFigures { loss: f64::NAN, grad_norm: f64::INFINITY, applied: false, ..update });
    let found = metrics.finish();
    assert!(close(found["train_metrics/skipped_steps"], 1.0));
    assert!(close(found["train_metrics/loss"], 1.0));
    assert!(close(found["train_metrics/grad_norm"], 0.5));
    assert!(!found.contains_key("train_metrics/kl_loss"));
}
