//! Tokens per second of generation: the 0.5 M model of the default recipe's shape, and a 5 M one.
//!
//! `cargo bench -p piton-lm --bench generate`, optionally with the number of threads and of runs. The same work by
//! transformers: `benches/generate_transformers.py`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use piton_lm::generate::{Engine, EngineConfig, Request, SamplingParams};
use piton_lm::{ModelConfig, Weights, parameter_shapes};
use piton_rng::Seed;
use tch::Tensor;

/// One measurement: a model's shape and how much it generates.
struct Case {
    name: &'static str,
    config: &'static str,
    prompts: u64,
    samples: u64,
    prompt_tokens: usize,
    new_tokens: usize,
}

const SMALL: &str = r#"{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 512, "hidden_size": 128,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "intermediate_size": 384, "max_position_embeddings": 512, "tie_word_embeddings": true}"#;

const MIDDLE: &str = r#"{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 512, "hidden_size": 256,
    "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32,
    "intermediate_size": 1024, "max_position_embeddings": 512, "tie_word_embeddings": true}"#;

const CASES: [Case; 3] = [
    Case {
        name: "0.5 M, 32 x 8, 30 + 16",
        config: SMALL,
        prompts: 32,
        samples: 8,
        prompt_tokens: 30,
        new_tokens: 16,
    },
    Case {
        name: "5 M, 8 x 8, 64 + 64",
        config: MIDDLE,
        prompts: 8,
        samples: 8,
        prompt_tokens: 64,
        new_tokens: 64,
    },
    Case {
        name: "5 M, 64 x 1, 64 + 64",
        config: MIDDLE,
        prompts: 64,
        samples: 1,
        prompt_tokens: 64,
        new_tokens: 64,
    },
];

fn main() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse().ok());
    let threads: usize = numbers.next().unwrap_or(2);
    let runs: usize = numbers.next().unwrap_or(7);
    println!("{threads} threads, best of {runs} runs");
    for case in CASES {
        let config = ModelConfig::from_json(case.config).expect("the config above is valid");
        let weights = random_weights(&config);
        let engine_config = EngineConfig { threads: NonZeroUsize::new(threads), ..EngineConfig::default() };
        let mut engine = Engine::new(&config, &weights, engine_config, 0).expect("the weights fit");
        let mut best = (f64::MAX, 0.0, 0.0);
        for run in 0..runs {
            for request in requests(&case, run as u64) {
                engine.submit(request).expect("the request is valid");
            }
            let start = Instant::now();
            let mut first_s = 0.0;
            while !engine.is_idle() {
                engine.step().expect("the logits are finite");
                if first_s == 0.0 {
                    first_s = start.elapsed().as_secs_f64();
                }
            }
            let total_s = start.elapsed().as_secs_f64();
            if total_s < best.0 {
                best = (total_s, first_s, 0.0);
            }
        }
        let start = Instant::now();
        engine.load_weights(&weights, 1).expect("nothing is in flight");
        best.2 = start.elapsed().as_secs_f64();
        let (total_s, first_s, load_s) = best;
        let tokens = (case.prompts * case.samples) as f64 * case.new_tokens as f64;
        println!(
            "{:24} {:7.1} ms  {:8.0} new tokens/s  first token {:5.1} ms, then {:5.2} ms a step; load weights {:.1} ms",
            case.name,
            total_s * 1e3,
            tokens / total_s,
            first_s * 1e3,
            (total_s - first_s) / (case.new_tokens - 1) as f64 * 1e3,
            load_s * 1e3,
        );
    }
}

fn random_weights(config: &ModelConfig) -> Weights {
    let tensors: BTreeMap<String, Tensor> = parameter_shapes(config)
        .into_iter()
        .enumerate()
        .map(|(index, (name, shape))| {
            let count = shape.iter().product::<i64>();
            let mut rng = Seed(1).stream("weights", [index as u64, 0, 0]);
            let center = if name.contains("norm") { 1.0 } else { 0.0 };
            let values: Vec<f32> = (0..count).map(|_| center + 0.1 * (rng.next_f32() - 0.5)).collect();
            (name, Tensor::from_slice(&values).view(&shape[..]))
        })
        .collect();
    Weights::new(config, tensors, "random weights").expect("every name and shape is there")
}

fn requests(case: &Case, run: u64) -> Vec<Request> {
    let domain = Seed(2).domain("sample");
    let params = SamplingParams { max_tokens: case.new_tokens, ..SamplingParams::default() };
    let mut requests = Vec::new();
    for prompt in 0..case.prompts {
        let mut rng = Seed(3).stream("prompts", [run, prompt, 0]);
        let prompt_ids: Arc<[u32]> = (0..case.prompt_tokens).map(|_| rng.next_u32() % 512).collect();
        for sample in 0..case.samples {
            let id = prompt * case.samples + sample;
            requests.push(
                Request::new(id, Arc::clone(&prompt_ids), params.clone(), domain).sample_of(prompt, sample),
            );
        }
    }
    requests
}
