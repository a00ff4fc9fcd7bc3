//! SIGKILL at random moments: whatever moment it is, the resumed run ends like one that was never killed.
//!
//! `PITON_KILLS=100` makes the number of kills another one, `PITON_THREADS=2` that of the threads.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use piton_rng::{Rng, Seed};
use piton_tests::{Receiver, Trainer, assert_same_end, from_env};

/// What a run was doing when it was killed, and how often.
type Tally = std::collections::BTreeMap<&'static str, usize>;

#[test]
fn a_killed_run_ends_like_one_never_killed() {
    kill(&["checkpoint_maxkeep=2"], 8, |_| true);
}

/// With two updates a step, and rollout weights that a stop after an odd step leaves older than the policy's.
#[test]
fn a_stopped_and_killed_run_with_lagging_weights_ends_like_one_never_killed() {
    let sets = [
        "total_train_steps=16",
        "checkpoint_maxkeep=1",
        "sync_weights_interval=2",
        "train_worker_cfg.optimizer_steps=2",
        "evaluate_step=8",
        "hf_interval=8",
    ];
    kill(&sets, 4, |trainer| stop_after(trainer, 3));
}

/// Kills runs at random moments, at least `kills` times, no run more than four times.
///
/// `before` does something else to a run first and says whether that came out as it should: it must, once.
#[expect(clippy::print_stdout, reason = "the figures of a long run by hand")]
fn kill(sets: &[&str], kills: usize, before: impl Fn(&Trainer) -> bool) {
    let kills = from_env("PITON_KILLS").unwrap_or(kills);
    let threads = format!("threads={}", from_env("PITON_THREADS").unwrap_or(1));
    let sets = [sets, &[threads.as_str()]].concat();
    let reference = Trainer::new(&sets);
    let mut running = reference.start(&[]);
    running.wait_for(|running| running.has_said("training in"));
    let start_up = running.age();
    let ended = running.end();
    assert!(ended.status.success(), "{}", ended.stderr);
    let (whole, expected) = (ended.took, reference.exp_dir());

    let (mut tally, mut runs, mut prepared) = (Tally::new(), 0, false);
    let mut pace = 1.0;
    while tally.values().sum::<usize>() < kills || !prepared {
        let mut draw = Seed(7).stream("kill", [runs, 0, 0]);
        let killed = Trainer::new(&sets);
        prepared |= before(&killed);
        for attempt in 0..4 {
            // Every other kill spares the start, which would get most of them.
            let from = if attempt % 2 == 0 { Duration::ZERO } else { start_up };
            let moment = between(&mut draw, from, whole).mul_f64(pace);
            let Some(doing) = start_and_kill(&killed, moment) else {
                // The machine may have less to do than when the run was measured.
                pace *= 0.9;
                break;
            };
            *tally.entry(doing).or_default() += 1;
        }
        killed.finish(&[]);
        assert_same_end(&expected, &killed.exp_dir());
        assert_eq!(killed.checkpoints(), reference.checkpoints());
        runs += 1;
    }
    println!("{} kills in {runs} runs of {whole:?} each: {tally:?}", tally.values().sum::<usize>());
}

/// Stops the run when `step` is recorded; false when the next one was done, too, before the signal was seen.
fn stop_after(trainer: &Trainer, step: u64) -> bool {
    let mut running = trainer.start(&["--auto-resume"]);
    running.wait_for(|_| trainer.has_recorded(step));
    running.send(Signal::SIGTERM, Receiver::Process);
    assert!(running.end().status.success());
    let checkpoint = trainer.checkpoint(step);
    // Of the checkpoints, only those off the sync interval hold what the rollout engine held.
    checkpoint.join("weights/rollout.safetensors").is_file()
}

/// What the run was doing when it was killed; `None` when it had ended before.
fn start_and_kill(trainer: &Trainer, moment: Duration) -> Option<&'static str> {
    let mut running = trainer.start(&["--auto-resume"]);
    if !running.wait_until(moment) {
        let ended = running.end();
        assert!(ended.status.success(), "{}", ended.stderr);
        return None;
    }
    let ended = running.kill();
    let is_there = |folder: &str, name: &str| {
        trainer.exp_dirs().iter().any(|exp_dir| holds(&exp_dir.join(folder), name))
    };
    Some(match () {
        () if ended.status.success() => return None,
        () if is_there("checkpoints", ".tmp-ckpt-") => "saving",
        () if is_there("checkpoints", ".trash-") => "pruning",
        () if is_there("hf", ".tmp-") => "exporting",
        () if ended.stderr.contains("training in") || ended.stderr.contains("resumed after") => "training",
        () if trainer.exp_dirs().is_empty() => "starting",
        () => "resuming",
    })
}

fn holds(folder: &Path, prefix: &str) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
}

fn between(draw: &mut Rng, from: Duration, to: Duration) -> Duration {
    from + to.saturating_sub(from).mul_f64(draw.next_f64())
}
