//! A run small enough for a test: eight real rows, a real tokenizer, two samples a prompt.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use piton_trainer::{ColocateTrainer, ColocateTrainerConfig, Controllers, Error, RunContext};
use serde_json::json;

use crate::{FakeRollout, FakeTrain, Recorded, fixtures};

/// A work_dir with its data file.
#[derive(Debug)]
pub struct SmallRun {
    dir: tempfile::TempDir,
}

impl SmallRun {
    /// A fresh directory with eight rows in it.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("the machine has a temporary directory");
        let rows: String = (0..8)
            .map(|index| {
                let row = json!({
                    "data_source": "unit",
                    "prompt": [{"role": "user", "content": format!("question {index}?")}],
                    "reward_model": {"style": "rule", "ground_truth": "ok"},
                    "extra_info": {"index": index},
                });
                format!("{row}\n")
            })
            .collect();
        std::fs::write(dir.path().join("rollout_data.jsonl"), rows)
            .expect("the temporary directory is writable");
        Self { dir }
    }

    /// The run's directory.
    pub fn work_dir(&self) -> PathBuf {
        self.dir.path().join("work_dir")
    }

    /// The data file.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("rollout_data.jsonl")
    }

    /// The configuration of seed 000, colocated half, as JSON to be changed and parsed.
    pub fn config_json(&self, total_train_steps: u64, auto_resume: bool) -> serde_json::Value {
        json!({
            "load_from": fixtures().join("models/chain-sum"),
            "total_train_steps": total_train_steps,
            "train_batch_size": 1,
            "sync_weights_interval": 1,
            "enable_evaluate": false,
            "enable_initial_evaluate": false,
            "work_dir": self.work_dir(),
            "auto_resume": auto_resume,
            "checkpoint_interval": 1,
            "checkpoint_no_save_replay_buffer": true,
            "hf_interval": -1,
            "seed": 42,
            "exp_tracker": "jsonl",
            "train_worker_cfg": {
                "optim_cfg": {"lr": 1e-6, "weight_decay": 0.0},
                "loss_cfg": {"policy_loss_cfg": {"loss_type": "vanilla", "cliprange_low": 0.2, "cliprange_high": 0.2}},
                "lr_cfg": {"lr_type": "constant", "warmup_ratio": 0.0, "lr_min": 1e-6},
                "optimizer_steps": 1,
                "pack_max_length": 256,
            },
            "rollout_config": {"context_length": 256, "model_name": "unit-test"},
            "agent_loop_manager_cfg": {"tasks": [{
                "task_name": "unit_task",
                "agent_loop_config": {
                    "type": "single_turn",
                    "sample_params": {"max_tokens": 2, "temperature": 0.0, "top_k": 1},
                },
                "produce_strategy_config": {"type": "sync"},
                "sampler_config": {
                    "dataloader_cfg": {"dataset_config_list": [{
                        "dataset": {
                            "name": "unit",
                            "anno_path": self.data(),
                            "enable_sequential_sampler": true,
                            "disable_filter": true,
                        },
                        "tokenize_fn": {"max_length": 128},
                    }]},
                    "prompt_repeat_k": 2,
                },
            }]},
        })
    }

    /// Parses a configuration.
    ///
    /// # Panics
    /// When it does not parse: that is a fault of the test.
    pub fn config(json: serde_json::Value) -> ColocateTrainerConfig {
        serde_json::from_value(json).expect("the test's configuration parses")
    }

    /// Builds a trainer on fresh fakes.
    ///
    /// # Errors
    /// What building says.
    pub fn build(
        &self,
        config: ColocateTrainerConfig,
        context: RunContext,
    ) -> Result<(ColocateTrainer, impl Fn() -> Recorded + use<>), Error> {
        let train = FakeTrain::default();
        let recorded = train.recorded();
        let controllers = Controllers { train: Box::new(train), rollout: Arc::new(FakeRollout) };
        Ok((config.build_with(controllers, context)?, recorded))
    }

    /// `<exp_dir>/checkpoints/ckpt-step-<step>`.
    pub fn checkpoint(exp_dir: &Path, step: u64) -> PathBuf {
        exp_dir.join(format!("checkpoints/ckpt-step-{step}"))
    }
}

impl Default for SmallRun {
    fn default() -> Self {
        Self::new()
    }
}
