//! `cargo xtask ci`: the gate. Cheap checks first; stops at the first failure.

use std::ffi::OsString;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::stop::Stop;
use crate::{cargo, libtorch, prove, test};

pub(crate) fn run(args: &[OsString], stop: &Stop) -> Result<()> {
    if let Some(arg) = args.first() {
        bail!("ci takes no argument, and was given '{}'", arg.display());
    }
    let start = Instant::now();
    let header = |name: &str| eprintln!("\n== {name} ({} s)", start.elapsed().as_secs());
    let step = |name: &str, command: &mut Command| {
        header(name);
        cargo::run(command, stop).with_context(|| format!("to repeat it: {}", cargo::shown(command)))
    };

    step("formatting", &mut cargo::cargo(["fmt", "--all", "--check"]))?;
    header("libtorch");
    eprintln!("{}", libtorch::provide(false, stop)?);
    step("clippy", &mut cargo::cargo(CLIPPY))?;
    step(
        "documentation",
        cargo::cargo(["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    for package in cargo::packages(stop)? {
        // A crate that only builds among the others lacks a dependency or a feature of its own.
        let name = package["name"].as_str().context("a package without a name")?;
        step(&format!("{name} alone"), &mut cargo::cargo(["check", "--locked", "--package", name]))?;
    }
    header("proofs, sampled");
    prove::sample(stop).context("to repeat it: cargo xtask prove")?;
    header("tests");
    test::all(true, &[], stop).context("to repeat it: cargo xtask test --interop")?;
    header("all passed");
    Ok(())
}

const CLIPPY: [&str; 7] = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
