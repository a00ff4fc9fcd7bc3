//! What `crates/README.md` says about the crates, held against what Cargo says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates that do not link libtorch. Each exists: `cargo tree` refuses an unknown name.
const ABOVE_THE_LINE: [&str; 10] = [
    "piton-rng",
    "piton-algo",
    "piton-checkpoint",
    "piton-replay",
    "piton-run",
    "piton-data",
    "piton-agent",
    "piton-trainer",
    "piton-prove",
    "piton",
];

const BELOW_THE_LINE: [&str; 4] = ["piton-torch", "piton-lm", "piton-grpo", "piton-llm"];

#[test]
fn nothing_above_the_line_depends_on_libtorch() {
    for package in ABOVE_THE_LINE {
        let tree = dependencies(package);
        for absent in ["tch", "torch-sys"] {
            assert!(!tree.contains(absent), "{package} must not depend on {absent}");
        }
    }
    for package in BELOW_THE_LINE {
        assert!(dependencies(package).contains("tch"), "{package} stands below the line without need");
    }
}

#[test]
fn the_stores_need_no_async_runtime() {
    for package in ["piton-checkpoint", "piton-replay"] {
        assert!(!dependencies(package).contains("tokio"), "{package} must not depend on tokio");
    }
    assert!(dependencies("piton-agent").contains("tokio"), "the test would see tokio where it is");
}

#[test]
fn without_its_serde_feature_piton_algo_has_no_dependencies() {
    let tree = tree(&["--package=piton-algo", "--no-default-features"]);
    assert_eq!(tree, BTreeSet::from(["piton-algo".to_owned()]));
}

#[test]
fn only_the_commands_use_anyhow() {
    let users: BTreeSet<_> = packages()
        .into_iter()
        .filter(|package| normal_dependencies(package).any(|name| name == "anyhow"))
        .map(|package| text(&package["name"]))
        .collect();
    let commands = ["piton", "piton-llm", "piton-prove", "xtask"].map(str::to_owned);
    assert!(users.is_subset(&BTreeSet::from(commands)), "only commands use anyhow: {users:?}");
}

#[test]
fn the_graph_on_the_page_is_the_real_one() {
    let page = std::fs::read_to_string(root().join("crates/README.md")).unwrap();
    let mut real = BTreeMap::new();
    for package in packages() {
        let name = text(&package["name"]);
        if !name.starts_with("piton") || name == "piton-tests" {
            continue;
        }
        assert!(page.contains(&format!("\n| `{name}` | ")), "crates/README.md has no line about {name}");
        let edges: BTreeSet<_> = normal_dependencies(&package).filter(|to| to.starts_with("piton")).collect();
        real.insert(name, edges);
    }
    let crates: BTreeSet<_> = real.keys().map(String::as_str).collect();
    assert_eq!(crates, ABOVE_THE_LINE.into_iter().chain(BELOW_THE_LINE).collect(), "the lists of this file");

    let expected: String = real.iter().map(|(from, to)| edge_line(from, to)).collect();
    let drawn: String = page
        .lines()
        .skip_while(|line| *line != "graph TD")
        .skip(1)
        .take_while(|line| *line != "```")
        .filter(|line| !line.trim_start().starts_with("class"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(drawn, expected, "crates/README.md should draw\n\n{expected}");
}

/// `    piton-lm --> piton-rng & piton-torch`, or the crate alone.
fn edge_line(from: &str, to: &BTreeSet<String>) -> String {
    if to.is_empty() {
        return format!("    {from}\n");
    }
    format!("    {from} --> {}\n", to.iter().map(String::as_str).collect::<Vec<_>>().join(" & "))
}

/// Every package that `package` links, itself included, with the features that it alone switches on.
fn dependencies(package: &str) -> BTreeSet<String> {
    tree(&["--package", package])
}

fn tree(args: &[&str]) -> BTreeSet<String> {
    let args = [&["tree", "--edges=normal", "--prefix=none", "--format={p}"], args].concat();
    cargo(&args).lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

fn packages() -> Vec<Value> {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version=1"])).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn normal_dependencies(package: &Value) -> impl Iterator<Item = String> {
    let dependencies = package["dependencies"].as_array().unwrap();
    dependencies
        .iter()
        .filter(|dependency| dependency["kind"].is_null())
        .map(|dependency| text(&dependency["name"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn cargo(args: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output =
        Command::new(cargo).args(args).args(["--offline", "--locked"]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "cargo {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
