//! Seed 000, colocated half: saving and resuming through `build` and `fit` alone, on real files.

use std::path::Path;

use piton_tests::{FakeTrain, SmallRun};
use piton_trainer::RunContext;
use serde_json::{Value, json};

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn assert_checkpoint_saved_for_step(checkpoint: &Path, step: u64) {
    assert_eq!(checkpoint.file_name().unwrap().to_str().unwrap(), format!("ckpt-step-{step}"));
    assert!(checkpoint.join(FakeTrain::FILE).exists());
    assert_eq!(read_json(&checkpoint.join("train_state.json")), json!({ "cur_step": step }));
    assert_eq!(read_json(&checkpoint.join("agent_loop_manager_state.json"))["model_step"], json!(step));
}

#[test]
fn colocate_save_and_auto_resume_continue_from_latest_checkpoint() {
    let run = SmallRun::new();
    let config = SmallRun::config(run.config_json(2, false));
    let (mut trainer, recorded) = run.build(config, RunContext::default()).unwrap();
    trainer.fit().unwrap();

    let first_exp_dir = trainer.exp_dir();
    let checkpoint = SmallRun::checkpoint(&first_exp_dir, 2);
    assert_checkpoint_saved_for_step(&checkpoint, 2);
    assert_eq!(recorded().fit_steps, [1, 2]);

    let config = SmallRun::config(run.config_json(3, true));
    let (mut resumed, recorded) = run.build(config, RunContext::default()).unwrap();
    assert_eq!(resumed.exp_dir(), first_exp_dir);
    assert_eq!(recorded().resumed_from, [checkpoint]);

    resumed.fit().unwrap();

    assert_eq!(recorded().fit_steps, [3]);
    assert_checkpoint_saved_for_step(&SmallRun::checkpoint(&first_exp_dir, 3), 3);
}
