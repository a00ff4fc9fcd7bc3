//! Files of a run, held as text: what a user's own regression tests can do, too.

use std::collections::BTreeMap;
use std::path::Path;

use insta::assert_snapshot;
use piton_checkpoint::{RenderOptions, render};
use piton_tests::SmallRun;
use piton_trainer::{RunContext, is_volatile};
use serde_json::Value;

use crate::start::Started;

/// The real trainer's checkpoint: names, sizes, documents, and every tensor with its type and shape. The digests stay out, since
/// the last bits of weights differ between processors.
#[test]
fn checkpoint_of_the_default_recipe() {
    let run = Started::new();
    let manifest = run.files().into_keys().find(|path| path.ends_with("ckpt-step-2/MANIFEST.json")).unwrap();
    assert_snapshot!("checkpoint", render(manifest.parent().unwrap(), &RenderOptions::default()).unwrap());
}

/// With fakes for learner and engine every figure is exact, so that the lines stand as they are.
#[test]
fn tracker_and_trajectories_of_two_steps() {
    let run = SmallRun::new();
    let config = SmallRun::config(run.config_json(2, false));
    let (mut trainer, _) = run.build(config, RunContext::default()).unwrap();
    trainer.fit().unwrap();
    let exp_dir = trainer.exp_dir();
    assert_snapshot!("tracker", lines(&exp_dir.join("logs/exp_tracking/tracker.jsonl")));
    assert_snapshot!("trajectories", lines(&exp_dir.join("train_rollout/train_rollout_1.jsonl")));
}

/// A JSONL file, indented, without what depends on the clock or the machine.
fn lines(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let line = |line: &str| {
        let mut value: BTreeMap<String, Value> = serde_json::from_str(line).unwrap();
        value.retain(|key, _| !is_volatile(key));
        serde_json::to_string_pretty(&value).unwrap() + "\n"
    };
    text.lines().map(line).collect()
}
