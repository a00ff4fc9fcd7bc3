//! Logits and gradients: against transformers (fixtures/golden/lm), and of the two forms against each other.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test or bench: a failure should stop it where it happens"
)]

use std::path::{Path, PathBuf};

use piton_lm::{CausalLm, HfModel, ModelConfig, SharedPrefixBatch, init};
use piton_rng::Seed;
use serde::Deserialize;
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

#[derive(Deserialize)]
struct Golden {
    ids: Vec<Vec<i64>>,
    logits: Vec<Vec<Vec<f32>>>,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/lm").join(name)
}

fn load(name: &str) -> CausalLm {
    // tests run side by side: threads within an operation would only wait for each other
    piton_torch::set_threads(1).unwrap();
    let HfModel { config, mut weights } = HfModel::load(&fixture(name), Device::Cpu).unwrap();
    weights.set_requires_grad(true).unwrap();
    CausalLm::new(config, weights)
}

fn difference(left: &Tensor, right: &Tensor) -> f64 {
    assert_eq!(left.size(), right.size());
    (left - right).abs().max().double_value(&[])
}

/// The largest difference to what transformers computed.
fn off(model: &CausalLm, golden: &Path) -> f64 {
    let golden: Golden = serde_json::from_slice(&std::fs::read(golden).unwrap()).unwrap();
    let logits = model.logits(&Tensor::from_slice2(&golden.ids)).unwrap();
    difference(&logits, &Tensor::from_slice(&golden.logits.concat().concat()).view_as(&logits))
}

#[test]
fn logits_equal_transformers_to_1e_5() {
    for name in MODELS {
        let off = off(&load(name), &fixture(name).join("logits.json"));
        assert!(off < 1e-5, "{name}: off by {off:e}");
    }
}

#[test]
fn the_starting_models_logits_equal_transformers_to_1e_4() {
    // fixtures/golden/lm/chain_sum.py; its logits reach 16, those of the random models 4
    let off = off(&load("../../models/chain-sum"), &fixture("chain-sum.json"));
    assert!(off < 1e-4, "off by {off:e}; after a change of the model: cargo xtask fixtures golden chain_sum");
}

/// Token ids that differ from place to place.
fn tokens(seed: u64, count: usize, vocab: usize) -> Vec<u32> {
    let mut stream = Seed(7).stream("parity test", [seed, 0, 0]);
    (0..count).map(|_| u32::try_from(stream.next_u64() % vocab as u64).unwrap()).collect()
}

/// Lengths of prefixes, and of sequences as (prefix, length).
type Layout<'a> = (&'a [usize], &'a [(usize, usize)]);

/// The targets' log-probabilities, weighted so that every token has its own gradient, by both forms.
fn check_shared(model: &mut CausalLm, (prefixes, sequences): Layout<'_>) {
    let vocab = model.config().vocab_size;
    let prefixes: Vec<Vec<u32>> = (0..).zip(prefixes).map(|(seed, &len)| tokens(seed, len, vocab)).collect();
    let sequences: Vec<(usize, Vec<u32>)> =
        (100..).zip(sequences).map(|(seed, &(prefix, len))| (prefix, tokens(seed, len, vocab))).collect();

    let mut plain = Vec::new();
    for (prefix, tokens) in &sequences {
        let whole = [&prefixes[*prefix][..], tokens].concat();
        let ids: Vec<i64> = whole[..whole.len() - 1].iter().map(|&id| i64::from(id)).collect();
        if !tokens.is_empty() {
            let logits = model.logits(&Tensor::from_slice(&ids).view([1, -1])).unwrap();
            plain.push(logits.squeeze_dim(0).slice(0, prefixes[*prefix].len() as i64 - 1, None, 1));
        }
    }
    let plain = Tensor::cat(&plain, 0);
    let prefix_slices: Vec<&[u32]> = prefixes.iter().map(Vec::as_slice).collect();
    let sequence_slices: Vec<(usize, &[u32])> =
        sequences.iter().map(|(prefix, tokens)| (*prefix, &tokens[..])).collect();
    let batch = SharedPrefixBatch::new(&prefix_slices, &sequence_slices, Device::Cpu).unwrap();
    let shared = model.token_logits(&batch).unwrap();
    assert_eq!(shared.size(), [batch.num_targets() as i64, vocab as i64]);
    let off = difference(&plain, &shared);
    assert!(off < 1e-5, "logits off by {off:e}");

    let scale = 1.0 / batch.num_targets() as f64;
    let weights =
        (Tensor::arange(plain.numel() as i64, (Kind::Float, Device::Cpu)) * 0.7).sin().view_as(&plain);
    let gradients = |logits: &Tensor| {
        let loss = (logits.log_softmax(-1, Kind::Float) * &weights).sum(Kind::Float) * scale;
        let leaves: Vec<&Tensor> = model.weights().tensors().values().collect();
        Tensor::run_backward(&[loss], &leaves, true, false)
    };
    let pairs = gradients(&plain).into_iter().zip(gradients(&shared));
    for (name, (plain, shared)) in model.weights().tensors().keys().zip(pairs) {
        let off = difference(&plain, &shared);
        let largest = plain.abs().max().double_value(&[]);
        assert!(largest > 1e-6, "{name} has no gradient");
        assert!(off < 1e-5 * largest.max(1.0), "gradient of {name} off by {off:e} at {largest:e}");
    }
}

#[test]
fn shared_prefixes_give_the_logits_and_gradients_of_separate_sequences() {
    let layouts: [Layout<'_>; 4] = [
        // equal lengths: nothing is padded
        (&[5, 5], &[(0, 4), (0, 4), (1, 4), (1, 4)]),
        // unequal everything, out of order, with sequences of one token and of none
        (&[3, 11, 1, 6], &[(1, 7), (0, 1), (2, 12), (1, 0), (0, 5), (3, 9), (1, 2), (0, 3), (2, 1)]),
        // several buckets of prefixes, of lengths and of group sizes
        (
            &[2, 40, 3],
            &[
                (0, 2),
                (1, 20),
                (0, 3),
                (2, 19),
                (0, 3),
                (0, 4),
                (1, 2),
                (0, 6),
                (2, 2),
                (0, 2),
                (0, 3),
                (0, 2),
            ],
        ),
        // single tokens only: no sequence row is computed at all
        (&[4, 2], &[(0, 1), (1, 1), (0, 1)]),
    ];
    for name in MODELS {
        let mut model = load(name);
        for layout in layouts {
            check_shared(&mut model, layout);
        }
    }
}

#[test]
fn a_batch_that_the_model_cannot_run_is_refused() {
    let model = load("gqa-tied");
    let refuse = |prefixes: &[&[u32]], sequences: &[(usize, &[u32])]| {
        SharedPrefixBatch::new(prefixes, sequences, Device::Cpu)
            .and_then(|batch| model.token_logits(&batch))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(refuse(&[&[36]], &[(0, &[37])]), "token id 37 has no row: the model's vocab_size is 37");
    assert_eq!(
        refuse(&[&[0; 60]], &[(0, &[0; 5])]),
        "a sequence has 65 tokens with its prefix, the model's max_position_embeddings is 64"
    );
    assert_eq!(refuse(&[&[]], &[(0, &[1])]), "prefix 0 is empty: the first token needs something to follow");
    assert_eq!(refuse(&[&[1]], &[(0, &[1]), (1, &[1])]), "sequence 1 names prefix 1, but there are 1");
    assert_eq!(refuse(&[&[1]], &[(0, &[])]), "no sequence holds a token to predict");
    let error = model.logits(&Tensor::from_slice(&[0_i64, 37]).view([1, 2])).unwrap_err();
    assert_eq!(error.to_string(), "token ids run from 0 to 37: the model's vocab_size is 37");
}

#[test]
fn random_weights_are_a_function_of_seed_and_name() {
    let config = ModelConfig::read(&fixture("gqa-tied/config.json")).unwrap();
    let first = init(&config, Seed(1), Device::Cpu).unwrap();
    let again = init(&config, Seed(1), Device::Cpu).unwrap();
    let other = init(&config, Seed(2), Device::Cpu).unwrap();
    for (name, tensor) in first.tensors() {
        assert!(tensor.equal(&again.tensors()[name]), "{name}");
        if name.contains("norm") {
            assert!(tensor.eq(1.0).all().int64_value(&[]) != 0, "{name}");
        } else {
            assert!(!tensor.equal(&other.tensors()[name]), "{name}");
            let deviation = tensor.std(false).double_value(&[]);
            assert!((deviation - 0.02).abs() < 0.003, "{name} has deviation {deviation}");
        }
    }
    assert!(!first.layer(0).k_proj.equal(first.layer(0).v_proj));
}
