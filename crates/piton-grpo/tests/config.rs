//! The worker's configuration, as a recipe writes it.

#![allow(clippy::unwrap_used, reason = "a failure of a test should stop it where it happens")]

use piton_trainer::{KlLossType, LrType, WorkerConfig};

fn parse(json: &str) -> Result<WorkerConfig, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// The least a recipe must say.
const LEAST: &str = r#"{"pack_max_length": 64,
    "loss_cfg": {"policy_loss_cfg": {"cliprange_low": 0.2, "cliprange_high": 0.28}}}"#;

#[test]
fn what_is_left_out_is_the_reference_s_default() {
    let config = parse(LEAST).unwrap();
    config.check().unwrap();
    let found = serde_json::to_value(&config).unwrap();
    let expected = serde_json::json!({
        "optim_cfg": {"lr": 1e-5, "weight_decay": 0.01, "betas": [0.9, 0.95], "eps": 1e-8, "max_grad_norm": 1.0,
            "on_non_finite": "skip"},
        "lr_cfg": {"lr_type": "constant", "warmup_ratio": 0.03, "lr_min": 1e-6},
        "loss_cfg": {
            "policy_loss_cfg": {
                "loss_type": "vanilla", "cliprange_low": 0.2, "cliprange_high": 0.28,
                "clip_ratio_c": 3.0, "log_prob_diff_min": -20.0, "log_prob_diff_max": 20.0,
            },
            "use_kl_loss": false, "kl_loss_coef": 0.001,
        },
        "optimizer_steps": 1, "pack_max_length": 64,
    });
    assert_eq!(found, expected);
}

#[test]
fn the_reference_s_names_of_estimators_and_shapes_are_read() {
    for (name, kind) in [
        ("kl", KlLossType::K1),
        ("k1", KlLossType::K1),
        ("abs", KlLossType::Abs),
        ("mse", KlLossType::K2),
        ("k2", KlLossType::K2),
        ("low_var_kl", KlLossType::K3),
        ("k3", KlLossType::K3),
    ] {
        let text = LEAST.replace(r#""loss_cfg": {"#, &format!(r#""loss_cfg": {{"kl_loss_type": "{name}", "#));
        assert_eq!(parse(&text).unwrap().loss_cfg.kl_loss_type, Some(kind));
    }
    let text = LEAST.replacen('{', r#"{"lr_cfg": {"lr_type": "cosine"}, "#, 1);
    assert_eq!(parse(&text).unwrap().lr_cfg.lr_type, LrType::Cosine);
}

#[test]
fn an_unknown_key_is_refused() {
    let error = parse(&LEAST.replace("pack_max_length", "pack_max_len")).unwrap_err();
    assert!(error.contains("unknown field `pack_max_len`"), "{error}");
}

#[test]
fn a_rate_of_zero_is_legal() {
    let mut config = parse(LEAST).unwrap();
    config.optim_cfg.lr = 0.0;
    config.check().unwrap();
}

#[test]
fn every_bad_field_is_named_at_once() {
    let mut config = parse(LEAST).unwrap();
    config.optim_cfg.lr = -1.0;
    config.optim_cfg.betas[1] = 1.0;
    config.lr_cfg.warmup_ratio = 2.0;
    config.loss_cfg.policy_loss_cfg.clip_ratio_c = 1.0;
    config.loss_cfg.use_kl_loss = true;
    config.optimizer_steps = 0;
    assert_eq!(
        config.check().unwrap_err(),
        [
            "optim_cfg.lr is -1: write 0 or a positive number, such as 1e-5",
            "optim_cfg.betas[1] is 1: write a number from 0 to below 1",
            "lr_cfg.warmup_ratio is 2: write a number from 0 to 1",
            "loss_cfg.policy_loss_cfg.clip_ratio_c is 1: write a number above 1, such as 3",
            "loss_cfg.kl_loss_type is absent but use_kl_loss is true: write \"k1\", \"abs\", \"k2\" or \"k3\"",
            "optimizer_steps is 0: write the number of updates per train step, 1 or more",
        ]
    );
}
