//! Whether the directories of model and tokenizer are there at all: asked before anything large is loaded.

use std::path::Path;

use anyhow::{Result, bail};
use piton_trainer::ColocateTrainerConfig;

/// Checks the directories that the configuration names; what is in the files is the loader's to judge.
pub(super) fn check(config: &ColocateTrainerConfig) -> Result<()> {
    let worker = &config.train_worker_cfg;
    let model = [&["config.json"][..], &["model.safetensors", "model.safetensors.index.json"]];
    match &worker.load_from {
        Some(dir) => directory("train_worker_cfg.load_from", dir, &model)?,
        None => directory("load_from", &config.load_from, &model)?,
    }
    let tokenizer = [&["tokenizer.json"][..]];
    match &config.tokenizer_path {
        Some(dir) => directory("tokenizer_path", dir, &tokenizer)?,
        None => directory("load_from", &config.load_from, &tokenizer)?,
    }
    match worker.ref_load_from.as_ref().filter(|_| worker.loss_cfg.use_kl_loss) {
        Some(dir) => directory("train_worker_cfg.ref_load_from", dir, &model),
        None => Ok(()),
    }
}

/// Of each entry of `files`, one must be there.
fn directory(key: &str, dir: &Path, files: &[&[&str]]) -> Result<()> {
    if !dir.is_dir() {
        bail!(
            "{key} is {}, which is not a directory: write the path of a Hugging Face model, with config.json, \
             model.safetensors and tokenizer.json in it",
            dir.display()
        );
    }
    for names in files {
        if !names.iter().any(|name| dir.join(name).is_file()) {
            bail!(
                "{key} is {}, which has no {}: put it there, or write another path",
                dir.display(),
                names.join(" and no ")
            );
        }
    }
    Ok(())
}
