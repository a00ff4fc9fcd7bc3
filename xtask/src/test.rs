//! `cargo xtask test`: every test of the workspace, then every doctest.

use std::env;
use std::ffi::OsString;
use std::process::Stdio;

use anyhow::{Result, bail};

use crate::stop::Stop;
use crate::{cargo, libtorch, python};

pub(crate) fn run(args: &[OsString], stop: &Stop) -> Result<()> {
    let split = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let mut interop = false;
    for arg in &args[..split] {
        match arg.to_string_lossy().as_ref() {
            "--interop" => interop = true,
            other => bail!("test has no argument '{other}'; the runner's arguments go after --"),
        }
    }
    all(interop, args.get(split + 1..).unwrap_or_default(), stop)
}

/// Runs the tests and doctests; `extra` goes to the runner of the tests.
pub(crate) fn all(interop: bool, extra: &[OsString], stop: &Stop) -> Result<()> {
    libtorch::provide(false, stop)?;
    let python = if interop { Some(python::provide(stop)?) } else { None };

    // The end-to-end tests start the binaries that lie beside them.
    cargo::build(&["--workspace", "--bins"], stop)?;

    let mut tests = if has_nextest(stop) {
        // The profiles say which tests are interop tests: .config/nextest.toml.
        let profile = if interop { "--profile=interop" } else { "--profile=default" };
        let mut nextest = cargo::cargo(["nextest", "run", "--workspace", profile]);
        nextest.args(extra);
        nextest
    } else {
        let mut test = cargo::cargo(["test", "--workspace", "--lib", "--bins", "--tests"]);
        test.args(extra);
        if !interop {
            test.args(if extra.iter().any(|arg| arg == "--") { &[][..] } else { &["--"] });
            test.args(["--skip", "interop::"]);
        }
        test
    };
    match python {
        Some(python) => tests.env("PITON_PYTHON", python),
        None => tests.env_remove("PITON_PYTHON"),
    };
    if env::var_os("INSTA_UPDATE").is_none() {
        tests.env("INSTA_UPDATE", "no"); // a run here only tells; `cargo insta test` takes new snapshots
    }
    cargo::run(&mut tests, stop)?;

    cargo::run(&mut cargo::cargo(["test", "--workspace", "--doc"]), stop)?;
    if !interop {
        println!("interop tests: skipped (run them with cargo xtask test --interop)");
    }
    Ok(())
}

fn has_nextest(stop: &Stop) -> bool {
    let mut version = cargo::cargo(["nextest", "--version"]);
    stop.output(version.stderr(Stdio::null())).is_ok_and(|(status, _)| status.success())
}
