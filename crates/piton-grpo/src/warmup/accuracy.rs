//! How many held-out rows a policy answers right.

use std::sync::Arc;

use piton_agent::{Judger, RuleJudger};
use piton_data::{Prompts, Tokenizer};
use piton_lm::ModelConfig;
use piton_lm::generate::{Engine, EngineConfig, Request, SamplingParams};
use piton_rng::Seed;

use crate::policy::Policy;
use crate::{Error, Result};

/// An engine, and the rows it is examined on.
#[derive(Debug)]
pub(super) struct Examiner<'a> {
    engine: Engine,
    tokenizer: &'a Tokenizer,
    prompts: &'a Prompts,
    seed: Seed,
    looks: u64,
}

impl<'a> Examiner<'a> {
    pub(super) fn new(
        model: &ModelConfig,
        policy: &Policy,
        tokenizer: &'a Tokenizer,
        prompts: &'a Prompts,
        seed: Seed,
    ) -> Result<Self> {
        let config =
            EngineConfig { eos_token_ids: Some(tokenizer.eos_ids().to_vec()), ..EngineConfig::default() };
        let engine = Engine::new(model, policy.weights(), config, 0)?;
        Ok(Self { engine, tokenizer, prompts, seed, looks: 0 })
    }

    /// The share of all rows answered right, from 0 to 1; one answer a row, the same draws at every look.
    pub(super) fn accuracy(&mut self, policy: &Policy, sampling: &SamplingParams) -> Result<f64> {
        self.looks += 1;
        self.engine.load_weights(policy.weights(), self.looks)?;
        let domain = self.seed.domain("warmup/eval");
        let prompts = self.prompts.as_slice();
        let request = |(at, prompt): (u64, &piton_data::Prompt)| {
            let ids: Arc<[u32]> = prompt.token_ids.as_slice().into();
            Request::new(at, ids, sampling.clone(), domain).sample_of(at, 0)
        };
        let answers = self.engine.generate((0..).zip(prompts).map(request).collect(), &|| false)?;
        let judger = RuleJudger::default();
        let mut right = 0_u32;
        for (answer, prompt) in answers.iter().zip(prompts) {
            let text = self.tokenizer.decode(&answer.response_ids, true)?;
            let reward =
                judger.judge(&text, &prompt.row).map_err(|error| Error::Warmup(error.to_string()))?;
            right += u32::from(reward.score > 0.0);
        }
        Ok(f64::from(right) / f64::from(u32::try_from(prompts.len()).unwrap_or(u32::MAX)))
    }
}
