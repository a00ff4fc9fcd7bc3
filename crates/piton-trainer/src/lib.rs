//! The step loops over a train controller and a rollout controller: produce, train, publish, evaluate, record, save, resume.
//!
//! ```text
//!  produce ─> train ─> publish weights ─> evaluate ─> trajectories, one tracker line ─> checkpoint N ─> export
//!     │         │             │           when due                                        when due     when due
//!     │   TrainController     │                                                              │
//!  RolloutController <────────┘                   <work_dir>/<time>/checkpoints/ckpt-step-N/ ┘  complete or absent
//! ```
//!
//! Bring your own learner and engine; here the smallest ones, which learn nothing and answer "12":
//!
//! ```
//! use std::{path::Path, sync::Arc};
//! use piton_agent::{BoxError, BoxFuture, FinishReason, GenerateRequest, Generation, RolloutController};
//! use piton_checkpoint::Stage;
//! use piton_trainer::*;
//!
//! struct Engine;
//! impl RolloutController for Engine {
//!     fn generate(&self, _: GenerateRequest) -> BoxFuture<'_, Result<Generation, BoxError>> {
//!         let (response_ids, logprobs, model_steps) = (vec![17, 18], vec![-0.7, -0.1], vec![0, 0]);
//!         let (response, finish_reason) = ("12".to_owned(), FinishReason::Stop);
//!         let generation = Generation { response, response_ids, logprobs, model_steps, finish_reason, reward: None };
//!         Box::pin(async { Ok(generation) })
//!     }
//! }
//!
//! struct Learner;
//! impl TrainController for Learner {
//!     fn fit(&mut self, batch: &[TrainSample], _: FitContext<'_>) -> Result<FitOutcome, BoxError> {
//!         Ok(FitOutcome::Trained([("train/samples".to_owned(), batch.len() as f64)].into()))
//!     }
//!     fn save(&mut self, stage: &mut Stage, request: SaveRequest) -> Result<(), BoxError> {
//!         Ok(stage.write("weights.txt", request.step.to_string().as_bytes())?)
//!     }
//!     fn resume(&mut self, request: ResumeRequest<'_>) -> Result<(), BoxError> {
//!         request.checkpoint.read("weights.txt").map(drop).map_err(Into::into)
//!     }
//!     fn save_hf(&mut self, _dir: &Path) -> Result<(), BoxError> { Ok(()) }
//!     fn update_weights(&mut self, _model_step: u64) -> Result<(), BoxError> { Ok(()) }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
//! # let dir = tempfile::tempdir()?;
//! # let work_dir = dir.path();
//! let config: ColocateTrainerConfig = serde_json::from_value(serde_json::json!({
//!     "load_from": fixtures.join("models/chain-sum"), // the tokenizer is taken from here
//!     "total_train_steps": 2,
//!     "train_batch_size": 4,
//!     "enable_evaluate": false,
//!     "work_dir": work_dir,
//!     "train_worker_cfg": { "pack_max_length": 4096, "loss_cfg": { "policy_loss_cfg": {
//!         "loss_type": "vanilla", "cliprange_low": 0.2, "cliprange_high": 0.2 } } },
//!     "agent_loop_manager_cfg": { "tasks": {
//!         "task_name": "sums",
//!         "agent_loop_config": { "type": "single_turn", "sample_params": { "max_tokens": 8 } },
//!         "judger_config": { "type": "rule" },
//!         "sampler_config": { "prompt_repeat_k": 8, "dataloader_cfg": { "dataset_config_list": [
//!             { "dataset": { "anno_path": fixtures.join("prompts/chain_sum/train.jsonl") } } ] } } } },
//! }))?;
//! let controllers = Controllers { train: Box::new(Learner), rollout: Arc::new(Engine) };
//! let mut trainer = config.build_with(controllers, RunContext::default())?;
//! let report = trainer.fit()?;
//! assert_eq!(report.last_metrics["train/samples"], 32.0);
//! assert!(report.checkpoint.is_some_and(|path| path.ends_with("checkpoints/ckpt-step-2")));
//! # Ok(())
//! # }
//! ```
//!
//! The last step and a stop always save. `auto_resume` goes on from the newest valid checkpoint and does the steps after it again,
//! with the same result to the byte where the controllers keep their part: same state, same bytes.
//!
//! # What it does not do
//!
//! It has no tensors and no model: `piton-grpo` has. It draws no progress bar and reads no command line: `piton` does, from
//! [`ProgressEvent`]s. It catches no signal: whoever makes the [`RunContext`] hands it a stop. Rollout and training take turns;
//! the disaggregated loop is not here yet.

mod batch;
mod colocate;
mod commit;
mod config;
mod context;
mod controller;
mod error;
mod evaluate;
mod export;
mod fit;
mod lengths;
mod metrics;
mod open;
mod progress;
mod run_config;
mod state;
mod trajectory;

pub use batch::train_samples;
pub use colocate::ColocateTrainer;
pub use config::*;
pub use context::{Controllers, FitReport, RunContext};
pub use controller::{
    FitContext, FitOutcome, ResumeRequest, SaveRequest, Target, TrainController, TrainSample,
};
pub use error::Error;
pub use metrics::{VOLATILE_PREFIXES, is_volatile};
pub use progress::{Progress, ProgressEvent, Silent};
