//! Agent loops, judgers, produce strategies and the managers that turn prompts into judged groups.

mod rollout;
mod sample;

pub use rollout::{
    BoxError, BoxFuture, GenerateRequest, Generation, Phase, RolloutController, RolloutMetadata, SampleParams,
};
pub use sample::{FinishReason, Group, Prompt, Reward, Sample};
