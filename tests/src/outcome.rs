//! What a run leaves behind, reduced to what must not depend on how often it was stopped or killed.

use std::collections::BTreeMap;
use std::path::Path;

use piton_checkpoint::Store;
use piton_trainer::is_volatile;
use serde_json::{Map, Value};
use walkdir::WalkDir;

/// Files of an experiment by path, the tracker's lines among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome(BTreeMap<String, Vec<u8>>);

impl Outcome {
    /// Of the newest checkpoint every file but the manifest, all trajectories and exports, and the tracker's lines without clock
    /// and machine values.
    ///
    /// # Panics
    /// When something is damaged or left lying about.
    pub fn of(exp_dir: &Path) -> Self {
        let checkpoints = exp_dir.join("checkpoints");
        let found = Store::open_read_only(&checkpoints).and_then(|reader| reader.discover());
        let found = found.expect("the checkpoints can be read");
        assert!(found.rejected.is_empty(), "{:?}", found.rejected);
        let newest = found.valid.expect("there is a checkpoint");
        let mut files = BTreeMap::new();
        collect(exp_dir, newest.path(), &mut files);
        files.retain(|path, _| !path.ends_with("MANIFEST.json"));
        for folder in ["train_rollout", "eval_rollout", "hf"] {
            let folder = exp_dir.join(folder);
            if folder.exists() {
                collect(exp_dir, &folder, &mut files);
            }
        }
        let tracker = std::fs::read_to_string(exp_dir.join("logs/exp_tracking/tracker.jsonl"));
        for line in tracker.expect("there is a tracker").lines() {
            let mut line: Map<String, Value> =
                serde_json::from_str(line).expect("a tracker's line is an object");
            line.retain(|tag, _| !is_volatile(tag));
            let once =
                files.insert(format!("tracker, step {}", line["step"]), Value::from(line).to_string().into());
            assert!(once.is_none(), "a step has two lines");
        }
        let left: Vec<_> = names(&checkpoints)
            .filter(|name| name.starts_with(".tmp") || name.starts_with(".trash"))
            .collect();
        assert!(left.is_empty(), "left over: {left:?}");
        Self(files)
    }

    /// Names of what is not the same in both.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let paths: std::collections::BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        let differs = |path: &&&String| self.0.get(**path) != other.0.get(**path);
        paths.iter().filter(differs).map(|path| (*path).clone()).collect()
    }
}

/// Fails and names the difference unless both experiments came to the same end.
///
/// # Panics
/// As said.
pub fn assert_same_end(expected: &Path, found: &Path) {
    let differences = Outcome::of(expected).differences(&Outcome::of(found));
    assert!(differences.is_empty(), "{} is not as it would have been: {differences:#?}", found.display());
}

fn collect(root: &Path, dir: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in WalkDir::new(dir).sort_by_file_name() {
        let entry = entry.expect("the experiment can be listed");
        if entry.file_type().is_file() {
            let path = entry.path().strip_prefix(root).expect("it is below the root").display().to_string();
            files.insert(path, std::fs::read(entry.path()).expect("the experiment can be read"));
        }
    }
}

fn names(dir: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(dir).expect("the folder can be listed");
    entries.filter_map(Result::ok).map(|entry| entry.file_name().to_string_lossy().into_owned())
}
