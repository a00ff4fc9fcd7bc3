//! What several tests need: a tiny model, a batch for it, a learner, a checkpoint store.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a failure of a test should stop it where it happens"
)]

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use piton_checkpoint::{Checkpoint, Overwrite, Store, StoreOptions};
use piton_grpo::{GrpoLearner, PublishWeights, Result};
use piton_lm::{HfModel, Weights};
use piton_rng::Seed;
use piton_run::Stop;
use piton_trainer::{
    AdamWConfig, FitContext, FitOutcome, GrpoLossConfig, LrConfig, PolicyLossConfig, PolicyLossType,
    SaveRequest, TrainController, TrainSample, WorkerConfig,
};
use serde::Deserialize;
use tch::Device;

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// 48 tokens, two layers, 6 k parameters: fixtures/golden/grpo/update.py.
pub fn tiny_model() -> HfModel {
    HfModel::load(&fixtures().join("golden/grpo/update"), Device::Cpu).unwrap()
}

pub fn worker(optimizer_steps: usize, lr: f64) -> WorkerConfig {
    WorkerConfig {
        load_from: None,
        optim_cfg: AdamWConfig { lr, ..AdamWConfig::default() },
        lr_cfg: LrConfig { warmup_ratio: 0.0, ..LrConfig::default() },
        loss_cfg: GrpoLossConfig {
            policy_loss_cfg: PolicyLossConfig {
                loss_type: PolicyLossType::Vanilla,
                cliprange_low: 0.2,
                cliprange_high: 0.28,
                clip_ratio_c: 3.0,
                log_prob_diff_min: -20.0,
                log_prob_diff_max: 20.0,
            },
            use_kl_loss: false,
            kl_loss_coef: 0.0,
            kl_loss_type: None,
        },
        optimizer_steps,
        pack_max_length: 40,
        ref_load_from: None,
        seed: None,
    }
}

/// A publisher that remembers what it was given.
#[derive(Clone, Default)]
pub struct Held(Arc<Mutex<Option<(Weights, u64)>>>);

impl Held {
    pub fn step(&self) -> Option<u64> {
        self.0.lock().unwrap().as_ref().map(|(_, step)| *step)
    }
}

impl PublishWeights for Held {
    fn publish(&self, weights: &Weights, model_step: u64) -> Result<()> {
        *self.0.lock().unwrap() = Some((weights.snapshot()?, model_step));
        Ok(())
    }

    fn published(&self) -> Result<(Weights, u64)> {
        let held = self.0.lock().unwrap();
        let (weights, step) = held.as_ref().expect("published before");
        Ok((weights.snapshot()?, *step))
    }
}

pub fn learner(config: WorkerConfig) -> (GrpoLearner, Held) {
    let held = Held::default();
    let companions = fixtures().join("models/chain-sum");
    (GrpoLearner::new(config, tiny_model(), None, Box::new(held.clone()), companions).unwrap(), held)
}

/// A batch of step `step`: four groups of three samples with random tokens and advantages.
pub fn batch(step: u64) -> Vec<TrainSample> {
    (0..12).map(|at| sample(step, at)).collect()
}

fn sample(step: u64, at: u64) -> TrainSample {
    let group = at / 3;
    let mut prompt = Seed(step).stream("prompt", [group, 0, 0]);
    let mut rng = Seed(step).stream("response", [at, 0, 0]);
    let (prompt_len, response_len) = (1 + below(&mut prompt, 7), 1 + below(&mut rng, 7));
    let mut tokens: Vec<u32> = (0..prompt_len).map(|_| below(&mut prompt, 48)).collect();
    tokens.extend((0..response_len).map(|_| below(&mut rng, 48)));
    let (prompt_len, response_len) = (prompt_len as usize, response_len as usize);
    let advantage = [-0.75, 0.25, 0.5][usize::try_from(at % 3).unwrap()];
    TrainSample {
        group_id: group,
        rollout_id: at,
        tokens,
        prompt_len,
        loss_mask: vec![true; response_len],
        advantages: vec![advantage; response_len],
        rollout_log_probs: vec![-3.9; response_len],
    }
}

fn below(rng: &mut piton_rng::Rng, limit: u64) -> u32 {
    u32::try_from(rng.below(NonZeroU64::new(limit).unwrap())).unwrap()
}

pub fn fit(learner: &mut GrpoLearner, step: u64, batch: &[TrainSample]) -> FitOutcome {
    learner.fit(batch, FitContext { step, total_train_steps: 4, stop: &Stop::manual() }).unwrap()
}

/// The metrics of a step that must have trained.
pub fn trained(outcome: FitOutcome) -> std::collections::BTreeMap<String, f64> {
    match outcome {
        FitOutcome::Trained(metrics) => metrics,
        FitOutcome::Stopped => panic!("stopped"),
    }
}

pub fn store(dir: &Path) -> Store {
    Store::open(dir.join("checkpoints"), StoreOptions::new("run", "digest", || 0)).unwrap()
}

pub fn save(store: &mut Store, learner: &mut GrpoLearner, step: u64, model_step: u64) -> Checkpoint {
    let request = SaveRequest { step, model_step, no_save_optimizer: false };
    store.save(step, Overwrite::Refuse, |stage| learner.save(stage, request)).unwrap()
}

/// The golden step of fixtures/golden/grpo/update.py.
#[derive(Deserialize)]
pub struct GoldenStep {
    pub settings: GoldenSettings,
    pub updates: Vec<GoldenUpdate>,
    pub batch: Vec<GoldenSample>,
}

#[derive(Deserialize)]
pub struct GoldenSettings {
    pub lr: f64,
    pub kl_loss_coef: f64,
}

#[derive(Deserialize)]
pub struct GoldenUpdate {
    pub loss: f64,
    pub grad_norm: f64,
}

#[derive(Deserialize)]
pub struct GoldenSample {
    pub group_id: u64,
    pub tokens: Vec<u32>,
    pub prompt_len: usize,
    pub loss_mask: Vec<bool>,
    pub advantages: Vec<f32>,
    pub rollout_log_probs: Vec<f32>,
}
