//! `cargo xtask bench`: the benchmarks of every crate, found by Cargo.

use std::ffi::OsString;

use anyhow::{Context, Result, bail};

use crate::stop::Stop;
use crate::{cargo, libtorch, python};

pub(crate) fn run(args: &[OsString], stop: &Stop) -> Result<()> {
    let wanted = match args {
        [] => String::new(),
        [name] => name.to_string_lossy().into_owned(),
        _ => bail!("bench takes one name at most"),
    };
    let mut names = Vec::new();
    for package in cargo::packages(stop)? {
        let package_name = package["name"].as_str().context("a package without a name")?;
        for target in package["targets"].as_array().into_iter().flatten() {
            let name = target["name"].as_str().unwrap_or_default();
            if target["kind"][0] == "bench" {
                names.push((package_name.to_owned(), name.to_owned()));
            }
        }
    }
    let chosen: Vec<_> = names.iter().filter(|(_, name)| name.contains(&wanted)).collect();
    if chosen.is_empty() {
        let known: Vec<_> = names.iter().map(|(_, name)| name.as_str()).collect();
        bail!("no benchmark's name contains '{wanted}'; there are {}", known.join(", "));
    }
    libtorch::provide(false, stop)?;
    for (package, name) in chosen {
        eprintln!("\n== {package}: {name}");
        let mut bench = cargo::cargo(["bench", "--package", package, "--bench", name]);
        if name.contains("trl") {
            bench.env("PITON_PYTHON", python::provide(stop)?);
        }
        cargo::run(&mut bench, stop)?;
    }
    Ok(())
}
