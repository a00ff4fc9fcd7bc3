//! Supervised warm-up: makes a starting model that answers some prompts right, by the learner's own updates.

mod accuracy;
mod examples;

use std::num::NonZeroUsize;

use piton_data::{Prompts, Tokenizer};
use piton_lm::generate::SamplingParams;
use piton_lm::{ModelConfig, Weights};
use piton_rng::Seed;
use piton_trainer::AdamWConfig;

use self::accuracy::Examiner;
use self::examples::Examples;
use crate::policy::{Policy, optimizer};
use crate::supervised::cross_entropy_update;
use crate::{Error, Result};

/// How a warm-up trains and when it ends.
#[derive(Debug, Clone)]
pub struct WarmupOptions {
    /// Decides the order of the rows and what evaluations sample.
    pub seed: Seed,
    /// Most updates; each takes one batch.
    pub steps: u64,
    /// Rows of one update.
    pub batch_size: NonZeroUsize,
    /// The optimizer; its rate stays the same after the first `lr_warmup_steps` updates.
    pub optim_cfg: AdamWConfig,
    /// Updates over which the rate rises to its value.
    pub lr_warmup_steps: u64,
    /// Largest number of tokens in one forward pass.
    pub pack_max_length: usize,
    /// When to stop early, and how to look.
    pub target: Option<WarmupTarget>,
}

/// An early end: the share of held-out rows answered right reaches a band.
#[derive(Debug, Clone)]
pub struct WarmupTarget {
    /// Lowest and highest accepted share, from 0 to 1.
    pub accuracy: [f64; 2],
    /// Updates between looks.
    pub every_steps: NonZeroUsize,
    /// How answers are generated.
    pub sampling: SamplingParams,
}

/// What a warm-up tells while it runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WarmupProgress {
    /// Updates made.
    pub step: u64,
    /// Cross-entropy of the last batch, in nats a token.
    pub loss: f64,
    /// Share of held-out rows answered right, at the steps that look.
    pub accuracy: Option<f64>,
}

/// Trains `weights` by cross-entropy on the answers of `train`, each followed by the end-of-sequence token.
///
/// The answer of a row is its `reward_model.ground_truth`, and an answer counts as right when the rule judger says so. The
/// result is a function of the arguments, on one machine with one number of threads.
///
/// # Errors
/// When an option is out of range or a row is longer than `pack_max_length`; when the accuracy passes over the band
/// between two looks; when all steps are made and the band is not reached.
pub fn warmup(
    model: &ModelConfig,
    weights: Weights,
    tokenizer: &Tokenizer,
    train: &Prompts,
    held_out: &Prompts,
    options: &WarmupOptions,
    mut progress: impl FnMut(WarmupProgress),
) -> Result<Weights> {
    if let Some(WarmupTarget { accuracy: [low, high], .. }) = &options.target
        && !(0.0 <= *low && low <= high && *high <= 1.0)
    {
        let fault =
            format!("the accuracy band is {low} to {high}: write two numbers from 0 to 1, the lower first");
        return Err(Error::Warmup(fault));
    }
    let mut policy = Policy::trainable(model, weights)?;
    let mut optimizer = optimizer(&policy, &options.optim_cfg)?;
    let mut examples = Examples::new(train, tokenizer, options.seed)?;
    let mut examiner = match &options.target {
        Some(target) => Some((target, Examiner::new(model, &policy, tokenizer, held_out, options.seed)?)),
        None => None,
    };
    let mut before = None;
    for step in 1..=options.steps {
        let batch = examples.batch(options.batch_size.get());
        let rise = (step as f64 / options.lr_warmup_steps.max(1) as f64).min(1.0);
        let lr = options.optim_cfg.lr * rise;
        let loss = cross_entropy_update(
            &mut policy,
            &mut optimizer,
            &options.optim_cfg,
            lr,
            &batch,
            options.pack_max_length,
        )?;
        let accuracy = match &mut examiner {
            Some((target, examiner)) if step.is_multiple_of(target.every_steps.get() as u64) => {
                Some(examiner.accuracy(&policy, &target.sampling)?)
            }
            _ => None,
        };
        progress(WarmupProgress { step, loss, accuracy });
        if let (Some(accuracy), Some(target)) = (accuracy, &options.target) {
            let [low, high] = target.accuracy;
            if accuracy > high {
                return Err(passed_over(step, before, accuracy, target));
            }
            if accuracy >= low {
                return Ok(policy.weights().snapshot()?);
            }
            before = Some(accuracy);
        }
    }
    match (&options.target, before) {
        (Some(target), before) => Err(not_reached(options.steps, before, target)),
        (None, _) => Ok(policy.weights().snapshot()?),
    }
}

fn passed_over(step: u64, before: Option<f64>, accuracy: f64, target: &WarmupTarget) -> Error {
    let [low, high] = target.accuracy;
    let before = before
        .map_or_else(|| "not looked at before".to_owned(), |before| format!("{before} at the look before"));
    Error::Warmup(format!(
        "held-out accuracy is {accuracy} at step {step} ({before}), past the band {low} to {high}; \
         look more often than every {} steps, or train with a lower rate",
        target.every_steps
    ))
}

fn not_reached(steps: u64, last: Option<f64>, target: &WarmupTarget) -> Error {
    let [low, high] = target.accuracy;
    let last = last.map_or_else(|| "never looked at".to_owned(), |last| last.to_string());
    Error::Warmup(format!(
        "held-out accuracy is {last} after all {steps} steps, below the band {low} to {high}; allow more steps"
    ))
}
