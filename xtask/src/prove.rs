//! `cargo xtask prove`: kills, faults, power cuts and damage, done to the checkpoint store and to whole runs.
//!
//! The store's proofs are those of `piton-prove`. Two more are tests of whole runs with raised counts: `trainer` kills
//! the trainer at random moments, `stop` sends it signals.

use std::ffi::OsString;

use anyhow::{Result, bail};

use crate::stop::Stop;
use crate::{cargo, libtorch, python};

/// A test of whole runs: its name here, the module of the tests, what its count is called, and how many to make in the
/// sampled and in the long form.
const RUNS: [(&str, &str, &str, [&str; 2]); 2] = [
    ("trainer", "kill_resume", "PITON_KILLS", ["8", "200"]),
    ("stop", "signals", "PITON_STOPS", ["8", "200"]),
];

pub(crate) fn run(args: &[OsString], stop: &Stop) -> Result<()> {
    let (runs, mut of_store): (Vec<_>, Vec<_>) =
        args.iter().cloned().partition(|arg| RUNS.iter().any(|(name, ..)| arg == name));
    let long = args.iter().any(|arg| arg == "--long");
    let named = names_a_proof(&of_store);
    if named || runs.is_empty() {
        store(&mut of_store, stop)?;
    } else if let Some(arg) = of_store.iter().find(|arg| *arg != "--long") {
        bail!("the proofs of whole runs take --long only, and were given '{}'", arg.display());
    }
    // without a name everything is proven, the whole runs last
    let all = !named && runs.is_empty();
    for (name, module, count, sizes) in RUNS {
        if all || runs.iter().any(|run| run == name) {
            let size = sizes[usize::from(long)];
            eprintln!("{name}: the tests {module}, {count}={size}");
            libtorch::provide(false, stop)?;
            cargo::build(&["--workspace", "--bins"], stop)?;
            // not nextest, which would end a long test
            let filter = format!("{module}::");
            let mut tests = cargo::cargo([
                "test",
                "--package",
                "piton-tests",
                "--test",
                "it",
                "--",
                "--nocapture",
                &filter,
            ]);
            cargo::run(tests.env(count, size).env("PITON_THREADS", "2"), stop)?;
        }
    }
    Ok(())
}

/// Whether an argument is a name, rather than an option or an option's value.
fn names_a_proof(args: &[OsString]) -> bool {
    let is_option = |arg: &OsString| arg.to_string_lossy().starts_with("--");
    let takes_value = |arg: &OsString| ["--dir", "--seed", "--python"].iter().any(|option| arg == option);
    let before = std::iter::once(None).chain(args.iter().map(Some));
    args.iter().zip(before).any(|(arg, before)| !is_option(arg) && !before.is_some_and(takes_value))
}

/// The proofs of the store alone, in the form for CI.
pub(crate) fn sample(stop: &Stop) -> Result<()> {
    store(&mut Vec::new(), stop)
}

fn store(args: &mut Vec<OsString>, stop: &Stop) -> Result<()> {
    if let Some(interop) = args.iter().position(|arg| arg == "--interop") {
        args.splice(interop..=interop, ["--python".into(), python::provide(stop)?.into()]);
    }
    let mut command =
        cargo::cargo(["run", "--quiet", "--release", "--locked", "--package", "piton-prove", "--"]);
    cargo::run(command.args(args.drain(..)), stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_an_option_is_not_a_name() {
        let named = |line: &str| names_a_proof(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(named("kill") && named("--long kill") && named("--dir /mnt power"));
        assert!(!named("--long") && !named("--dir /mnt --seed 3"));
    }
}
