//! What a run's numbers do not depend on, and what they equal to the bit.

use piton_tests::{Trainer, assert_same_end};
use serde_json::Value;

/// Long enough that the policy has left the starting model, and with the reference model's term.
const SETS: [&str; 4] = [
    "train_batch_size=16",
    "train_worker_cfg.optimizer_steps=2",
    "train_worker_cfg.loss_cfg.use_kl_loss=true",
    "train_worker_cfg.loss_cfg.kl_loss_type=k3",
];

fn finished(threads: &str) -> Trainer {
    let trainer = Trainer::new(&[&SETS[..], &[threads]].concat());
    trainer.finish(&[]);
    trainer
}

#[test]
fn a_run_ends_with_the_same_bytes_on_any_number_of_threads() {
    let one = finished("threads=1");
    for threads in ["threads=2", "threads=3"] {
        assert_same_end(&one.exp_dir(), &finished(threads).exp_dir());
    }
}

#[test]
fn fresh_data_is_exactly_on_policy() {
    let trainer = finished("threads=2");
    let tracker = trainer.exp_dir().join("logs/exp_tracking/tracker.jsonl");
    let text = std::fs::read_to_string(tracker).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut steps = 0;
    for line in lines.filter(|line| line["train_metrics/tokens"].as_f64().is_some_and(|tokens| tokens > 0.0))
    {
        for figure in
            ["mismatch/mismatch_kl", "mismatch/mismatch_k3_kl", "mismatch/mismatch_logprob_abs_diff"]
        {
            assert_eq!(line[figure], 0.0, "{figure} in step {}", line["step"]);
        }
        steps += 1;
    }
    assert_eq!(steps, 6);
}
