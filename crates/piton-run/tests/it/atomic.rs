use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use nix::sys::signal::Signal;
use piton_run::{JsonlTracker, Keep, Metrics, Stop, sweep_temporaries, write_atomic, write_lines_atomic};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::child::{Running, dir, is_child, say};
use crate::tree;

#[test]
fn a_file_is_replaced_whole_with_the_mode_of_an_ordinary_file() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("new/folder/file.json");
    write_atomic(&path, b"one").unwrap();
    write_atomic(&path, b"two").unwrap();
    assert_eq!(tree(tmp.path()), [("new/folder/file.json".to_owned(), "two".to_owned())]);
    fs::write(tmp.path().join("ordinary"), "").unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(path), mode(tmp.path().join("ordinary")));
}

#[test]
fn lines_are_json_and_what_is_not_finite_is_null() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("train_rollout_1.jsonl");
    write_lines_atomic(&path, [("a\nb", 0.1), ("c", f64::NAN)]).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "[\"a\\nb\",0.1]\n[\"c\",null]\n");
    write_lines_atomic(&path, std::iter::empty::<u8>()).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
}

#[test]
fn an_item_that_is_not_json_leaves_the_old_file() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("lines.jsonl");
    write_lines_atomic(&path, [1]).unwrap();
    let bad = std::collections::BTreeMap::from([(vec![1], 2)]);
    let message = write_lines_atomic(&path, [&bad]).unwrap_err().to_string();
    assert!(message.contains("line 1 of") && message.contains("lines.jsonl"), "{message}");
    assert_eq!(tree(tmp.path()), [("lines.jsonl".to_owned(), "1\n".to_owned())]);
}

#[test]
fn a_killed_writer_leaves_the_old_or_the_new_content() {
    let tmp = tempfile::tempdir().unwrap();
    for kill_after_ms in [0, 1, 2, 3, 5, 8, 13, 21] {
        let mut child = Running::start_in("atomic::writing_program", tmp.path());
        assert_eq!(child.hear(), "writing");
        std::thread::sleep(Duration::from_millis(kill_after_ms));
        child.signal(Signal::SIGKILL);
        child.end();
        let text = fs::read(tmp.path().join("file")).unwrap();
        assert_eq!(text, vec![text[0]; SIZE]);
        sweep_temporaries(tmp.path()).unwrap();
        assert_eq!(tree(tmp.path()).len(), 1);
    }
}

const SIZE: usize = 200_000;

#[test]
#[ignore = "a program that the tests here start: cargo test -p piton-run atomic"]
fn writing_program() {
    if !is_child() {
        return;
    }
    write_atomic(&dir().join("file"), &[b'0'; SIZE]).unwrap();
    say("writing");
    for letter in (b'a'..=b'z').cycle() {
        write_atomic(&dir().join("file"), &vec![letter; SIZE]).unwrap();
    }
}

#[test]
fn a_write_that_fails_half_way_changes_nothing_and_does_not_kill() {
    let tmp = tempfile::tempdir().unwrap();
    let mut child = Running::start_in("atomic::limited_program", tmp.path());
    assert_eq!(child.hear(), "file");
    assert_eq!(child.hear(), "tracker");
    assert!(child.end().success());
    let files = tree(tmp.path());
    assert_eq!(files[0], ("file".to_owned(), "old".to_owned()));
    assert_eq!(files[1], ("tracker.jsonl".to_owned(), "{\"step\":1}\n{\"step\":3}\n".to_owned()));
    assert_eq!(files.len(), 2, "{files:?}");
}

/// A limit on file size fails a write in the middle, as a full disk does, and sends SIGXFSZ.
#[test]
#[ignore = "a program that the tests here start: cargo test -p piton-run atomic"]
fn limited_program() {
    if !is_child() {
        return;
    }
    let _stop = Stop::install().unwrap();
    let file = dir().join("file");
    write_atomic(&file, b"old").unwrap();
    let path = dir().join("tracker.jsonl");
    let mut tracker = JsonlTracker::open(&path, Keep::All).unwrap();
    tracker.append(1, &Metrics::new()).unwrap();

    setrlimit(Resource::Fsize, Rlimit { current: Some(100), maximum: None }).unwrap();
    let message = write_atomic(&file, &[0; 1 << 20]).unwrap_err().to_string();
    assert!(message.contains("file") && message.contains("ulimit -f"), "{message}");
    say("file");
    let long = Metrics::from([("loss".repeat(40), 1.0)]);
    let message = tracker.append(2, &long).unwrap_err().to_string();
    assert!(message.contains(path.to_str().unwrap()), "{message}");
    tracker.append(3, &Metrics::new()).unwrap();
    say("tracker");
}
