//! Workers with real signals.

use std::io::{BufRead, BufReader, Write};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use piton_run::{Holder, RunLock, Stop, SystemClock, Worker};

use crate::child::{Running, dir, is_child, program, say, wait_for_go};

/// Echoes lines until its input ends.
fn cat() -> Worker {
    Worker::spawn(Command::new("cat")).unwrap()
}

fn echoes(worker: &mut Worker) -> bool {
    worker.stdin().write_all(b"x\n").unwrap();
    let mut line = String::new();
    BufReader::new(worker.stdout()).read_line(&mut line).unwrap();
    line == "x\n"
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(id.cast_signed())
}

/// Gone, or dead and not yet collected by whoever inherited it.
fn is_gone(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

fn soon(what: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn a_worker_ignores_every_stop_signal_and_ends_with_its_input() {
    let mut worker = cat();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGUSR1, Signal::SIGHUP] {
        kill(pid(worker.id()), signal).unwrap();
        assert!(echoes(&mut worker), "{signal} reached it");
    }
    let mut ended = worker.stop(Duration::from_secs(20));
    assert!(ended.as_mut().unwrap().success(), "{ended:?}");
}

#[test]
fn a_worker_that_does_not_end_is_killed() {
    let mut command = Command::new("sleep");
    command.arg("1000");
    let worker = Worker::spawn(command).unwrap();
    let status = worker.stop(Duration::from_millis(20)).unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let error = Worker::spawn(Command::new("/nowhere/worker")).unwrap_err().to_string();
    assert!(error.contains("/nowhere/worker"), "{error}");
}

/// A parent with a lock and a worker started by a thread that has ended; says the worker's id and then what it sees.
#[test]
#[ignore = "a program that the tests here start: cargo test -p piton-run worker"]
fn parent() {
    if !is_child() {
        return;
    }
    let lock = RunLock::acquire(&dir(), &Holder::this_process("parent", &SystemClock)).unwrap();
    let stop = Stop::install().unwrap();
    let mut worker = std::thread::scope(|scope| scope.spawn(cat).join().unwrap());
    say(&worker.id().to_string());
    wait_for_go();
    assert!(soon(|| stop.is_requested()));
    say(if echoes(&mut worker) { "worker lives" } else { "worker is gone" });
    wait_for_go();
    drop(lock);
}

#[test]
fn a_signal_to_the_group_reaches_the_parent_alone_and_its_death_ends_the_worker_and_frees_the_lock() {
    let temp = tempfile::tempdir().unwrap();
    let mut parent = Running::start_in("worker::parent", temp.path());
    let worker: u32 = parent.hear().parse().unwrap();
    killpg(pid(parent.pid()), Signal::SIGTERM).unwrap();
    parent.go();
    assert_eq!(parent.hear(), "worker lives");
    parent.signal(Signal::SIGKILL);
    parent.end();
    // at once, whether or not the worker is already gone: it never had the lock
    drop(RunLock::acquire(temp.path(), &Holder::this_process("next", &SystemClock)).unwrap());
    assert!(soon(|| is_gone(worker)), "the worker outlived its parent");
}

/// A child between fork and exec shares the lock's file; dropping the lock frees it all the same.
#[test]
fn a_dropped_lock_is_free_while_children_are_being_spawned() {
    let temp = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        let spawning = scope.spawn(|| {
            for _ in 0..100 {
                drop(program("nothing").output());
            }
        });
        while !spawning.is_finished() {
            let holder = Holder::this_process("test", &SystemClock);
            drop(RunLock::acquire(temp.path(), &holder).unwrap());
        }
    });
}
