//! Agent loops, judgers, produce strategies and the managers that turn prompts into judged groups.

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
pub use error::{Error, LoopError};
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
