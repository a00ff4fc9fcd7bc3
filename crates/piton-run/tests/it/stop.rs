use std::os::unix::process::CommandExt;
use std::time::Duration;

use nix::sys::signal::Signal;
use piton_run::{Stop, block_stop_signals, pending_stop_signal, unblock_stop_signals};

use crate::child::{Running, is_child, program, say, wait_for_go};

const STOP: [(Signal, &str); 4] = [
    (Signal::SIGTERM, "SIGTERM"),
    (Signal::SIGINT, "SIGINT"),
    (Signal::SIGUSR1, "SIGUSR1"),
    (Signal::SIGHUP, "SIGHUP"),
];

#[test]
fn each_stop_signal_is_named_and_does_not_kill() {
    for (signal, name) in STOP {
        let mut child = Running::start(program("stop::polling_program"));
        assert_eq!(child.hear(), "ready");
        child.signal(signal);
        assert_eq!(child.hear(), name);
        child.go();
        assert!(child.end().success());
    }
}

#[test]
fn a_second_signal_is_urgent_and_the_first_stays_the_reason() {
    let mut child = Running::start(program("stop::polling_program"));
    assert_eq!(child.hear(), "ready");
    child.signal(Signal::SIGTERM);
    assert_eq!(child.hear(), "SIGTERM");
    std::thread::sleep(Duration::from_millis(piton_run::SAME_REQUEST_MS + 50));
    child.signal(Signal::SIGINT);
    assert_eq!(child.hear(), "urgent after SIGTERM");
    child.go();
    assert!(child.end().success());
}

#[test]
#[ignore = "a program that the tests here start: cargo test -p piton-run stop"]
fn polling_program() {
    if !is_child() {
        return;
    }
    let stop = Stop::install().unwrap();
    assert_eq!(stop.requested(), None);
    say("ready");
    while !stop.is_requested() {
        std::thread::sleep(Duration::from_millis(1));
    }
    say(stop.requested().unwrap().as_str());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(wait_for_go);
        while !waiting.is_finished() && !stop.is_urgent() {
            std::thread::sleep(Duration::from_millis(1));
        }
        if stop.is_urgent() {
            say(&format!("urgent after {}", stop.requested().unwrap()));
        }
    });
}

#[test]
fn signals_blocked_before_exec_are_seen_after_install() {
    for (signal, name) in STOP {
        let mut child = start_blocked("stop::late_program");
        assert_eq!(child.hear(), "none pending");
        child.signal(signal);
        child.go();
        assert_eq!(child.hear(), format!("{name} pending"));
        assert_eq!(child.hear(), format!("{name}, urgent: false"));
        assert!(child.end().success());
    }
}

#[test]
fn signals_that_arrive_together_are_one_request() {
    let mut child = start_blocked("stop::late_program");
    assert_eq!(child.hear(), "none pending");
    child.signal(Signal::SIGTERM);
    child.signal(Signal::SIGINT);
    child.go();
    assert_eq!(child.hear(), "SIGTERM pending");
    assert!(child.hear().ends_with("urgent: false"));
    assert!(child.end().success());
}

#[test]
#[ignore = "a program that the tests here start: cargo test -p piton-run stop"]
fn late_program() {
    if !is_child() {
        return;
    }
    assert_eq!(pending_stop_signal().unwrap(), None);
    say("none pending");
    wait_for_go();
    let pending = pending_stop_signal().unwrap().unwrap();
    say(&format!("{pending} pending"));
    let stop = Stop::install().unwrap();
    assert_eq!(pending_stop_signal().unwrap(), None);
    say(&format!("{}, urgent: {}", stop.requested().unwrap(), stop.is_urgent()));
}

#[test]
fn a_signal_pending_at_exec_reaches_the_program_that_follows() {
    let mut child = start_blocked("stop::program_that_execs");
    assert_eq!(child.hear(), "before exec");
    child.signal(Signal::SIGUSR1);
    child.go();
    assert_eq!(child.hear(), "ready");
    assert_eq!(child.hear(), "SIGUSR1");
    child.go();
    assert!(child.end().success());
}

#[test]
#[ignore = "a program that the tests here start: cargo test -p piton-run stop"]
fn program_that_execs() {
    if !is_child() {
        return;
    }
    say("before exec");
    wait_for_go();
    assert!(pending_stop_signal().unwrap().is_some());
    panic!("exec failed: {}", program("stop::program_after_exec").exec());
}

#[test]
#[ignore = "a program that the tests here start: cargo test -p piton-run stop"]
fn program_after_exec() {
    if !is_child() {
        return;
    }
    let stop = Stop::install().unwrap();
    say("ready");
    say(stop.requested().unwrap().as_str());
    wait_for_go();
}

#[test]
fn a_hangup_that_is_ignored_stays_ignored() {
    let target = program("stop::hung_up_program");
    let mut nohup = std::process::Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(target.get_program()).args(target.get_args());
    nohup.envs(target.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = Running::start(nohup);
    assert_eq!(child.hear(), "ready");
    child.signal(Signal::SIGHUP);
    child.go();
    assert_eq!(child.hear(), "requested: None");
    assert!(child.end().success());
}

#[test]
#[ignore = "a program that the tests here start: cargo test -p piton-run stop"]
fn hung_up_program() {
    if !is_child() {
        return;
    }
    let stop = Stop::install().unwrap();
    say("ready");
    wait_for_go();
    say(&format!("requested: {:?}", stop.requested()));
}

#[test]
fn a_program_can_ask_in_its_own_words_and_the_first_words_count() {
    let stop = Stop::manual();
    let seen_elsewhere = stop.clone();
    assert!(!seen_elsewhere.is_requested());
    stop.request("time limit reached");
    stop.request("something else");
    assert_eq!(seen_elsewhere.requested().unwrap().as_str(), "time limit reached");
    assert!(!seen_elsewhere.is_urgent());
    stop.urge("now");
    assert!(seen_elsewhere.is_urgent());
    assert_eq!(seen_elsewhere.requested().unwrap().as_str(), "time limit reached");
}

/// A child that inherits blocked stop signals, as from `piton train`.
fn start_blocked(name: &str) -> Running {
    block_stop_signals().unwrap();
    let child = Running::start(program(name));
    unblock_stop_signals().unwrap();
    child
}
