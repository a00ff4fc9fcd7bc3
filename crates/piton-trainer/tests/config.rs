//! The configuration: what is legal, and what is said about the rest.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails like the test")]

use insta::assert_snapshot;
use piton_trainer::{ColocateTrainerConfig, Interval, MaxKeep};
use serde_json::{Value, json};

/// Everything that has no default.
fn smallest() -> Value {
    json!({
        "load_from": "model",
        "total_train_steps": 4,
        "train_batch_size": 2,
        "enable_evaluate": false,
        "train_worker_cfg": {
            "pack_max_length": 64,
            "loss_cfg": { "policy_loss_cfg": { "loss_type": "vanilla", "cliprange_low": 0.2, "cliprange_high": 0.2 } },
        },
        "agent_loop_manager_cfg": { "tasks": {
            "task_name": "sums",
            "agent_loop_config": { "type": "single_turn" },
            "sampler_config": { "dataloader_cfg": { "dataset_config_list": [{ "dataset": { "anno_path": "sums.jsonl" } }] } },
        } },
    })
}

/// The smallest configuration with these keys, by JSON pointer.
fn with(keys: &[(&str, Value)]) -> ColocateTrainerConfig {
    let mut config = smallest();
    for (pointer, value) in keys {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        config.pointer_mut(parent).unwrap()[name] = value.clone();
    }
    serde_json::from_value(config).unwrap()
}

fn faults(keys: &[(&str, Value)]) -> String {
    with(keys).check().unwrap_err().join("\n")
}

#[test]
fn the_smallest_configuration_is_legal_and_so_is_a_learning_rate_of_zero() {
    assert_eq!(with(&[]).check(), Ok(()));
    assert_eq!(with(&[("/train_worker_cfg/optim_cfg", json!({ "lr": 0.0 }))]).check(), Ok(()));
}

#[test]
fn every_fault_is_reported_at_once() {
    let keys = [
        ("/train_batch_size", json!(0)),
        ("/total_train_steps", json!(0)),
        ("/sync_weights_interval", json!(0)),
        ("/evaluate_step", json!(0)),
        ("/threads", json!(0)),
        ("/enable_evaluate", json!(true)),
        ("/evaluator_config", json!({ "eval_sample_ratio": 2.0 })),
        ("/rollout_config", json!({ "rollout_timeout": 0.0, "rollout_max_batch_size_per_instance": 0 })),
        ("/train_worker_cfg/optimizer_steps", json!(0)),
        ("/train_worker_cfg/pack_max_length", json!(0)),
        ("/train_worker_cfg/optim_cfg", json!({ "lr": -1.0, "betas": [0.9, 1.0] })),
        ("/agent_loop_manager_cfg/tasks/sampler_config/prompt_repeat_k", json!(0)),
    ];
    assert_snapshot!(faults(&keys), @"
    train_batch_size is 0: write the number of groups a step trains on
    total_train_steps is 0: write a positive number
    sync_weights_interval is 0: write 1 to publish weights after every step
    evaluate_step is 0: write a positive number, or enable_evaluate = false
    threads is 0: write a positive number, or leave the key out to use every core
    enable_evaluate is on and eval_agent_loop_manager_cfg is missing: write it, or enable_evaluate = false
    evaluator_config.eval_sample_ratio is 2: write a number from 0 to 1
    rollout_config.rollout_timeout is 0.0: write a number of seconds above 0, such as 1200
    rollout_config.rollout_max_batch_size_per_instance is 0: write a positive number
    train_worker_cfg.optim_cfg.lr is -1: write 0 or a positive number, such as 1e-5
    train_worker_cfg.optim_cfg.betas[1] is 1: write a number from 0 to below 1
    train_worker_cfg.optimizer_steps is 0: write the number of updates per train step, 1 or more
    train_worker_cfg.pack_max_length is 0: write the number of tokens one forward pass may have
    agent_loop_manager_cfg.tasks[0].sampler_config.prompt_repeat_k is 0: write the group size, at least 1
    ");
}

#[test]
fn intervals_are_multiples_of_the_sync_interval() {
    let keys = [
        ("/sync_weights_interval", json!(4)),
        ("/checkpoint_interval", json!(6)),
        ("/hf_interval", json!(1)),
        ("/evaluate_step", json!(3)), // evaluation is off: it does not matter
    ];
    assert_snapshot!(faults(&keys), @"
    checkpoint_interval is 6, not a multiple of sync_weights_interval (4): write 4 or 8
    hf_interval is 1, not a multiple of sync_weights_interval (4): write 4
    ");
    let off = [
        ("/sync_weights_interval", json!(4)),
        ("/checkpoint_interval", json!(-1)),
        ("/hf_interval", json!(8)),
    ];
    assert_eq!(with(&off).check(), Ok(()));
}

#[test]
fn a_run_without_a_length_is_refused_and_a_length_in_epochs_taken() {
    assert_snapshot!(faults(&[("/total_train_steps", Value::Null)]), @"neither total_train_steps nor total_epochs is given: write one of them");
    assert_eq!(with(&[("/total_train_steps", Value::Null), ("/total_epochs", json!(2))]).check(), Ok(()));
}

#[test]
fn a_timeout_that_cannot_be_waited_for_is_refused() {
    assert_snapshot!(faults(&[("/rollout_config", json!({ "rollout_timeout": 1e300 }))]), @"rollout_config.rollout_timeout is 1e300: write a number of seconds above 0, such as 1200");
}

#[test]
fn retention_is_a_positive_number_or_all() {
    let keep = |value: Value| serde_json::from_value::<MaxKeep>(value).map_err(|error| error.to_string());
    assert_eq!(keep(json!("all")), Ok(MaxKeep::All));
    assert_eq!(keep(json!(2)).map(|keep| serde_json::to_value(keep).unwrap()), Ok(json!(2)));
    assert_eq!(serde_json::to_value(MaxKeep::default()).unwrap(), json!(3), "a long run cannot fill a disk");
    assert_snapshot!(keep(json!(0)).unwrap_err(), @r#"0 checkpoints cannot be kept: write "all" to keep every one, or a positive number"#);
    assert_snapshot!(keep(json!(-1)).unwrap_err(), @r#"-1 checkpoints cannot be kept: write "all" to keep every one, or a positive number"#);
    assert_snapshot!(keep(json!("none")).unwrap_err(), @r#""none" is not a retention: write "all" or a positive number"#);
    assert_snapshot!(keep(json!(1.5)).unwrap_err(), @r#"invalid type: floating point `1.5`, expected a positive number of checkpoints, or "all""#);
}

#[test]
fn an_interval_is_a_positive_number_or_minus_one() {
    let interval =
        |value: Value| serde_json::from_value::<Interval>(value).map_err(|error| error.to_string());
    assert_eq!(interval(json!(-1)), Ok(Interval::OFF));
    let every_third = interval(json!(3)).unwrap();
    assert_eq!((0..8).filter(|&step| every_third.is_due(step)).collect::<Vec<_>>(), [3, 6]);
    assert!((0..8).all(|step| !Interval::OFF.is_due(step)));
    assert_snapshot!(interval(json!(0)).unwrap_err(), @"0 is not an interval: write a positive number of steps, or -1 (or leave the key out) for never");
    assert_snapshot!(interval(json!(-2)).unwrap_err(), @"-2 is not an interval: write a positive number of steps, or -1 (or leave the key out) for never");
}
