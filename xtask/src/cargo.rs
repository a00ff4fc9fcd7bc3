//! Cargo, started from a program that Cargo started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::libtorch;
use crate::stop::Stop;

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    let xtask =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    xtask.parent().map_or_else(|| xtask.clone(), Path::to_path_buf)
}

/// `cargo <args>` at the root of the checkout, in the environment that this program's caller had.
pub(crate) fn cargo<const N: usize>(args: [&str; N]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    clean(&mut command);
    command
}

/// Removes what Cargo set when it started this program, and what would describe another package to a child.
pub(crate) fn clean(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            command.env_remove(&name);
        }
    }
    if libtorch::own().is_none() {
        command.env_remove("LIBTORCH");
    }
}

/// Runs a command of ours to its end; an error when it fails.
pub(crate) fn run(command: &mut Command, stop: &Stop) -> Result<()> {
    let status = stop.status(command)?;
    if !status.success() {
        bail!("{} failed ({status})", shown(command));
    }
    Ok(())
}

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    let quoted = words.map(|word| {
        let word = word.to_string_lossy();
        if word.contains([' ', '*', '\'', '(']) { format!("'{word}'") } else { word.into_owned() }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Builds binaries and returns their paths by name, wherever the target directory is.
pub(crate) fn build(args: &[&str], stop: &Stop) -> Result<BTreeMap<String, PathBuf>> {
    let mut command = cargo(["build", "--message-format=json-render-diagnostics"]);
    let (status, messages) = stop.output(command.args(args).stderr(io::stderr()))?;
    if !status.success() {
        bail!("cargo build {} failed ({status})", args.join(" "));
    }
    let mut executables = BTreeMap::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).context("cargo printed a line that is not JSON")?;
        if let (Some(path), Some(name)) = (message["executable"].as_str(), message["target"]["name"].as_str())
        {
            executables.insert(name.to_owned(), PathBuf::from(path));
        }
    }
    Ok(executables)
}

/// `cargo metadata` of the workspace's own packages.
pub(crate) fn packages(stop: &Stop) -> Result<Vec<Value>> {
    let (status, text) = stop.output(&mut cargo(["metadata", "--no-deps", "--format-version=1"]))?;
    if !status.success() {
        bail!("cargo metadata failed ({status})");
    }
    let metadata: Value = serde_json::from_str(&text)?;
    Ok(metadata["packages"].as_array().cloned().unwrap_or_default())
}
