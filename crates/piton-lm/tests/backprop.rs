//! The kernels' training: bit for bit the engine's log-probabilities, and autograd's gradients.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test or bench: a failure should stop it where it happens"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use piton_lm::backprop::{Backprop, Continuation, Gradients};
use piton_lm::generate::{Engine, EngineConfig, Request, SamplingParams};
use piton_lm::{CausalLm, HfModel, SharedPrefixBatch};
use piton_rng::Seed;
use tch::{Device, Kind, Tensor};

const MODELS: [&str; 7] = [
    "gqa-tied",
    "mha-untied-bf16",
    "mqa-padded-sharded",
    "llama-tied",
    "llama3-rope-bf16",
    "llama-biased",
    "qwen2-tied",
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/lm").join(name)
}

fn load(name: &str) -> HfModel {
    // tests run side by side: threads within an operation would only wait for each other
    piton_torch::set_threads(1).unwrap();
    let mut model = HfModel::load(&fixture(name), Device::Cpu).unwrap();
    model.config.max_position_embeddings = 256; // rotary: it limits, it does not compute
    model
}

/// Token ids that differ from place to place.
fn tokens(seed: u64, count: usize, vocab: usize) -> Vec<u32> {
    let mut stream = Seed(7).stream("backprop test", [seed, 0, 0]);
    (0..count).map(|_| u32::try_from(stream.next_u64() % vocab as u64).unwrap()).collect()
}

/// Prefixes, and continuations with what is wanted of them.
struct Batch {
    prefixes: Vec<Vec<u32>>,
    continuations: Vec<(usize, Vec<u32>, Vec<bool>)>,
}

impl Batch {
    /// From lengths; every seventh token is not wanted if `holes`.
    fn new(vocab: usize, prefixes: &[usize], continuations: &[(usize, usize)], holes: bool) -> Self {
        let wanted = |len: usize| (0..len).map(|at| !holes || at % 7 != 3).collect();
        Self {
            prefixes: (0..).zip(prefixes).map(|(seed, &len)| tokens(seed, len, vocab)).collect(),
            continuations: (100..)
                .zip(continuations)
                .map(|(seed, &(prefix, len))| (prefix, tokens(seed, len, vocab), wanted(len)))
                .collect(),
        }
    }

    fn prefixes(&self) -> Vec<&[u32]> {
        self.prefixes.iter().map(Vec::as_slice).collect()
    }

    fn continuations(&self) -> Vec<Continuation<'_>> {
        let all = self.continuations.iter();
        all.map(|(prefix, tokens, wanted)| Continuation { prefix: *prefix, tokens, wanted }).collect()
    }

    fn log_probs(&self, backprop: &mut Backprop) -> Vec<f32> {
        backprop.log_probs(&self.prefixes(), &self.continuations()).unwrap()
    }

    /// The same by libtorch, with its gradient of `sum(d * log_probs)`.
    fn by_autograd(&self, model: &CausalLm, d: &[f32]) -> (Tensor, BTreeMap<String, Tensor>) {
        let sequences: Vec<(usize, &[u32])> =
            self.continuations.iter().map(|(prefix, tokens, _)| (*prefix, &tokens[..])).collect();
        let batch = SharedPrefixBatch::new(&self.prefixes(), &sequences, Device::Cpu).unwrap();
        let all = model.token_logits(&batch).unwrap().log_softmax(-1, Kind::Float);
        let ids: Vec<i64> =
            sequences.iter().flat_map(|(_, tokens)| *tokens).map(|&id| i64::from(id)).collect();
        let kept: Vec<i64> = (0..)
            .zip(self.continuations.iter().flat_map(|(_, _, wanted)| wanted))
            .filter_map(|(row, wanted)| wanted.then_some(row))
            .collect();
        let log_probs = all.gather(1, &Tensor::from_slice(&ids).unsqueeze(1), false).squeeze_dim(1);
        let log_probs = log_probs.index_select(0, &Tensor::from_slice(&kept));
        let loss = (&log_probs * Tensor::from_slice(d)).sum(Kind::Float);
        let leaves: Vec<&Tensor> = model.weights().tensors().values().collect();
        let gradients = Tensor::run_backward(&[loss], &leaves, false, false);
        (log_probs.detach(), model.weights().tensors().keys().cloned().zip(gradients).collect())
    }
}

fn layouts(vocab: usize) -> Vec<Batch> {
    let many: Vec<(usize, usize)> = (0..40).map(|index| (index % 5, 1 + index * 7 % 30)).collect();
    vec![
        Batch::new(vocab, &[5, 5], &[(0, 4), (0, 4), (1, 4), (1, 4)], false),
        // unequal everything, out of order, with continuations of one token and of none
        Batch::new(
            vocab,
            &[3, 11, 1, 6],
            &[(1, 7), (0, 1), (2, 12), (1, 0), (0, 5), (3, 9), (1, 2), (0, 3)],
            true,
        ),
        // single tokens only: no row of a continuation is computed at all
        Batch::new(vocab, &[4, 2], &[(0, 1), (1, 1), (0, 1)], false),
        // several chunks, and caches of more than one block
        Batch::new(vocab, &[70, 3, 20, 33, 65], &many, true),
    ]
}

/// Different for every token.
fn weights_of(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at as f32 * 0.7).sin() / count as f32).collect()
}

#[test]
fn log_probs_and_gradients_are_those_of_autograd() {
    for name in MODELS {
        let HfModel { config, mut weights } = load(name);
        weights.set_requires_grad(true).unwrap();
        let mut backprop = Backprop::new(&config, &weights, 1).unwrap();
        let model = CausalLm::new(config.clone(), weights);
        for batch in layouts(config.vocab_size) {
            let found = batch.log_probs(&mut backprop);
            let d = weights_of(found.len());
            let (expected, expected_gradients) = batch.by_autograd(&model, &d);
            let off = (Tensor::from_slice(&found) - expected).abs().max().double_value(&[]);
            assert!(off < 1e-5, "{name}: log-probabilities off by {off:e}");

            let mut gradients = Gradients::zeros(&config);
            backprop.backward(&d, &mut gradients).unwrap();
            let mut names = 0;
            for (weight, gradient) in gradients.by_name() {
                let expected = &expected_gradients[&weight];
                let found = Tensor::from_slice(gradient).view_as(expected);
                let largest = expected.abs().max().double_value(&[]);
                let off = (found - expected).abs().max().double_value(&[]);
                assert!(largest > 1e-6, "{name}: {weight} has no gradient");
                assert!(
                    off < 1e-5 * largest.max(0.1),
                    "{name}: gradient of {weight} off by {off:e} at {largest:e}"
                );
                names += 1;
            }
            assert_eq!(names, expected_gradients.len());
        }
    }
}

#[test]
fn gradients_add_up_and_are_the_same_bits_on_any_number_of_threads() {
    let HfModel { config, weights } = load(MODELS[0]);
    let batch = layouts(config.vocab_size).pop().unwrap();
    let run = |threads: usize| {
        let mut backprop = Backprop::new(&config, &weights, threads).unwrap();
        let mut gradients = Gradients::zeros(&config);
        for _ in 0..2 {
            let log_probs = batch.log_probs(&mut backprop);
            backprop.backward(&weights_of(log_probs.len()), &mut gradients).unwrap();
        }
        let bits: Vec<u32> = gradients.by_name().into_values().flatten().map(|x| x.to_bits()).collect();
        (bits, gradients.norm().to_bits())
    };
    let one = run(1);
    assert_eq!(one, run(2));
    assert_eq!(one, run(3));
}

#[test]
fn log_probs_are_the_engines_bit_for_bit_whatever_the_batch_on_either_side() {
    for name in MODELS {
        let HfModel { config, weights } = load(name);
        let prompts: Vec<Vec<u32>> =
            [1, 9, 40, 70].into_iter().map(|len| tokens(len as u64, len, config.vocab_size)).collect();
        let params = SamplingParams { max_tokens: 70, ..SamplingParams::default() };
        let domain = Seed(3).domain("sample");
        let mut engine = Engine::new(&config, &weights, EngineConfig::default(), 0).unwrap();
        let request = |prompt: usize, sample: u64| {
            let id = prompt as u64 * 3 + sample;
            Request::new(id, prompts[prompt].clone(), params.clone(), domain).sample_of(prompt as u64, sample)
        };
        let requests = (0..4).flat_map(|prompt| (0..3).map(move |sample| (prompt, sample)));
        let requests: Vec<Request> = requests.map(|(prompt, sample)| request(prompt, sample)).collect();
        let finished = engine.generate(requests, &|| false).unwrap();
        assert_eq!(finished.len(), 12);

        let prefixes: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
        let wanted = [true; 70];
        let continuation = |index: usize| {
            let found = finished.iter().find(|finished| finished.id == index as u64).unwrap();
            let tokens = &found.response_ids[..];
            (Continuation { prefix: index / 3, tokens, wanted: &wanted[..tokens.len()] }, &found.log_probs)
        };
        let mut backprop = Backprop::new(&config, &weights, 2).unwrap();
        // together, in pairs, and backwards
        for batch in [(0..12).collect(), vec![3, 4], vec![0, 11], (0..12).rev().collect::<Vec<_>>()] {
            let (continuations, expected): (Vec<_>, Vec<_>) =
                batch.iter().map(|&index| continuation(index)).unzip();
            let found = backprop.log_probs(&prefixes, &continuations).unwrap();
            let bits = |log_probs: &[f32]| log_probs.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(
                bits(&found),
                bits(&expected.into_iter().flatten().copied().collect::<Vec<_>>()),
                "{name}"
            );
        }
    }
}

#[test]
fn a_batch_that_makes_no_sense_is_refused_by_name() {
    let HfModel { config, weights } = load(MODELS[0]);
    let mut backprop = Backprop::new(&config, &weights, 1).unwrap();
    let mut refused = |prefixes: &[&[u32]], prefix, tokens: &[u32], wanted: &[bool]| {
        backprop.log_probs(prefixes, &[Continuation { prefix, tokens, wanted }]).unwrap_err().to_string()
    };
    assert!(refused(&[&[]], 0, &[1], &[true]).contains("prefix 0 is empty"));
    assert!(refused(&[&[1]], 1, &[1], &[true]).contains("continuation 0 names prefix 1, but there are 1"));
    assert!(refused(&[&[1]], 0, &[1, 2], &[true]).contains("has 2 tokens and says of 1"));
    let unknown = u32::try_from(config.vocab_size).unwrap();
    assert!(refused(&[&[1]], 0, &[unknown], &[true]).contains(&format!("token id {unknown} has no row")));
    let error = backprop.backward(&[1.0], &mut Gradients::zeros(&config)).unwrap_err().to_string();
    assert!(error.contains("1 gradients were given for 0 log-probabilities"), "{error}");
}
