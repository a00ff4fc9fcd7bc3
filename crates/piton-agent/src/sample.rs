//! What travels: a drawn prompt, a generated and judged sample, a finished group.

use std::collections::BTreeMap;
use std::sync::Arc;

use piton_data::Row;
use serde::{Deserialize, Serialize};

/// A prompt drawn from a task's data, before anything was generated for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// Name of the task that drew it.
    pub task: String,
    /// Absolute position in the task's stream of prompts: never reused, never restarted.
    pub group_id: u64,
    /// `[prompt_len]` token ids, chat template applied.
    pub prompt_ids: Arc<[u32]>,
    /// The data row the prompt was made from.
    pub row: Arc<Row>,
}

/// Why generation of one response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model produced a stop token.
    Stop,
    /// The token budget was used up.
    Length,
    /// Generation was paused or stopped; the tokens so far are kept.
    Abort,
}

/// What a judger says of one response. `score` is the reward that training uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reward {
    /// The reward.
    pub score: f64,
    /// Further figures of the judger, by name; they are written to trajectories only.
    #[serde(flatten)]
    pub details: BTreeMap<String, f64>,
}

impl Reward {
    /// A reward with a score alone.
    pub fn new(score: f64) -> Self {
        Self { score, details: BTreeMap::new() }
    }
}

/// One generated and judged response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// `group_id * prompt_repeat_k + index in the group`: unique within the task.
    pub rollout_id: u64,
    /// The response as text, special tokens left out.
    pub response: String,
    /// `[response_len]` generated token ids, the stop token included.
    pub response_ids: Vec<u32>,
    /// `[response_len]` log-probabilities of these tokens under the weights that generated them.
    pub logprobs: Vec<f32>,
    /// `[response_len]` version of the weights (the train step they come from) that generated each token.
    pub response_model_steps: Vec<u64>,
    /// Why generation ended.
    pub finish_reason: FinishReason,
    /// The judgement.
    pub reward: Reward,
}

/// All samples of one prompt, finished and judged: what a replay buffer holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The prompt they answer.
    pub prompt: Prompt,
    /// `[prompt_repeat_k]` samples in the order of their `rollout_id`.
    pub samples: Vec<Sample>,
}
