//! Stop signals at every moment of a run: it saves, says where, exits 0, and goes on as if nothing had happened.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;
use piton_checkpoint::Store;
use piton_rng::Seed;
use piton_run::{Event, read_events};
use piton_tests::Receiver::{Group, Process};
use piton_tests::{Ended, Receiver, Running, Trainer, assert_same_end, from_env};
use walkdir::WalkDir;

/// Longest time from a signal to the end; a loaded machine has its share in it.
const SECONDS: Duration = Duration::from_secs(10);

/// A moment to be waited for: from outside, by what the run has left on disk or said so far.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// `piton` has blocked the signals and is becoming `piton-llm`.
    Exec,
    /// Handlers stand; model and data are being read.
    Loading,
    /// The evaluation before the first step.
    InitialEvaluation,
    /// Milliseconds after the step's predecessor was recorded.
    Step(u64, u64),
    /// A checkpoint is being written.
    Saving,
    /// An export is being written.
    Exporting,
    /// The step is trained and is being evaluated.
    Evaluation(u64),
}

/// Steps that take a while, with something saved after each.
const LONG_STEPS: [&str; 5] = [
    "total_train_steps=3",
    "train_batch_size=32",
    "checkpoint_interval=1",
    "hf_interval=1",
    "eval_agent_loop_manager_cfg.tasks.sampler_config.prompt_repeat_k=8",
];

#[test]
fn a_signal_at_any_moment_saves_and_the_run_goes_on_as_if_nothing_had_happened() {
    let reference = Trainer::new(&LONG_STEPS);
    reference.finish(&[]);
    for (moment, signal, to) in [
        (Moment::Exec, Signal::SIGTERM, Process),
        (Moment::Exec, Signal::SIGINT, Group),
        (Moment::Loading, Signal::SIGUSR1, Process),
        (Moment::InitialEvaluation, Signal::SIGUSR1, Group),
        (Moment::Step(1, 10), Signal::SIGINT, Process),
        (Moment::Step(2, 20), Signal::SIGTERM, Group),
        (Moment::Saving, Signal::SIGUSR1, Process),
        (Moment::Exporting, Signal::SIGINT, Group),
    ] {
        let trainer = Trainer::new(&LONG_STEPS);
        let mut running = trainer.start(&[]);
        assert!(moment.wait(&mut running, &trainer), "{moment:?} was missed");
        let checkpoint = stop(running, &trainer, signal, to);
        if matches!(moment, Moment::Exec | Moment::Loading) {
            assert!(checkpoint.ends_with("ckpt-step-0"), "{moment:?}: {}", checkpoint.display());
        }
        trainer.finish(&[]);
        assert_same_end(&reference.exp_dir(), &trainer.exp_dir());
    }
}

/// An evaluation of some seconds, after steps 2 and 3.
const LONG_EVALUATION: [&str; 4] = [
    "total_train_steps=3",
    "enable_initial_evaluate=false",
    "evaluate_step=2",
    "eval_agent_loop_manager_cfg.tasks.sampler_config.prompt_repeat_k=256",
];

#[test]
fn a_stop_in_an_evaluation_keeps_the_step_and_evaluates_on_resume() {
    let reference = Trainer::new(&LONG_EVALUATION);
    reference.finish(&[]);
    let expected = reference.exp_dir();

    let trainer = Trainer::new(&LONG_EVALUATION);
    let mut running = trainer.start(&[]);
    assert!(Moment::Evaluation(2).wait(&mut running, &trainer));
    let pending = stop(running, &trainer, Signal::SIGTERM, Process);
    assert!(pending.ends_with("ckpt-step-2") && pending.join("pending_step.json").is_file());

    // Stopped once more in the same evaluation: the checkpoint is this state already.
    let before = stamps(&pending);
    let mut running = trainer.start(&["--auto-resume"]);
    assert!(running.wait_for(|running| running.has_said("resumed after step 2")));
    assert_eq!(stop(running, &trainer, Signal::SIGUSR1, Group), pending);
    assert_eq!(stamps(&pending), before, "not written again");

    let mut running = trainer.start(&["--auto-resume"]);
    assert!(Moment::Evaluation(3).wait(&mut running, &trainer));
    let last = stop(running, &trainer, Signal::SIGINT, Group);
    assert!(last.ends_with("ckpt-step-3") && last.join("pending_step.json").is_file());
    let died = trainer.copy();
    trainer.finish(&[]);
    assert_same_end(&expected, &trainer.exp_dir());

    // What a process leaves that dies after the step's line and before the checkpoint.
    for file in ["eval_rollout/eval_rollout_3.jsonl", "logs/exp_tracking/tracker.jsonl"] {
        std::fs::copy(trainer.exp_dir().join(file), died.exp_dir().join(file)).unwrap();
    }
    died.finish(&[]);
    assert_same_end(&expected, &died.exp_dir());
}

#[test]
fn a_stop_does_not_rewrite_the_checkpoint_that_is_this_state() {
    let trainer = Trainer::new(&LONG_STEPS);
    let mut running = trainer.start(&[]);
    assert!(Moment::Step(2, 0).wait(&mut running, &trainer));
    let checkpoint = stop(running, &trainer, Signal::SIGTERM, Process);
    let before = stamps(&checkpoint);
    for moment in [Moment::Exec, Moment::Loading] {
        let mut running = trainer.start(&["--auto-resume"]);
        assert!(moment.wait(&mut running, &trainer));
        assert_eq!(stop(running, &trainer, Signal::SIGTERM, Process), checkpoint);
    }
    assert_eq!(stamps(&checkpoint), before);
}

#[test]
fn a_second_signal_does_no_harm() {
    let reference = Trainer::new(&LONG_STEPS);
    reference.finish(&[]);
    for pause_ms in [0, 5, 150] {
        let trainer = Trainer::new(&LONG_STEPS);
        let mut running = trainer.start(&[]);
        assert!(Moment::Step(2, 0).wait(&mut running, &trainer));
        running.send(Signal::SIGINT, Group);
        std::thread::sleep(Duration::from_millis(pause_ms));
        stop(running, &trainer, Signal::SIGTERM, Process);
        trainer.finish(&[]);
        assert_same_end(&reference.exp_dir(), &trainer.exp_dir());
    }
}

/// Every fourth is followed by SIGKILL, as from a scheduler whose patience ends. `PITON_STOPS=100` makes their number another one.
#[test]
fn stops_at_random_moments_add_up_to_the_run_that_was_left_alone() {
    let reference = Trainer::new(&LONG_STEPS);
    let whole = reference.finish(&[]).took;
    let (wanted, mut stops, mut runs) = (from_env("PITON_STOPS").unwrap_or(4), 0, 0);
    while stops < wanted {
        let mut draw = Seed(11).stream("stop", [runs, 0, 0]);
        let mut choose = |count: usize| draw.permutation(count)[0];
        let trainer = Trainer::new(&LONG_STEPS);
        for _ in 0..4 {
            let signal = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGUSR1][choose(3)];
            let to = [Process, Group][choose(2)];
            let moment = whole.mul_f64(f64::from(u32::try_from(choose(1000)).unwrap()) / 1000.0);
            let mut running = trainer.start(&["--auto-resume"]);
            if Moment::Exec.wait(&mut running, &trainer) && running.wait_until(moment) {
                stops += 1;
                running.send(signal, to);
                if choose(4) == 0 {
                    std::thread::sleep(Duration::from_millis(choose(60) as u64));
                    running.kill();
                    continue;
                }
            }
            let ended = running.end();
            assert_eq!(ended.status.code(), Some(0), "{signal} to {to:?} at {moment:?}: {}", ended.stderr);
            match events(&trainer).last() {
                Some(Event::Finish { .. }) => break,
                Some(Event::Stop { .. }) => drop(saved(&ended)),
                other => panic!("{signal} to {to:?} at {moment:?}: the last event is {other:?}"),
            }
        }
        trainer.finish(&[]);
        assert_same_end(&reference.exp_dir(), &trainer.exp_dir());
        runs += 1;
    }
    println!("{stops} stops in {runs} runs of {whole:?} each");
}

/// The run is then complete: its end is told as such, and the question where it is saved is answered all the same.
#[test]
fn a_signal_during_the_last_save_is_answered() {
    for _attempt in 0..20 {
        let trainer = Trainer::new(&["total_train_steps=1", "enable_evaluate=false"]);
        let mut running = trainer.start(&[]);
        if !Moment::Saving.wait(&mut running, &trainer) {
            continue; // The save was quicker than the look for it.
        }
        running.send(Signal::SIGTERM, Process);
        let ended = running.end();
        let checkpoint = saved(&ended);
        assert_eq!(checkpoint, trainer.checkpoint(1));
        assert!(ended.stdout.contains("finished, 1 of 1 steps"), "{}", ended.stdout);
        let events = events(&trainer);
        assert!(events.contains(&Event::Signal { signal: "SIGTERM".to_owned() }));
        assert_eq!(events.last(), Some(&Event::Finish { step: 1 }));
        return;
    }
    panic!("no save was seen in twenty runs");
}

/// `cargo xtask train` becomes `piton`, which becomes the trainer; needs release binaries that are up to date.
#[test]
fn a_signal_through_cargo_xtask_train_saves() {
    if let Some(reason) = not_built_for_release() {
        println!("skipped: {reason}");
        return;
    }
    let trainer = Trainer::new(&LONG_STEPS);
    let mut command = Command::new("cargo");
    command.args(["xtask", "train"]);
    trainer.arguments(&mut command, &[]);
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut running = trainer.run(command);
    assert!(Moment::Step(2, 0).wait(&mut running, &trainer), "{}", running.end().stderr);
    stop(running, &trainer, Signal::SIGINT, Group);
}

impl Moment {
    /// Waits for it; false when the run ended before.
    fn wait(self, running: &mut Running, trainer: &Trainer) -> bool {
        let exp_dir = || trainer.exp_dirs().into_iter().next();
        match self {
            Self::Exec => {
                running.wait_for(|running| running.holds_sigterm("SigBlk") || running.holds_sigterm("SigCgt"))
            }
            Self::Loading => running
                .wait_for(|running| running.holds_sigterm("SigCgt") && !running.holds_sigterm("SigBlk")),
            Self::InitialEvaluation => running.wait_for(|running| running.has_said("training in")),
            Self::Step(step, after_ms) => {
                let recorded = running.wait_for(|_| trainer.has_recorded(step - 1));
                let moment = running.age() + Duration::from_millis(after_ms);
                recorded && running.wait_until(moment)
            }
            Self::Saving => {
                running.wait_for(|_| exp_dir().is_some_and(|dir| has_stage(&dir.join("checkpoints"))))
            }
            Self::Exporting => running.wait_for(|_| exp_dir().is_some_and(|dir| has_stage(&dir.join("hf")))),
            Self::Evaluation(step) => {
                let file = format!("train_rollout/train_rollout_{step}.jsonl");
                running.wait_for(|_| exp_dir().is_some_and(|dir| dir.join(&file).is_file()))
            }
        }
    }
}

/// Signals the run and holds all that is promised of a stop; returns the checkpoint.
fn stop(running: Running, trainer: &Trainer, signal: Signal, to: Receiver) -> PathBuf {
    let age = running.age();
    running.send(signal, to);
    let ended = running.end();
    assert!(ended.took - age < SECONDS, "{signal} to {to:?} took {:?}", ended.took - age);
    let checkpoint = saved(&ended);
    match events(trainer).last() {
        Some(Event::Stop { reason, .. }) => assert!(reason.starts_with("SIG"), "{reason}"),
        other => panic!("{signal} to {to:?}: the last event is {other:?}"),
    }
    checkpoint
}

/// The checkpoint that a stopped run says it has saved, every byte of it checked.
fn saved(ended: &Ended) -> PathBuf {
    assert_eq!(ended.status.code(), Some(0), "{:?}: {}", ended.status, ended.stderr);
    let path = ended.stdout.lines().find_map(|line| line.strip_prefix("saved_after_stop "));
    let path = PathBuf::from(path.expect("stdout names the checkpoint"));
    let step = path.file_name().and_then(piton_checkpoint::parse_checkpoint_name).unwrap();
    Store::open_read_only(path.parent().unwrap()).unwrap().at(step).unwrap();
    path
}

fn events(trainer: &Trainer) -> Vec<Event> {
    let (events, unreadable) = read_events(&trainer.exp_dir().join("logs/events.jsonl")).unwrap();
    assert_eq!(unreadable, 0);
    events.into_iter().map(|timed| timed.event).collect()
}

/// A checkpoint's or an export's; an opening store makes a `.tmp-file-` for a moment, which is none.
fn has_stage(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let is_stage = |name: &str| name.starts_with(".tmp-") && !name.starts_with(".tmp-file-");
    entries.into_iter().any(|entry| is_stage(&entry.file_name().to_string_lossy()))
}

/// Inode and time of change of every file.
fn stamps(checkpoint: &Path) -> Vec<(PathBuf, u64, SystemTime)> {
    use std::os::unix::fs::MetadataExt;
    let stamp = |entry: walkdir::DirEntry| {
        let metadata = entry.metadata().unwrap();
        (entry.into_path(), metadata.ino(), metadata.modified().unwrap())
    };
    WalkDir::new(checkpoint).sort_by_file_name().into_iter().map(|entry| stamp(entry.unwrap())).collect()
}

/// Why `cargo xtask train` would have to compile first, if so.
fn not_built_for_release() -> Option<String> {
    if Command::new("cargo").arg("--version").output().is_err() {
        return Some("cargo is not in PATH".to_owned());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let age = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let Some(built) = age(&target.join("release/piton-llm")) else {
        return Some("there are no release binaries; cargo xtask train makes them".to_owned());
    };
    let newer = WalkDir::new(root.join("crates"))
        .into_iter()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_file())
        .find(|entry| age(entry.path()).is_some_and(|changed| changed > built))?;
    Some(format!("{} is newer than the release binaries", newer.path().display()))
}
