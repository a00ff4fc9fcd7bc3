//! Agent loops, judgers, produce strategies and the managers that turn prompts into judged groups.
//!
//! ```text
//!  rows ─> Task ─draw─> Prompt ─> AgentLoop ──────────────> Group { prompt, samples } ─> FIFO buffer ─> batch of a step
//!                                  │ generate    judge │                                      │
//!                          RolloutController   Judger (rayon)                ManagerState ────┘  in the checkpoint
//! ```
//!
//! An inference engine is anything that implements [`RolloutController`]; one method must be written:
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use piton_agent::*;
//!
//! struct AlwaysTwelve;
//!
//! impl RolloutController for AlwaysTwelve {
//!     fn generate(&self, _: GenerateRequest) -> BoxFuture<'_, Result<Generation, BoxError>> {
//!         let generation = Generation {
//!             response: "12".to_owned(),
//!             response_ids: vec![17, 18],
//!             logprobs: vec![-0.7, -0.1],
//!             model_steps: vec![0, 0],
//!             finish_reason: FinishReason::Stop,
//!             reward: None, // the task's judger gives it
//!         };
//!         Box::pin(async { Ok(generation) })
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
//! let config: AgentLoopManagerConfig = serde_json::from_value(serde_json::json!({ "tasks": {
//!     "task_name": "sums",
//!     "agent_loop_config": { "type": "single_turn" },
//!     "judger_config": { "type": "rule" },
//!     "sampler_config": { "prompt_repeat_k": 8, "dataloader_cfg": { "dataset_config_list": [
//!         { "dataset": { "anno_path": fixtures.join("prompts/chain_sum/heldout.jsonl") } },
//!     ] } },
//! } }))?;
//! let context = ManagerContext {
//!     rollout: Arc::new(AlwaysTwelve),
//!     tokenizer_path: &fixtures.join("models/chain-sum"),
//!     seed: 42,
//!     group_timeout: Duration::from_secs(60),
//! };
//! let mut manager = ColocateManager::build(&config, &context, &mut Tokenizers::default())?;
//! let never = || false; // asked every few milliseconds whether to stop
//! let ProduceOutcome::Batch(batch) = manager.produce_batch(4, 1, &never)? else { return Ok(()) };
//! assert_eq!(batch.groups.len(), 4);
//! for group in &batch.groups {
//!     let right = label(&group.prompt.row) == "12";
//!     assert_eq!(group.samples.len(), 8);
//!     assert!(group.samples.iter().all(|sample| (sample.reward.score == 1.0) == right));
//! }
//! assert_eq!(manager.state().samplers["sums"].position, 4); // what a checkpoint needs of it
//! # Ok(())
//! # }
//! ```
//!
//! A group that fails (the engine, the judger, a timeout) is dropped, counted and replaced by the next prompt; group after group
//! failing ends the run with the last cause. Ids are counters that never restart and a batch is in their order, so neither the
//! order in which responses come back nor a restart changes what is trained on.
//!
//! # What it does not do
//!
//! It has no tensors, computes no advantage, and writes no file: the state leaves as a value. It opens no connection: an engine
//! behind a network is a [`RolloutController`] of yours. A judger computes, it does not wait. Multi-turn loops with tools, and
//! producing ahead of the trainer, are not here yet.

mod agent_loop;
mod allocate;
mod config;
mod error;
mod judge;
mod manager;
mod produce;
mod rollout;
mod sample;
mod task;

pub use agent_loop::{AgentLoop, LoopContext, LoopOutcome, SingleTurnAgentLoop};
pub use allocate::allocate;
pub use config::{
    AgentLoopConfig, AgentLoopManagerConfig, DataloaderConfig, DatasetConfig, DatasetEntry, JudgerConfig,
    ProduceStrategyConfig, RuleJudgerConfig, SamplerConfig, SingleTurnAgentLoopConfig, TaskSpecConfig,
    TokenizeConfig,
};
pub use error::{Error, LoopError, error_chain};
pub use judge::{Judger, RuleJudger, label};
pub use manager::{
    BUFFER_CAPACITY, ColocateManager, ManagerContext, ManagerState, ProduceOutcome, ProduceStats, Produced,
};
pub use produce::StopFlag;
pub use rollout::{
    BoxError, BoxFuture, GenerateRequest, Generation, Phase, RolloutController, RolloutMetadata, SampleParams,
};
pub use sample::{FinishReason, Group, Prompt, Reward, Sample};
pub use task::Tokenizers;
