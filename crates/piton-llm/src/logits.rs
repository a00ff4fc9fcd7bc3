//! `piton-llm logits`: what this project's model computes, for comparison with other implementations.

use std::io::{Write, stdin, stdout};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use piton_lm::{CausalLm, HfModel};
use serde_json::json;
use tch::{Device, Tensor};

/// Standard input holds the token ids of sequences as JSON, batch by length; standard output gets `ids` and `logits`, one row of the vocabulary a token.
#[derive(Debug, Args)]
pub(crate) struct LogitsArgs {
    /// Hugging Face directory with config.json and model.safetensors
    model_dir: PathBuf,
}

pub(crate) fn run(args: &LogitsArgs) -> Result<()> {
    piton_torch::set_threads(1)?;
    let ids: Vec<Vec<i64>> =
        serde_json::from_reader(stdin().lock()).context("token ids on stdin: expected JSON [B][T]")?;
    let HfModel { config, weights } = HfModel::load(&args.model_dir, Device::Cpu)?;
    let model = CausalLm::new(config, weights);
    let logits: Vec<_> = ids.iter().map(|ids| of_sequence(&model, ids)).collect::<Result<_>>()?;
    let mut out = stdout().lock();
    serde_json::to_writer(&mut out, &json!({"ids": ids, "logits": logits}))
        .context("cannot write the logits")?;
    out.write_all(b"\n").context("cannot write the logits")
}

/// `[T][V]`
fn of_sequence(model: &CausalLm, ids: &[i64]) -> Result<Vec<Vec<f32>>> {
    let ids = Tensor::f_from_slice(ids)?.f_unsqueeze(0)?;
    let logits = tch::no_grad(|| model.logits(&ids))?.f_squeeze_dim(0)?;
    Ok(Vec::try_from(logits)?)
}
