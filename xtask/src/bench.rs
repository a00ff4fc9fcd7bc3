//! `cargo xtask bench`: the benchmarks of every crate, found by Cargo, and the same work by Python packages.
//!
//! What `benches/NAME_PEER.py` measures is compared with the benchmark NAME beside it; a script is called with
//! the number of threads and of runs.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::available_parallelism;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::stop::Stop;
use crate::{cargo, libtorch, python};

const RUNS: &str = "7";

pub(crate) fn run(args: &[OsString], stop: &Stop) -> Result<()> {
    let interop = args.iter().any(|arg| arg == "--interop");
    let wanted: Vec<_> = args.iter().filter(|arg| *arg != "--interop").collect();
    let wanted = match wanted[..] {
        [] => String::new(),
        [name] => name.to_string_lossy().into_owned(),
        _ => bail!("bench takes one name at most"),
    };
    let all = benches(&cargo::packages(stop)?)?;
    let chosen: Vec<_> = all.iter().filter(|bench| bench.name.contains(&wanted)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = all.iter().map(|bench| bench.name.as_str()).collect();
        bail!("no benchmark's name contains '{wanted}'; there are {}", names.join(", "));
    }
    libtorch::provide(false, stop)?;
    let python = if interop { Some(python::provide(stop)?) } else { None };
    for bench in chosen {
        eprintln!("\n== {}: {}", bench.package, bench.name);
        let mut command = cargo::cargo(["bench", "--package", &bench.package, "--bench", &bench.name]);
        cargo::run(&mut command, stop)?;
        for peer in bench.peers()? {
            eprintln!("\n== {}: {}", bench.package, peer.display());
            match &python {
                None => eprintln!("skipped: a comparison with Python packages, run with --interop"),
                Some(python) => {
                    let threads = available_parallelism().map_or(1, usize::from).to_string();
                    cargo::run(Command::new(python).arg(peer).args([&threads, RUNS]), stop)?;
                }
            }
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Bench {
    package: String,
    name: String,
    source: PathBuf,
}

impl Bench {
    /// The scripts that do the same work by something else.
    fn peers(&self) -> Result<Vec<PathBuf>> {
        let folder = self.source.parent().unwrap_or(Path::new("."));
        let prefix = format!("{}_", self.name);
        let mut peers = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(&prefix) && name.ends_with(".py") {
                peers.push(entry.path());
            }
        }
        peers.sort();
        Ok(peers)
    }
}

fn benches(packages: &[Value]) -> Result<Vec<Bench>> {
    let mut benches = Vec::new();
    for package in packages {
        for target in package["targets"].as_array().into_iter().flatten() {
            if target["kind"][0] == "bench" {
                let text =
                    |value: &Value| value.as_str().map(str::to_owned).context("cargo metadata lacks a name");
                benches.push(Bench {
                    package: text(&package["name"])?,
                    name: text(&target["name"])?,
                    source: PathBuf::from(text(&target["src_path"])?),
                });
            }
        }
    }
    Ok(benches)
}
