//! Damaged checkpoints and changed configurations: what a resume takes, and what it says.

use std::fs;
use std::path::Path;

use piton_run::{Event, read_events};
use piton_tests::{Outcome, Trainer, assert_same_end};

/// A run of four steps that can grow to six: the learning rate does not depend on their number.
const FOUR: [&str; 5] = [
    "total_train_steps=4",
    "evaluate_step=2",
    "hf_interval=2",
    "train_worker_cfg.lr_cfg.lr_type=constant",
    "train_worker_cfg.lr_cfg.warmup_ratio=0.0",
];
const GROW: [&str; 2] = ["--set", "total_train_steps=6"];

#[test]
fn a_damaged_newest_checkpoint_is_reported_and_the_one_before_is_used() {
    let whole = Trainer::new(&FOUR);
    whole.finish(&GROW);
    let four = Trainer::new(&FOUR);
    four.finish(&[]);

    check(&four, &whole, "ckpt-step-4: weights/model.safetensors has the wrong checksum", |checkpoint| {
        let weights = checkpoint.join("weights/model.safetensors");
        let mut bytes = fs::read(&weights).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(weights, bytes).unwrap();
    });
    check(&four, &whole, "ckpt-step-4: weights/optimizer.safetensors is missing", |checkpoint| {
        fs::remove_file(checkpoint.join("weights/optimizer.safetensors")).unwrap();
    });
    check(&four, &whole, "ckpt-step-4: MANIFEST.json", |checkpoint| {
        let manifest = checkpoint.join("MANIFEST.json");
        let text = fs::read(&manifest).unwrap();
        fs::write(&manifest, &text[..text.len() / 2]).unwrap();
    });
    check(&four, &whole, "ckpt-step-999: MANIFEST.json is missing", |checkpoint| {
        fs::create_dir(checkpoint.with_file_name("ckpt-step-999")).unwrap();
    });
}

/// Damages a copy of `four`, grows it to six steps, and compares with `whole`; `message` names file and fault.
fn check(four: &Trainer, whole: &Trainer, message: &str, damage: impl FnOnce(&Path)) {
    let damaged = four.copy();
    damage(&damaged.checkpoint(4));
    let ended = damaged.finish(&GROW);
    let warning = ended.stderr.lines().find(|line| line.contains(message));
    assert!(warning.is_some_and(|line| line.contains("damaged checkpoint passed over")), "{}", ended.stderr);
    let (events, _) = read_events(&damaged.exp_dir().join("logs/events.jsonl")).unwrap();
    let told = |event: &Event| matches!(event, Event::Fallback { reason, .. } if reason.contains(message));
    assert!(events.iter().any(|timed| told(&timed.event)), "{events:?}");
    assert_same_end(&whole.exp_dir(), &damaged.exp_dir());
}

#[test]
fn a_finished_run_may_grow() {
    let whole = Trainer::new(&FOUR);
    whole.finish(&GROW);
    let grown = Trainer::new(&FOUR);
    grown.finish(&[]);
    grown.finish(&GROW);
    assert_same_end(&whole.exp_dir(), &grown.exp_dir());
}

#[test]
fn with_every_checkpoint_damaged_nothing_starts() {
    let trainer = Trainer::new(&["total_train_steps=4"]);
    trainer.finish(&[]);
    for step in [2, 4] {
        fs::remove_file(trainer.checkpoint(step).join("train_state.json")).unwrap();
    }
    let refused = trainer.start(&["--auto-resume"]).end();
    assert_eq!(refused.status.code(), Some(1));
    for step in [2, 4] {
        let named = format!("ckpt-step-{step}");
        assert!(
            refused.stderr.contains(&named) && refused.stderr.contains("train_state.json"),
            "{}",
            refused.stderr
        );
        assert!(trainer.checkpoint(step).join("weights/model.safetensors").is_file(), "left as it was");
    }
    assert!(!trainer.exp_dir().join("train_rollout/train_rollout_5.jsonl").exists());
}

#[test]
fn a_changed_key_is_refused_unless_allowed_by_name() {
    let trainer =
        Trainer::new(&["total_train_steps=2", "enable_evaluate=false", "train_worker_cfg.optim_cfg.lr=1e-4"]);
    trainer.finish(&[]);
    let change =
        ["--auto-resume", "--set", "total_train_steps=3", "--set", "train_worker_cfg.optim_cfg.lr=2e-4"];
    let key = "train_worker_cfg.optim_cfg.lr";

    let before = Outcome::of(&trainer.exp_dir());
    let refused = trainer.start(&change).end();
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains(&format!("{key}: 0.0001 in the run, 0.0002 now")), "{}", refused.stderr);
    assert_eq!(Outcome::of(&trainer.exp_dir()).differences(&before), Vec::<String>::new());

    let allowed = trainer.start(&[&change[..], &["--allow-change", key]].concat()).end();
    assert!(allowed.status.success(), "{}", allowed.stderr);
    assert!(trainer.checkpoint(3).is_dir());
}

#[test]
fn restarts_leave_no_checkpoint_too_many() {
    let trainer = Trainer::new(&["checkpoint_maxkeep=1", "enable_evaluate=false"]);
    for total in ["total_train_steps=1", "total_train_steps=3", "total_train_steps=4"] {
        trainer.finish(&["--set", total]);
        assert_eq!(trainer.checkpoints().len(), 1);
    }
}

/// What a process leaves that is killed after the last save: one checkpoint too many, and no export yet.
#[test]
fn a_resumed_run_prunes_and_exports_what_its_predecessor_could_not() {
    let trainer = Trainer::new(&[]);
    trainer.finish(&[]);
    let whole = trainer.copy();
    assert_eq!(trainer.checkpoints().len(), 3);
    fs::remove_dir_all(trainer.exp_dir().join("hf/hf-step-6")).unwrap();

    trainer.finish(&["--set", "checkpoint_maxkeep=2"]);
    assert_eq!(trainer.checkpoints(), [4, 6]);
    assert_same_end(&whole.exp_dir(), &trainer.exp_dir());
}
