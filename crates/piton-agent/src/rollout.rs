//! The seam to an inference engine: what the agent loops ask of it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::sample::{FinishReason, Reward};

/// A boxed future, as trait objects need it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Any error of a controller; the trainer adds which call failed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Sampling parameters, named as in the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SampleParams {
    /// Largest number of tokens to generate for one response. Default 2048.
    pub max_tokens: usize,
    /// Stop tokens are not sampled before this many tokens. Default 0.
    pub min_tokens: usize,
    /// Sampling temperature; 0 is greedy. Default 1.
    pub temperature: f64,
    /// Keep the k most likely tokens; 0 keeps all, 1 is greedy. Default 0.
    pub top_k: usize,
    /// Keep the smallest set of tokens whose probability reaches this. Default 1 (all).
    pub top_p: f64,
    /// Token ids that end a response, besides the model's own end-of-sequence ids.
    pub stop_token_ids: Vec<u32>,
}

impl Default for SampleParams {
    fn default() -> Self {
        Self {
            max_tokens: 2048,
            min_tokens: 0,
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            stop_token_ids: Vec::new(),
        }
    }
}

impl SampleParams {
    /// Checks every value; the message says what to write instead.
    ///
    /// # Errors
    /// The first key whose value has no meaning.
    pub fn check(&self) -> Result<(), String> {
        if self.max_tokens == 0 {
            return Err(
                "sample_params.max_tokens is 0: write the number of tokens a response may have".into()
            );
        }
        if self.min_tokens > self.max_tokens {
            return Err(format!(
                "sample_params.min_tokens is {}, more than max_tokens ({}): write a smaller number",
                self.min_tokens, self.max_tokens
            ));
        }
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return Err(format!(
                "sample_params.temperature is {}: write 0 (greedy) or a positive number",
                self.temperature
            ));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(format!(
                "sample_params.top_p is {}: write a number above 0 and at most 1",
                self.top_p
            ));
        }
        Ok(())
    }
}

/// What a response is generated for. The two draw from different random streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Training data.
    Train,
    /// Evaluation.
    Eval,
}

/// One response to generate.
#[derive(Debug, Clone)]
pub struct GenerateRequest {
    /// Name of the task; with `phase`, names the random stream.
    pub task: Arc<str>,
    /// Training or evaluation.
    pub phase: Phase,
    /// The prompt's id.
    pub group_id: u64,
    /// The sample's id: `group_id * prompt_repeat_k + index`.
    pub rollout_id: u64,
    /// Index of the sample in its group.
    pub index: u64,
    /// `[prompt_len]` token ids.
    pub prompt_ids: Arc<[u32]>,
    /// How to sample.
    pub params: Arc<SampleParams>,
}

/// One generated response.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// The response as text, special tokens left out.
    pub response: String,
    /// `[response_len]` token ids, the stop token included.
    pub response_ids: Vec<u32>,
    /// `[response_len]` log-probabilities of these tokens.
    pub logprobs: Vec<f32>,
    /// Version of the weights that generated each token: `[response_len]`.
    pub model_steps: Vec<u64>,
    /// Why generation ended.
    pub finish_reason: FinishReason,
    /// A reward, where the engine (or a fake) gives one itself; used by tasks without a judger.
    pub reward: Option<Reward>,
}

/// What a rollout controller tells the train controller, so that it can publish weights to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutMetadata {
    /// Addresses of remote engines by rank; empty for an engine in this process.
    pub server_url_dict: std::collections::BTreeMap<String, String>,
}

/// An inference engine, local or remote. Callers bring their own by implementing this.
///
/// Only [`generate`](Self::generate) must be written; the rest default to doing nothing, which is right for an engine that has
/// no workers to restart and no memory to give back.
pub trait RolloutController: Send + Sync {
    /// Generates one response.
    ///
    /// A paused controller answers with [`FinishReason::Abort`] and the tokens so far. An error fails the sample, not the run.
    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Generation, BoxError>>;

    /// Aborts what is being generated, and answers new requests with an abort until it continues.
    ///
    /// # Errors
    /// Whatever kept the engine from pausing.
    fn pause_generation(&self) -> Result<(), BoxError> {
        Ok(())
    }

    /// Takes requests again.
    ///
    /// # Errors
    /// Whatever kept the engine from continuing.
    fn continue_generation(&self) -> Result<(), BoxError> {
        Ok(())
    }

    /// Gives weights and cache memory back while training needs it.
    ///
    /// # Errors
    /// Whatever kept the engine from letting go.
    fn offload(&self) -> Result<(), BoxError> {
        Ok(())
    }

    /// Makes room for the weights again; the train controller publishes them afterwards.
    ///
    /// # Errors
    /// Whatever kept the engine from it.
    fn onload_weights(&self) -> Result<(), BoxError> {
        Ok(())
    }

    /// Makes room for the key-value cache again.
    ///
    /// # Errors
    /// Whatever kept the engine from it.
    fn onload_kvcache(&self) -> Result<(), BoxError> {
        Ok(())
    }

    /// Shuts broken workers down, before training takes their memory.
    ///
    /// # Errors
    /// Whatever kept the check from being made.
    fn check_and_shutdown_inactive_workers(&self) -> Result<(), BoxError> {
        Ok(())
    }

    /// Starts the workers again that were shut down.
    ///
    /// # Errors
    /// Whatever kept every worker from starting.
    fn restart_inactive_workers(&self) -> Result<(), BoxError> {
        Ok(())
    }

    /// Where the engine is, for the train controller.
    fn metadata(&self) -> RolloutMetadata {
        RolloutMetadata::default()
    }
}
