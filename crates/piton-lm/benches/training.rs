//! Forward and backward of one GRPO batch: prefixes shared, and every sequence on its own.
//!
//! `small` is 0.5 M parameters, 32 prompts of 30 tokens, 8 samples of 5; `medium` is 5 M, 8 prompts of 64, 8 samples
//! of 64. Throughput counts predicted tokens, so the two forms compare.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test or bench: a failure should stop it where it happens"
)]

use divan::Bencher;
use divan::counter::ItemsCount;
use piton_lm::backprop::{Backprop, Continuation, Gradients};
use piton_lm::{CausalLm, ModelConfig, SharedPrefixBatch, init};
use piton_rng::Seed;
use tch::{Device, Kind, Tensor};

fn main() {
    divan::main();
}

struct Shape {
    hidden: usize,
    inner: usize,
    layers: usize,
    vocab: usize,
    prompts: usize,
    prompt_tokens: usize,
    samples: usize,
    sample_tokens: usize,
}

const SMALL: Shape = Shape {
    hidden: 128,
    inner: 256,
    layers: 3,
    vocab: 128,
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

fn model(shape: &Shape) -> CausalLm {
    let config = ModelConfig::from_json(&format!(
        r#"{{"architectures":["Qwen3ForCausalLM"],"vocab_size":{},"hidden_size":{},"intermediate_size":{},
        "num_hidden_layers":{},"num_attention_heads":{},"num_key_value_heads":{},"head_dim":32,
        "tie_word_embeddings":true}}"#,
        shape.vocab,
        shape.hidden,
        shape.inner,
        shape.layers,
        shape.hidden / 32,
        shape.hidden / 64,
    ))
    .unwrap();
    let mut weights = init(&config, Seed(1), Device::Cpu).unwrap();
    weights.set_requires_grad(true).unwrap();
    CausalLm::new(config, weights)
}

fn tokens(shape: &Shape, seed: u64, count: usize) -> Vec<u32> {
    let mut stream = Seed(2).stream("bench", [seed, 0, 0]);
    (0..count).map(|_| u32::try_from(stream.next_u64() % shape.vocab as u64).unwrap()).collect()
}

fn backward(model: &CausalLm, logits: &Tensor) {
    let loss = logits.log_softmax(-1, Kind::Float).select(-1, 0).mean(Kind::Float);
    let leaves: Vec<&Tensor> = model.weights().tensors().values().collect();
    divan::black_box(Tensor::run_backward(&[loss], &leaves, false, false));
}

/// Prefixes and continuations.
type Batch = (Vec<Vec<u32>>, Vec<(usize, Vec<u32>)>);

fn batch(shape: &Shape, ragged: bool) -> Batch {
    let length = |full: usize, index: usize| if ragged { full - (index * 7) % (full / 2) } else { full };
    let prefixes: Vec<Vec<u32>> = (0..shape.prompts)
        .map(|prompt| tokens(shape, prompt as u64, length(shape.prompt_tokens, prompt)))
        .collect();
    let sequences: Vec<(usize, Vec<u32>)> = (0..shape.prompts * shape.samples)
        .map(|index| {
            (index / shape.samples, tokens(shape, 1000 + index as u64, length(shape.sample_tokens, index)))
        })
        .collect();
    (prefixes, sequences)
}

fn shared(bencher: Bencher<'_, '_>, shape: &Shape, threads: usize, ragged: bool) {
    piton_torch::set_threads(threads).unwrap();
    let model = model(shape);
    let (prefixes, sequences) = batch(shape, ragged);
    let prefixes: Vec<&[u32]> = prefixes.iter().map(Vec::as_slice).collect();
    let sequences: Vec<(usize, &[u32])> =
        sequences.iter().map(|(prefix, tokens)| (*prefix, &tokens[..])).collect();
    let targets = SharedPrefixBatch::new(&prefixes, &sequences, Device::Cpu).unwrap().num_targets();
    bencher.counter(ItemsCount::new(targets)).bench_local(|| {
        let batch = SharedPrefixBatch::new(&prefixes, &sequences, Device::Cpu).unwrap();
        backward(&model, &model.token_logits(&batch).unwrap());
    });
}

/// The same without libtorch: new weights taken in, forward, backward.
fn kernels(bencher: Bencher<'_, '_>, shape: &Shape, threads: usize, ragged: bool) {
    let model = model(shape);
    let (prefixes, sequences) = batch(shape, ragged);
    let prefixes: Vec<&[u32]> = prefixes.iter().map(Vec::as_slice).collect();
    let wanted = vec![true; shape.sample_tokens];
    let continuations: Vec<Continuation<'_>> = sequences
        .iter()
        .map(|(prefix, tokens)| Continuation { prefix: *prefix, tokens, wanted: &wanted[..tokens.len()] })
        .collect();
    let targets = sequences.iter().map(|(_, tokens)| tokens.len()).sum::<usize>();
    let mut backprop = Backprop::new(model.config(), model.weights(), threads).unwrap();
    let mut gradients = Gradients::zeros(model.config());
    bencher.counter(ItemsCount::new(targets)).bench_local(|| {
        backprop.load(model.weights()).unwrap();
        let log_probs = backprop.log_probs(&prefixes, &continuations).unwrap();
        gradients.clear();
        backprop.backward(&vec![1.0 / targets as f32; log_probs.len()], &mut gradients).unwrap();
    });
}

fn plain(bencher: Bencher<'_, '_>, shape: &Shape, threads: usize) {
    piton_torch::set_threads(threads).unwrap();
    let model = model(shape);
    let (lines, length) = (shape.prompts * shape.samples, shape.prompt_tokens + shape.sample_tokens - 1);
    let ids: Vec<i64> = tokens(shape, 0, lines * length).into_iter().map(i64::from).collect();
    let ids = Tensor::from_slice(&ids).view([lines as i64, length as i64]);
    bencher.counter(ItemsCount::new(lines * shape.sample_tokens)).bench_local(|| {
        backward(&model, &model.logits(&ids).unwrap().slice(1, shape.prompt_tokens as i64 - 1, None, 1));
    });
}

#[divan::bench(args = [1, 2])]
fn small_shared(bencher: Bencher<'_, '_>, threads: usize) {
    shared(bencher, &SMALL, threads, false);
}

#[divan::bench(args = [1, 2])]
fn small_shared_ragged(bencher: Bencher<'_, '_>, threads: usize) {
    shared(bencher, &SMALL, threads, true);
}

#[divan::bench(args = [1, 2])]
fn small_kernels(bencher: Bencher<'_, '_>, threads: usize) {
    kernels(bencher, &SMALL, threads, false);
}

#[divan::bench(args = [1, 2])]
fn small_kernels_ragged(bencher: Bencher<'_, '_>, threads: usize) {
    kernels(bencher, &SMALL, threads, true);
}

#[divan::bench(args = [1, 2])]
fn small_plain(bencher: Bencher<'_, '_>, threads: usize) {
    plain(bencher, &SMALL, threads);
}

#[divan::bench(args = [1, 2], sample_count = 20)]
fn medium_shared(bencher: Bencher<'_, '_>, threads: usize) {
    shared(bencher, &MEDIUM, threads, false);
}

#[divan::bench(args = [1, 2], sample_count = 20)]
fn medium_shared_ragged(bencher: Bencher<'_, '_>, threads: usize) {
    shared(bencher, &MEDIUM, threads, true);
}

#[divan::bench(args = [1, 2], sample_count = 20)]
fn medium_kernels(bencher: Bencher<'_, '_>, threads: usize) {
    kernels(bencher, &MEDIUM, threads, false);
}

#[divan::bench(args = [1, 2], sample_count = 20)]
fn medium_kernels_ragged(bencher: Bencher<'_, '_>, threads: usize) {
    kernels(bencher, &MEDIUM, threads, true);
}

#[divan::bench(args = [1, 2], sample_count = 20)]
fn medium_plain(bencher: Bencher<'_, '_>, threads: usize) {
    plain(bencher, &MEDIUM, threads);
}
