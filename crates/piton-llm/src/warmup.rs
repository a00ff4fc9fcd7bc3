//! `piton-llm warmup`: makes a starting model from rows with answers.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use piton_data::{Dataset, Prompts, Tokenizer};
use piton_grpo::{WarmupOptions, WarmupProgress, WarmupTarget, warmup};
use piton_lm::generate::SamplingParams;
use piton_lm::{ModelConfig, init};
use piton_rng::Seed;
use piton_trainer::AdamWConfig;

#[derive(Debug, Args)]
pub(crate) struct WarmupArgs {
    /// Hugging Face directory with config.json and a tokenizer; model.safetensors is written into it
    model_dir: PathBuf,
    /// JSONL rows to train on
    #[arg(long)]
    train: PathBuf,
    /// JSONL rows to look at
    #[arg(long)]
    held_out: PathBuf,
    /// Seed of the first weights and the order of rows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Most updates
    #[arg(long, default_value_t = 6000)]
    steps: u64,
    /// Rows of one update
    #[arg(long, default_value = "64")]
    batch_size: NonZeroUsize,
    /// Learning rate
    #[arg(long, default_value_t = 3e-3)]
    lr: f64,
    /// Stop when the share of held-out rows answered right is at least this…
    #[arg(long, default_value_t = 0.36)]
    accuracy_low: f64,
    /// …and at most this
    #[arg(long, default_value_t = 0.44)]
    accuracy_high: f64,
    /// Updates between looks
    #[arg(long, default_value = "10")]
    every_steps: NonZeroUsize,
    /// Threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

pub(crate) fn run(args: &WarmupArgs) -> Result<()> {
    piton_torch::set_threads(args.threads)?;
    let config = ModelConfig::read(&args.model_dir.join("config.json"))?;
    let tokenizer = Tokenizer::from_dir(&args.model_dir)?;
    config.check_tokenizer(tokenizer.vocab_size())?;
    let prompts = |path: &PathBuf| -> Result<Prompts> {
        Ok(Prompts::tokenize(&Dataset::read_jsonl(path)?, &tokenizer, None)?)
    };
    let (train, held_out) = (prompts(&args.train)?, prompts(&args.held_out)?);
    let weights = init(&config, Seed(args.seed), tch::Device::Cpu)?;
    let options = WarmupOptions {
        seed: Seed(args.seed),
        steps: args.steps,
        batch_size: args.batch_size,
        optim_cfg: AdamWConfig { lr: args.lr, weight_decay: 0.0, ..AdamWConfig::default() },
        lr_warmup_steps: 50,
        pack_max_length: 16_384,
        target: Some(WarmupTarget {
            accuracy: [args.accuracy_low, args.accuracy_high],
            every_steps: args.every_steps,
            sampling: SamplingParams { max_tokens: 8, temperature: 0.0, ..SamplingParams::default() },
        }),
    };
    let started = Instant::now();
    let progress = |now: WarmupProgress| {
        if let Some(accuracy) = now.accuracy {
            let seconds = started.elapsed().as_secs_f64();
            say(&format!(
                "step {:5}  loss {:.4}  held-out accuracy {accuracy:.3}  {seconds:.0} s",
                now.step, now.loss
            ));
        }
    };
    let weights = warmup(&config, weights, &tokenizer, &train, &held_out, &options, progress)?;
    let path = args.model_dir.join("model.safetensors");
    let mut bytes = Vec::new();
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    piton_torch::write_safetensors(weights.tensors(), &metadata, &mut bytes)?;
    piton_run::write_atomic(&path, &bytes).with_context(|| format!("cannot write {}", path.display()))?;
    say(&format!("{} parameters in {}", weights.num_parameters(), path.display()));
    Ok(())
}

fn say(text: &str) {
    let _closed = std::io::Write::write_all(&mut std::io::stderr(), format!("{text}\n").as_bytes());
}
