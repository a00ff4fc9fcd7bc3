use std::fs::{self, OpenOptions};
use std::io::Write;
use std::sync::Arc;

use piton_run::{Clock, Event, EventLog, FixedClock, SystemClock, clock, read_events};

#[test]
fn events_are_lines_with_a_time_and_survive_a_torn_one() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("logs/events.jsonl");
    let clock = Arc::new(FixedClock::new("2026-11-30T20:48:24Z".parse().unwrap()));
    let save = Event::Save {
        step: 2,
        path: "20261130204824/checkpoints/ckpt-step-2".to_owned(),
        bytes: 7,
        seconds: 0.5,
    };
    let stop = Event::Stop { step: 2, path: None, reason: "SIGTERM".to_owned() };
    let mut log = EventLog::open(&path, clock.clone()).unwrap();
    log.append(save.clone()).unwrap();
    clock.advance_ms(1500);
    log.append(stop.clone()).unwrap();
    drop(log);
    let before = fs::read_to_string(&path).unwrap();
    assert_eq!(
        before,
        concat!(
            r#"{"time":"2026-11-30T20:48:24.000Z","event":"save","step":2,"#,
            r#""path":"20261130204824/checkpoints/ckpt-step-2","bytes":7,"seconds":0.5}"#,
            "\n",
            r#"{"time":"2026-11-30T20:48:25.500Z","event":"stop","step":2,"path":null,"reason":"SIGTERM"}"#,
            "\n"
        )
    );

    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"time\":\"2026-11-3").unwrap();
    EventLog::open(&path, clock).unwrap().append(Event::Finish { step: 3 }).unwrap();
    assert!(fs::read_to_string(&path).unwrap().starts_with(&before));
    let (events, unreadable) = read_events(&path).unwrap();
    assert_eq!(
        events.into_iter().map(|timed| timed.event).collect::<Vec<_>>(),
        [save, stop, Event::Finish { step: 3 }]
    );
    assert_eq!(unreadable, 1);
}

#[test]
fn a_moment_is_written_in_utc_for_lines_and_for_folders() {
    let moment: clock::Timestamp = "2026-01-02T03:04:05.6+02:00".parse().unwrap();
    assert_eq!(clock::rfc3339(moment), "2026-01-02T01:04:05.600Z");
    assert_eq!(clock::stamp(moment), "20260102010405");
}

#[test]
fn the_system_clock_does_not_go_back() {
    let before = SystemClock.monotonic_s();
    std::thread::sleep(std::time::Duration::from_millis(20));
    let passed = SystemClock.monotonic_s() - before;
    assert!((0.02..5.0).contains(&passed), "{passed}");
    assert!(clock::stamp(SystemClock.now()).as_str() > "20260101000000");
}
