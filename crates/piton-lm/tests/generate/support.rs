//! The tiny models of fixtures/golden/lm/generate.py and shorthands.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use piton_lm::generate::{Engine, EngineConfig, Finished, Request, SamplingParams};
use piton_lm::{ModelConfig, Weights};
use piton_rng::{Domain, Seed};
use piton_torch::read_safetensors_file;
use serde::Deserialize;

/// What transformers made of one model.
#[derive(Deserialize)]
pub(crate) struct Golden {
    config: serde_json::Value,
    pub(crate) cases: Vec<Case>,
    pub(crate) distributions: Vec<Distribution>,
}

/// A greedy response.
#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) prompt_ids: Vec<u32>,
    pub(crate) response_ids: Vec<u32>,
    pub(crate) log_probs: Vec<f32>,
}

/// Of the first token after the last case's prompt.
#[derive(Deserialize)]
pub(crate) struct Distribution {
    pub(crate) temperature: f32,
    pub(crate) top_k: usize,
    pub(crate) top_p: f32,
    pub(crate) probs: Vec<f64>,
}

/// A model, its weights and its golden numbers.
pub(crate) struct Model {
    pub(crate) config: ModelConfig,
    pub(crate) weights: Weights,
    pub(crate) golden: Golden,
}

pub(crate) const MODELS: [&str; 2] = ["tied", "untied"];

impl Model {
    pub(crate) fn load(name: &str) -> Self {
        let text = std::fs::read_to_string(fixtures().join("generate.json")).unwrap();
        let mut goldens: std::collections::BTreeMap<String, Golden> = serde_json::from_str(&text).unwrap();
        let golden = goldens.remove(name).unwrap();
        let config = ModelConfig::from_json(&golden.config.to_string()).unwrap();
        let file = read_safetensors_file(&fixtures().join(format!("generate_{name}.safetensors"))).unwrap();
        let weights = Weights::new(&config, file.tensors, name).unwrap();
        Self { config, weights, golden }
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine_with(EngineConfig::default())
    }

    pub(crate) fn engine_with(&self, config: EngineConfig) -> Engine {
        Engine::new(&self.config, &self.weights, config, 1).unwrap()
    }

    /// Distinct prompts of varied lengths.
    pub(crate) fn prompts(&self, count: u64) -> Vec<Arc<[u32]>> {
        let vocab = u32::try_from(self.config.vocab_size).unwrap();
        (0..count)
            .map(|index| {
                let mut rng = Seed(11).stream("prompts", [index, 0, 0]);
                let length = 1 + rng.next_u32() % 90;
                (0..length).map(|_| rng.next_u32() % vocab).collect()
            })
            .collect()
    }
}

pub(crate) fn threads(count: usize) -> EngineConfig {
    EngineConfig { threads: NonZeroUsize::new(count), ..EngineConfig::default() }
}

pub(crate) fn greedy(max_tokens: usize) -> SamplingParams {
    SamplingParams { max_tokens, temperature: 0.0, ..SamplingParams::default() }
}

pub(crate) fn sampled(max_tokens: usize) -> SamplingParams {
    SamplingParams { max_tokens, ..SamplingParams::default() }
}

pub(crate) fn domain() -> Domain {
    Seed(5).domain("sample")
}

/// A request whose streams are those of group `id`.
pub(crate) fn request(id: u64, prompt: &Arc<[u32]>, params: SamplingParams) -> Request {
    Request::new(id, Arc::clone(prompt), params, domain()).sample_of(id, 0)
}

pub(crate) fn run(engine: &mut Engine, requests: Vec<Request>) -> Vec<Finished> {
    engine.generate(requests, &|| false).unwrap()
}

/// Everything in a response, floats as bits.
pub(crate) fn bits(finished: &Finished) -> (Vec<u32>, Vec<u32>) {
    (finished.response_ids.clone(), finished.log_probs.iter().map(|x| x.to_bits()).collect())
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/lm")
}
