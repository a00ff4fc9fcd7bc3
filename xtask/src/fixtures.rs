//! `cargo xtask fixtures NAME`: make committed test data again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::stop::Stop;
use crate::{cargo, libtorch, python};

pub(crate) fn run(args: &[OsString], stop: &Stop) -> Result<()> {
    let words: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words[..] {
        ["prompts"] => script(Path::new("fixtures/prompts/make_prompts.py"), stop),
        ["tokenizer"] => script(Path::new("fixtures/models/make_tokenizer.py"), stop),
        ["model"] => model(stop),
        ["golden"] => golden("", stop),
        ["golden", name] => golden(name, stop),
        _ => bail!("fixtures needs a name: prompts, tokenizer, model, golden or golden NAME"),
    }
}

/// Trains the starting weights, with the learner of this workspace.
fn model(stop: &Stop) -> Result<()> {
    libtorch::provide(false, stop)?;
    let executables = cargo::build(&["--release", "--package=piton-llm"], stop)?;
    let llm = executables.get("piton-llm").context("cargo built piton-llm, but did not say where")?;
    let mut warmup = Command::new(llm);
    cargo::clean(&mut warmup);
    warmup.args(["warmup", "fixtures/models/chain-sum"]);
    warmup.args(["--train", "fixtures/prompts/chain_sum/warmup.jsonl"]);
    warmup.args(["--held-out", "fixtures/prompts/chain_sum/heldout.jsonl"]);
    cargo::run(warmup.current_dir(cargo::root()), stop)
}

/// Runs the scripts of `fixtures/golden` whose path contains `wanted`.
fn golden(wanted: &str, stop: &Stop) -> Result<()> {
    let mut scripts = Vec::new();
    collect_scripts(&cargo::root().join("fixtures/golden"), &mut scripts)?;
    scripts.retain(|path| path.to_string_lossy().contains(wanted));
    if scripts.is_empty() {
        bail!("no script in fixtures/golden has '{wanted}' in its path");
    }
    scripts.sort();
    scripts.iter().try_for_each(|path| script(path, stop))
}

fn collect_scripts(dir: &Path, scripts: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect_scripts(&path, scripts)?;
        } else if path.extension().is_some_and(|extension| extension == "py") {
            scripts.push(path.strip_prefix(cargo::root()).unwrap_or(&path).to_path_buf());
        }
    }
    Ok(())
}

/// Runs a script from the root of the checkout with the pinned Python packages.
fn script(path: &Path, stop: &Stop) -> Result<()> {
    eprintln!("== {}", path.display());
    let mut python = Command::new(python::provide(stop)?);
    python.arg(path).current_dir(cargo::root()).env("PYTHONDONTWRITEBYTECODE", "1");
    if env::var_os("CUDA_VISIBLE_DEVICES").is_none() {
        python.env("CUDA_VISIBLE_DEVICES", ""); // the committed numbers are the CPU's
    }
    cargo::run(&mut python, stop)
}
