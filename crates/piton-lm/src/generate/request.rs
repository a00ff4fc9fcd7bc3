//! What a caller asks for and what comes back.

use std::sync::Arc;

use piton_rng::Domain;

use crate::{Error, ModelConfig, Result};

/// How tokens are chosen and when a response ends.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// Most tokens of the whole response, those of an earlier attempt included.
    pub max_tokens: usize,
    /// Tokens of the response before which no stop token is chosen.
    pub min_tokens: usize,
    /// Divides the logits before sampling; 0 is greedy.
    pub temperature: f32,
    /// Samples among this many most likely tokens; 0 is off, 1 is greedy. Ties go to the lower id.
    pub top_k: usize,
    /// Samples among the fewest most likely tokens whose probability reaches this, in (0, 1]; 1 is off.
    pub top_p: f32,
    /// Ids that end the response, besides the engine's end-of-sequence ids.
    pub stop_token_ids: Vec<u32>,
}

impl Default for SamplingParams {
    /// The reference's `SampleParams`: 2048 tokens, temperature 1, no filter.
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

impl SamplingParams {
    /// Whether the most likely token is always taken.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 || self.top_k == 1
    }

    /// Checks every field.
    ///
    /// # Errors
    /// [`Error::Input`] naming each field that is out of range and what to write instead.
    pub fn check(&self) -> Result<()> {
        let mut faults = Vec::new();
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            faults.push(format!(
                "temperature is {}, expected 0 (greedy) or a positive number",
                self.temperature
            ));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            faults.push(format!("top_p is {}, expected a number above 0 and at most 1 (off)", self.top_p));
        }
        if self.min_tokens > self.max_tokens {
            faults.push(format!(
                "min_tokens is {}, expected at most max_tokens ({})",
                self.min_tokens, self.max_tokens
            ));
        }
        if faults.is_empty() {
            Ok(())
        } else {
            Err(Error::Input(format!("sampling parameters: {}", faults.join("; "))))
        }
    }
}

/// One response to generate.
///
/// The number that decides the token at response position `p` is the first draw of
/// `domain.stream([group, sample, p])`, so a response is a function of the weights, the prompt, the parameters and
/// (domain, group, sample): not of what else runs, of threads, or of how often it was interrupted.
#[derive(Debug, Clone)]
pub struct Request {
    /// The caller's name for it, unique among requests in flight.
    pub id: u64,
    /// The prompt. Requests with equal prompts share its keys and values.
    pub prompt_ids: Arc<[u32]>,
    /// The response so far, when an earlier attempt was aborted; else empty.
    pub response_ids: Vec<u32>,
    /// One log-probability for each of `response_ids`; they are given back in front of the new ones.
    pub log_probs: Vec<f32>,
    /// How tokens are chosen.
    pub params: SamplingParams,
    /// The streams that sampling draws from.
    pub domain: Domain,
    /// Number of the group of samples of one prompt.
    pub group: u64,
    /// Number of the sample within its group.
    pub sample: u64,
}

impl Request {
    /// Makes a request for a new response.
    pub fn new(id: u64, prompt_ids: impl Into<Arc<[u32]>>, params: SamplingParams, domain: Domain) -> Self {
        Self {
            id,
            prompt_ids: prompt_ids.into(),
            response_ids: Vec::new(),
            log_probs: Vec::new(),
            params,
            domain,
            group: 0,
            sample: 0,
        }
    }

    /// Says which sample of which group this is.
    #[must_use]
    pub fn sample_of(mut self, group: u64, sample: u64) -> Self {
        self.group = group;
        self.sample = sample;
        self
    }

    /// Goes on from the response of an aborted attempt.
    #[must_use]
    pub fn continue_from(mut self, partial: &Finished) -> Self {
        self.response_ids.clone_from(&partial.response_ids);
        self.log_probs.clone_from(&partial.log_probs);
        self
    }

    pub(crate) fn check(&self, config: &ModelConfig) -> Result<()> {
        let fault = |reason: String| Err(Error::Input(format!("request {}: {reason}", self.id)));
        if let Err(error) = self.params.check() {
            return fault(error.to_string());
        }
        if self.prompt_ids.is_empty() {
            return fault("the prompt is empty, expected at least one token".to_owned());
        }
        if self.log_probs.len() != self.response_ids.len() {
            return fault(format!(
                "{} response tokens but {} log-probabilities, expected one for each",
                self.response_ids.len(),
                self.log_probs.len()
            ));
        }
        let tokens = self.prompt_ids.len() + self.response_ids.len();
        if tokens > config.max_position_embeddings {
            return fault(format!(
                "{} prompt and {} response tokens, expected at most {} together (max_position_embeddings); \
                 shorten or drop the prompt",
                self.prompt_ids.len(),
                self.response_ids.len(),
                config.max_position_embeddings
            ));
        }
        let known = |id: &&u32| **id as usize >= config.vocab_size;
        if let Some(id) = self.prompt_ids.iter().chain(&self.response_ids).find(known) {
            return fault(format!(
                "token id {id} has no embedding row, expected ids below {}; use the tokenizer the model was made with",
                config.vocab_size
            ));
        }
        Ok(())
    }
}

/// Why a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finish {
    /// An end-of-sequence or stop token was chosen; it is the response's last.
    Stop,
    /// `max_tokens` or the model's longest sequence was reached.
    Length,
    /// [`abort_all`](super::Engine::abort_all) was called.
    Abort,
}

/// A response that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The request's id.
    pub id: u64,
    /// The whole response, with its stop token when there is one.
    pub response_ids: Vec<u32>,
    /// `[response]` log-probability of each token under the model itself: log-softmax of the raw logits.
    pub log_probs: Vec<f32>,
    /// Why it ended.
    pub finish: Finish,
}
