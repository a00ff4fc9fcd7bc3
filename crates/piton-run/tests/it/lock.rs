use std::fs;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use piton_run::{Error, FixedClock, Holder, RunLock};

use crate::child::{Running, dir, is_child, say};

fn me() -> Holder {
    Holder::this_process("the second run", &FixedClock::new("2026-11-30T20:48:24Z".parse().unwrap()))
}

#[test]
fn a_second_run_is_told_who_holds_the_work_dir_and_a_killed_holder_does_not_block() {
    let tmp = tempfile::tempdir().unwrap();
    let work_dir = tmp.path().join("not/made/yet");
    let mut first = Running::start_in("lock::holding_program", &work_dir);
    let worker: i32 = first.hear().parse().unwrap();

    let error = RunLock::acquire(&work_dir, &me()).unwrap_err();
    let message = error.to_string();
    let Error::Held { holder: Some(holder), .. } = error else { panic!("{message}") };
    assert_eq!((holder.pid, holder.command.as_str()), (first.pid(), "the first run"));
    assert!(message.contains(&format!("process {} on {}", first.pid(), holder.host)), "{message}");
    assert!(message.contains("`the first run`, started 2026-11-30T20:00:00.000Z"), "{message}");
    assert!(message.contains(work_dir.to_str().unwrap()), "{message}");

    first.signal(Signal::SIGKILL);
    assert!(!first.end().success());
    // Its worker process still lives, and must not have the lock.
    kill(Pid::from_raw(worker), None).unwrap();
    let lock = RunLock::acquire(&work_dir, &me()).unwrap();
    kill(Pid::from_raw(worker), Signal::SIGKILL).unwrap();

    let named: Holder = serde_json::from_slice(&fs::read(work_dir.join("run.lock")).unwrap()).unwrap();
    assert_eq!(named, me());
    drop(lock);
    assert!(work_dir.join("run.lock").exists());
    RunLock::acquire(&work_dir, &me()).unwrap();
}

#[test]
#[ignore = "a program that the tests here start: cargo test -p piton-run lock"]
fn holding_program() {
    if !is_child() {
        return;
    }
    let clock = FixedClock::new("2026-11-30T20:00:00Z".parse().unwrap());
    let _lock = RunLock::acquire(&dir(), &Holder::this_process("the first run", &clock)).unwrap();
    let mut worker = Command::new("sleep").arg("60").spawn().unwrap();
    say(&worker.id().to_string());
    worker.wait().unwrap();
}

#[test]
fn a_lock_file_with_rubbish_in_it_does_not_block() {
    let tmp = tempfile::tempdir().unwrap();
    fs::write(tmp.path().join("run.lock"), "12345 and more text than a holder's name needs ".repeat(50))
        .unwrap();
    let _lock = RunLock::acquire(tmp.path(), &me()).unwrap();
    let text = fs::read_to_string(tmp.path().join("run.lock")).unwrap();
    assert_eq!(serde_json::from_str::<Holder>(&text).unwrap(), me());
}

#[test]
fn a_work_dir_that_is_a_file_is_named() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("file");
    fs::write(&path, "").unwrap();
    let message = RunLock::acquire(&path.join("work_dir"), &me()).unwrap_err().to_string();
    assert!(
        message.contains(path.to_str().unwrap()) && message.contains("a file is in the way"),
        "{message}"
    );
}
