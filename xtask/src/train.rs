//! `cargo xtask train`: provide libtorch, build, and become `piton`.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::stop::Stop;
use crate::{cargo, libtorch, wants_help};

/// Returns only when something failed: otherwise this process has become the trainer.
pub(crate) fn run(args: &[OsString], stop: &Stop) -> Result<()> {
    // The high-level trainer is part of piton itself, and so is every page of help.
    let high_level = args.first().is_some_and(|first| first == "hrl-high");
    let mut build = vec!["--release", "--package=piton"];
    if !high_level && !wants_help(args) {
        libtorch::provide(false, stop)?;
        build.push("--package=piton-llm");
    }
    if !target_dir().join("release/piton").exists() {
        eprintln!("building piton in release mode; the first time takes several minutes");
    }
    let executables = cargo::build(&build, stop)?;
    let piton = executables.get("piton").context("cargo built piton, but did not say where")?;

    let mut command = Command::new(piton);
    cargo::clean(&mut command);
    if !high_level {
        command.arg("train");
    }
    Err(command.args(args).exec()).with_context(|| format!("cannot start {}", piton.display()))
}

/// Where a first build shows; only for a message.
fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| cargo::root().join("target"), |dir| Path::new(&dir).to_path_buf())
}
