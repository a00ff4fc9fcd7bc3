//! Two starts on one work_dir.

use nix::sys::signal::Signal;
use piton_tests::{Receiver, Trainer};

#[test]
fn a_second_run_is_refused_and_told_who_holds_the_work_dir() {
    let trainer = Trainer::new(&["total_train_steps=1000000", "evaluate_step=1000000"]);
    let mut holder = trainer.start(&[]);
    assert!(holder.wait_for(|running| running.has_said("step 1/")));

    for args in [&[][..], &["--auto-resume"]] {
        let refused = trainer.start(args).end();
        assert_eq!(refused.status.code(), Some(1));
        assert!(refused.stderr.contains(&format!("process {} on ", holder.id())), "{}", refused.stderr);
        assert!(refused.stderr.contains("chain-sum.toml"), "the holder's command: {}", refused.stderr);
    }
    assert_eq!(trainer.exp_dirs().len(), 1, "a refused run makes no experiment");

    holder.send(Signal::SIGTERM, Receiver::Process);
    let holder = holder.end();
    assert!(
        holder.status.success() && holder.stdout.contains("saved_after_stop "),
        "undisturbed: {}",
        holder.stderr
    );
}

#[test]
fn a_dead_holder_does_not_block() {
    let trainer = Trainer::new(&[]);
    let mut holder = trainer.start(&[]);
    assert!(holder.wait_for(|running| running.has_said("step 1/")));
    holder.kill();
    assert!(trainer.work_dir().join("run.lock").is_file(), "what the dead one left");

    trainer.finish(&[]);
    assert!(trainer.checkpoint(6).is_dir());
}
