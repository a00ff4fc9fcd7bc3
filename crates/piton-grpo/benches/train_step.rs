//! One whole train step of the learner: passes, loss, backward, clipping, AdamW, metrics.
//!
//! `small` is 0.5 M parameters, 32 prompts of 30 tokens, 8 samples of 5; `medium` is 5 M, 8 prompts of 64, 8 samples of 64.
//! Throughput counts trained tokens.

#![expect(clippy::unwrap_used, reason = "a failure of a bench should stop it where it happens")]

use divan::Bencher;
use divan::counter::ItemsCount;
use piton_grpo::{GrpoLearner, PublishWeights, Result};
use piton_lm::{HfModel, ModelConfig, Weights, init};
use piton_rng::Seed;
use piton_run::Stop;
use piton_trainer::{FitContext, TrainController, TrainSample, WorkerConfig};
use tch::Device;

fn main() {
    divan::main();
}

struct Shape {
    hidden: usize,
    inner: usize,
    layers: usize,
    vocab: u32,
    prompts: u32,
    prompt_tokens: u32,
    samples: u32,
    sample_tokens: u32,
}

const SMALL: Shape = Shape {
    hidden: 128,
    inner: 256,
    layers: 3,
    vocab: 512,
    prompts: 32,
    prompt_tokens: 30,
    samples: 8,
    sample_tokens: 5,
};

const MEDIUM: Shape = Shape {
    hidden: 256,
    inner: 768,
    layers: 6,
    vocab: 1024,
    prompts: 8,
    prompt_tokens: 64,
    samples: 8,
    sample_tokens: 64,
};

/// Publishing is not measured here.
struct Nobody;

impl PublishWeights for Nobody {
    fn publish(&self, _: &Weights, _: u64) -> Result<()> {
        Ok(())
    }

    fn published(&self) -> Result<(Weights, u64)> {
        unreachable!("nothing is saved here")
    }
}

fn learner(shape: &Shape, optimizer_steps: usize) -> GrpoLearner {
    let config = ModelConfig::from_json(&format!(
        r#"{{"architectures": ["Qwen3ForCausalLM"], "vocab_size": {}, "hidden_size": {}, "intermediate_size": {},
        "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}, "head_dim": 32,
        "tie_word_embeddings": true}}"#,
        shape.vocab,
        shape.hidden,
        shape.inner,
        shape.layers,
        shape.hidden / 32,
        shape.hidden / 64,
    ))
    .unwrap();
    let weights = init(&config, Seed(1), Device::Cpu).unwrap();
    let worker: WorkerConfig = serde_json::from_value(serde_json::json!({
        "pack_max_length": 16384,
        "optimizer_steps": optimizer_steps,
        "loss_cfg": {"policy_loss_cfg": {"cliprange_low": 0.2, "cliprange_high": 0.2}},
    }))
    .unwrap();
    GrpoLearner::new(worker, HfModel { config, weights }, None, Box::new(Nobody), "".into()).unwrap()
}

fn batch(shape: &Shape) -> Vec<TrainSample> {
    let tokens = |count: u32, salt: u32| {
        (0..count).map(move |at| (salt.wrapping_mul(2_654_435_761) >> 7).wrapping_add(at * 31))
    };
    let group = |group: u32| {
        (0..shape.samples).map(move |sample| {
            let response_len = shape.sample_tokens as usize;
            let ids =
                tokens(shape.prompt_tokens, group).chain(tokens(shape.sample_tokens, group * 1000 + sample));
            TrainSample {
                group_id: u64::from(group),
                rollout_id: u64::from(group * shape.samples + sample),
                tokens: ids.map(|id| id % shape.vocab).collect(),
                prompt_len: shape.prompt_tokens as usize,
                loss_mask: vec![true; response_len],
                advantages: vec![if sample % 2 == 0 { 1.0 } else { -1.0 }; response_len],
                rollout_log_probs: vec![-6.0; response_len],
            }
        })
    };
    (0..shape.prompts).flat_map(group).collect()
}

#[divan::bench(args = [1, 2], sample_count = 10)]
fn small(bencher: Bencher<'_, '_>, optimizer_steps: usize) {
    step(bencher, &SMALL, optimizer_steps);
}

#[divan::bench(args = [1, 2], sample_count = 10)]
fn medium(bencher: Bencher<'_, '_>, optimizer_steps: usize) {
    step(bencher, &MEDIUM, optimizer_steps);
}

fn step(bencher: Bencher<'_, '_>, shape: &Shape, optimizer_steps: usize) {
    let mut learner = learner(shape, optimizer_steps);
    let batch = batch(shape);
    let stop = Stop::manual();
    let mut step = 0;
    bencher.counter(ItemsCount::new(shape.prompts * shape.samples * shape.sample_tokens)).bench_local(|| {
        step += 1;
        learner.fit(&batch, FitContext { step, total_train_steps: 1_000_000, stop: &stop }).unwrap()
    });
}
