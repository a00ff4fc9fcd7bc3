//! The warm-up that makes starting models.

#![allow(clippy::unwrap_used, reason = "a failure of a test should stop it where it happens")]

mod common;

use std::num::NonZeroUsize;

use common::fixtures;
use piton_data::{Dataset, Prompts, Tokenizer};
use piton_grpo::{Result, WarmupOptions, WarmupProgress, WarmupTarget, warmup};
use piton_lm::generate::SamplingParams;
use piton_lm::{ModelConfig, Weights, init};
use piton_rng::Seed;
use piton_trainer::AdamWConfig;
use tch::Device;

/// The first 64 rows of the default recipe's warm-up prompts.
fn prompts(tokenizer: &Tokenizer) -> Prompts {
    let path = fixtures().join("prompts/chain_sum/warmup.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let head: String = text.split_inclusive('\n').take(64).collect();
    Prompts::tokenize(&Dataset::from_jsonl(path, head.as_bytes()).unwrap(), tokenizer, None).unwrap()
}

fn options(steps: u64, accuracy: Option<[f64; 2]>) -> WarmupOptions {
    let target = |accuracy| WarmupTarget {
        accuracy,
        every_steps: NonZeroUsize::new(2).unwrap(),
        sampling: SamplingParams { max_tokens: 4, ..SamplingParams::default() },
    };
    WarmupOptions {
        seed: Seed(5),
        steps,
        batch_size: NonZeroUsize::new(16).unwrap(),
        optim_cfg: AdamWConfig { lr: 1e-2, ..AdamWConfig::default() },
        lr_warmup_steps: 2,
        pack_max_length: 512,
        target: accuracy.map(target),
    }
}

fn run(options: &WarmupOptions) -> (Result<Weights>, Vec<WarmupProgress>) {
    let dir = fixtures().join("models/chain-sum");
    let tokenizer = Tokenizer::from_dir(&dir).unwrap();
    let model = ModelConfig::read(&dir.join("config.json")).unwrap();
    let weights = init(&model, Seed(1), Device::Cpu).unwrap();
    let prompts = prompts(&tokenizer);
    let mut told = Vec::new();
    let done =
        warmup(&model, weights, &tokenizer, &prompts, &prompts, options, |progress| told.push(progress));
    (done, told)
}

#[test]
fn it_lowers_the_loss_and_does_the_same_each_time() {
    let (first, told) = run(&options(12, None));
    // ln 512 = 6.24 is what a model says that knows nothing
    assert!((told[0].loss - 6.24).abs() < 0.2, "{}", told[0].loss);
    assert!(told[11].loss < 4.0, "{}", told[11].loss);
    let (second, again) = run(&options(12, None));
    assert_eq!(told, again);
    let (first, second) = (first.unwrap(), second.unwrap());
    for (name, tensor) in first.tensors() {
        assert_eq!(tensor, &second.tensors()[name], "{name}");
    }
}

#[test]
fn it_ends_when_the_accuracy_is_in_the_band() {
    let (done, told) = run(&options(12, Some([0.0, 1.0])));
    done.unwrap();
    assert_eq!(told.len(), 2);
    assert!(told[1].accuracy.is_some() && told[0].accuracy.is_none());
}

#[test]
fn a_band_that_is_not_reached_is_an_error() {
    let (done, told) = run(&options(4, Some([0.9, 1.0])));
    let accuracy = told[3].accuracy.unwrap();
    assert_eq!(
        done.unwrap_err().to_string(),
        format!(
            "warm-up: held-out accuracy is {accuracy} after all 4 steps, below the band 0.9 to 1; allow more steps"
        )
    );
}
