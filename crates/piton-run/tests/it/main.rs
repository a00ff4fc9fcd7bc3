//! Tests of what the crate promises, through its public items and with real processes.

#![expect(clippy::unwrap_used, reason = "clippy allows it in test functions but not in their helpers")]

mod atomic;
mod child;
mod config;
mod environment;
mod events;
mod experiment;
mod lock;
mod stop;
mod tracker;
mod trajectory;
mod worker;

use std::path::Path;

/// Every file below `dir` with its content, sorted by path.
fn tree(dir: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            files.extend(tree(&path).into_iter().map(|(below, text)| (format!("{name}/{below}"), text)));
        } else {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            files.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    files.sort();
    files
}
