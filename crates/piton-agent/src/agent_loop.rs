//! The loop that turns one prompt into a judged group.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::error::LoopError;
use crate::judge::{self, Judger};
use crate::rollout::{BoxFuture, GenerateRequest, Generation, Phase, RolloutController, SampleParams};
use crate::sample::{FinishReason, Group, Prompt, Sample};

/// What a loop works with.
#[derive(Clone)]
pub struct LoopContext {
    /// The engine.
    pub rollout: Arc<dyn RolloutController>,
    /// Training or evaluation.
    pub phase: Phase,
    /// Group size.
    pub prompt_repeat_k: usize,
}

impl std::fmt::Debug for LoopContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoopContext").field("phase", &self.phase).field("k", &self.prompt_repeat_k).finish()
    }
}

/// How one prompt ended.
#[derive(Debug, Clone, PartialEq)]
pub enum LoopOutcome {
    /// Every sample is finished and judged.
    Finished(Group),
    /// The engine was paused; nothing of the group is kept.
    Aborted,
}

/// Turns a prompt into a group of judged samples.
pub trait AgentLoop: Send + Sync {
    /// Runs the loop for one prompt.
    fn run<'a>(
        &'a self,
        prompt: Prompt,
        context: &'a LoopContext,
    ) -> BoxFuture<'a, Result<LoopOutcome, LoopError>>;
}

/// One prompt, one response: generates the group's samples at once, then judges them.
pub struct SingleTurnAgentLoop {
    params: Arc<SampleParams>,
    judger: Option<Arc<dyn Judger>>,
}

impl std::fmt::Debug for SingleTurnAgentLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SingleTurnAgentLoop").field("params", &self.params).finish_non_exhaustive()
    }
}

impl SingleTurnAgentLoop {
    /// A loop that samples with `params`; without a judger the engine's own rewards are taken.
    pub fn new(params: SampleParams, judger: Option<Arc<dyn Judger>>) -> Self {
        Self { params: Arc::new(params), judger }
    }

    async fn sample(
        &self,
        prompt: &Prompt,
        index: usize,
        context: &LoopContext,
    ) -> Result<Option<Sample>, LoopError> {
        let rollout_id = prompt.group_id * context.prompt_repeat_k as u64 + index as u64;
        let request = GenerateRequest {
            task: Arc::from(prompt.task.as_str()),
            phase: context.phase,
            group_id: prompt.group_id,
            rollout_id,
            index: index as u64,
            prompt_ids: Arc::clone(&prompt.prompt_ids),
            params: Arc::clone(&self.params),
        };
        let generation = context
            .rollout
            .generate(request)
            .await
            .map_err(|source| LoopError::Generate { rollout_id, source })?;
        if generation.finish_reason == FinishReason::Abort {
            return Ok(None);
        }
        check(rollout_id, &generation)?;
        let reward = match (&self.judger, generation.reward) {
            (Some(judger), _) => {
                let response = generation.response.clone();
                judge::judge(Arc::clone(judger), response, Arc::clone(&prompt.row), rollout_id).await?
            }
            (None, Some(reward)) => reward,
            (None, None) => {
                let reason = "the task has no judger_config and the controller gave no reward".to_owned();
                return Err(LoopError::Answer { rollout_id, reason });
            }
        };
        Ok(Some(Sample {
            rollout_id,
            response: generation.response,
            response_ids: generation.response_ids,
            logprobs: generation.logprobs,
            response_model_steps: generation.model_steps,
            finish_reason: generation.finish_reason,
            reward,
        }))
    }
}

impl AgentLoop for SingleTurnAgentLoop {
    fn run<'a>(
        &'a self,
        prompt: Prompt,
        context: &'a LoopContext,
    ) -> BoxFuture<'a, Result<LoopOutcome, LoopError>> {
        Box::pin(async move {
            let samples =
                join_all((0..context.prompt_repeat_k).map(|index| self.sample(&prompt, index, context)))
                    .await;
            let samples: Option<Vec<Sample>> = samples.into_iter().collect::<Result<_, _>>()?;
            Ok(match samples {
                Some(samples) => LoopOutcome::Finished(Group { prompt, samples }),
                None => LoopOutcome::Aborted,
            })
        })
    }
}

/// An answer can be trained on when it has tokens, and a log-probability and a version for each.
fn check(rollout_id: u64, generation: &Generation) -> Result<(), LoopError> {
    let tokens = generation.response_ids.len();
    let reason = if tokens == 0 {
        "it has no tokens".to_owned()
    } else if generation.logprobs.len() != tokens {
        format!("{} log-probabilities for {tokens} tokens", generation.logprobs.len())
    } else if generation.model_steps.len() != tokens {
        format!("{} weight versions for {tokens} tokens", generation.model_steps.len())
    } else if let Some(position) = generation.logprobs.iter().position(|value| !value.is_finite()) {
        format!("the log-probability of token {position} is {}", generation.logprobs[position])
    } else {
        return Ok(());
    };
    Err(LoopError::Answer { rollout_id, reason })
}
