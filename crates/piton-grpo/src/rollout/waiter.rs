//! One request under way, and its answer.

use std::sync::Arc;

use piton_agent::{FinishReason, GenerateRequest, Generation, Phase, SampleParams};
use piton_data::Tokenizer;
use piton_lm::generate::{Finish, Finished, Request, SamplingParams};
use tokio::sync::oneshot;

use super::RolloutSettings;
use crate::{Error, Result};

/// Who waits for a response, and which weights made its tokens so far.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) request: GenerateRequest,
    pub(super) reply: oneshot::Sender<Result<Generation>>,
    pub(super) model_steps: Vec<u64>,
}

impl Waiter {
    pub(super) fn new(request: GenerateRequest, reply: oneshot::Sender<Result<Generation>>) -> Self {
        Self { request, reply, model_steps: Vec::new() }
    }

    /// The request in the engine's words; an error when its prompt leaves no room for a response.
    pub(super) fn engine_request(&self, id: u64, settings: &RolloutSettings) -> Result<Request> {
        let GenerateRequest { task, phase, group_id, index, prompt_ids, params, .. } = &self.request;
        let purpose = match phase {
            Phase::Train => "sample",
            Phase::Eval => "eval",
        };
        let room = settings.context_length.saturating_sub(prompt_ids.len());
        if room == 0 {
            let (prompt, limit) = (prompt_ids.len(), settings.context_length);
            return Err(Error::PromptTooLong { prompt, limit });
        }
        let mut sampling = sampling(params);
        sampling.max_tokens = sampling.max_tokens.min(room);
        sampling.min_tokens = sampling.min_tokens.min(sampling.max_tokens);
        let domain = settings.seed.domain(&format!("{purpose}/{task}"));
        Ok(Request::new(id, Arc::clone(prompt_ids), sampling, domain).sample_of(*group_id, *index))
    }

    /// Notes that the tokens since the last note are of `model_step`'s weights.
    pub(super) fn note(&mut self, response_len: usize, model_step: u64) {
        self.model_steps.resize(response_len, model_step);
    }

    /// Answers with an error.
    pub(super) fn fail(self, error: Error) {
        let _ = self.reply.send(Err(error));
    }

    /// Answers; nobody may be there any more, and that is fine.
    pub(super) fn answer(self, tokenizer: &Tokenizer, finished: Finished) {
        let generation = tokenizer.decode(&finished.response_ids, true).map(|response| Generation {
            response,
            response_ids: finished.response_ids,
            logprobs: finished.log_probs,
            model_steps: self.model_steps,
            finish_reason: match finished.finish {
                Finish::Stop => FinishReason::Stop,
                Finish::Length => FinishReason::Length,
                Finish::Abort => FinishReason::Abort,
            },
            reward: None,
        });
        let _ = self.reply.send(generation.map_err(Into::into));
    }
}

fn sampling(params: &SampleParams) -> SamplingParams {
    #[expect(clippy::cast_possible_truncation, reason = "the engine computes in f32")]
    let single = |value: f64| value as f32;
    SamplingParams {
        max_tokens: params.max_tokens,
        min_tokens: params.min_tokens,
        temperature: single(params.temperature),
        top_k: params.top_k,
        top_p: single(params.top_p),
        stop_token_ids: params.stop_token_ids.clone(),
    }
}
