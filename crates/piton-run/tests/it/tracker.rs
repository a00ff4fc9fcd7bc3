use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use piton_run::{JsonlTracker, Keep, Metrics, Tracker};
use proptest::prelude::*;

use crate::tree;

fn metrics(pairs: &[(&str, f64)]) -> Metrics {
    pairs.iter().map(|&(tag, number)| (tag.to_owned(), number)).collect()
}

#[test]
fn a_line_has_the_step_first_then_sorted_tags_and_null_for_what_is_not_finite() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("logs/exp_tracking/tracker.jsonl");
    let mut tracker = JsonlTracker::open(&path, Keep::All).unwrap();
    tracker.record(0, &metrics(&[("eval/accuracy", 0.45)])).unwrap();
    tracker
        .append(1, &metrics(&[("b\"", f64::NAN), ("a", 0.1), ("z", 1e300), ("c", f64::INFINITY)]))
        .unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\"step\":0,\"eval/accuracy\":0.45}\n{\"step\":1,\"a\":0.1,\"b\\\"\":null,\"c\":null,\"z\":1e+300}\n"
    );
    assert_eq!((tracker.steps(), tracker.last_step()), ([0, 1].as_slice(), Some(1)));
}

#[test]
fn a_step_that_is_present_or_earlier_is_refused_and_named() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("tracker.jsonl");
    let mut tracker = JsonlTracker::open(&path, Keep::All).unwrap();
    tracker.append(5, &Metrics::new()).unwrap();
    for step in [5, 4] {
        let message = tracker.append(step, &Metrics::new()).unwrap_err().to_string();
        assert!(
            message.contains("ends at step 5") && message.contains(&format!("step {step} cannot")),
            "{message}"
        );
    }
    let message = tracker.append(6, &metrics(&[("step", 1.0)])).unwrap_err().to_string();
    assert!(message.contains("reserved"), "{message}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"step\":5}\n");
}

#[test]
fn what_a_resume_cuts_is_kept_beside_it_under_the_next_number() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("tracker.jsonl");
    fs::write(&path, "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"step\":4,\"lo").unwrap();
    let tracker = JsonlTracker::open(&path, Keep::UpTo(2)).unwrap();
    assert_eq!(tracker.steps(), [1, 2]);
    assert_eq!(tracker.repair().cut_steps, [3]);
    assert_eq!(tracker.repair().damaged_lines, 1);
    drop(tracker);
    let tracker = JsonlTracker::open(&path, Keep::Nothing).unwrap();
    assert_eq!(tracker.last_step(), None);
    assert_eq!(tracker.repair().set_aside, Some(tmp.path().join("tracker.cut-2.jsonl")));
    let expected = [
        ("tracker.cut-1.jsonl", "{\"step\":3}\n{\"step\":4,\"lo\n"),
        ("tracker.cut-2.jsonl", "{\"step\":1}\n{\"step\":2}\n"),
        ("tracker.jsonl", ""),
    ];
    assert_eq!(tree(tmp.path()), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
}

#[test]
fn a_file_that_needs_no_repair_is_not_touched() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("tracker.jsonl");
    fs::write(&path, "{\"step\":1}\n{\"step\":2}\n").unwrap();
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let before = inode(&path);
    let tracker = JsonlTracker::open(&path, Keep::UpTo(2)).unwrap();
    assert_eq!(tracker.repair(), &piton_run::Repair::default());
    assert_eq!(inode(&path), before);
    assert_eq!(tree(tmp.path()).len(), 1);
}

#[test]
fn a_damaged_line_in_the_middle_costs_no_other_line() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("tracker.jsonl");
    fs::write(&path, b"{\"step\":1}\n\0\0\xff\n[2]\n{\"step\":2}\n{\"step\":2,\"again\":1}\n{\"step\":3}\n")
        .unwrap();
    let tracker = JsonlTracker::open(&path, Keep::UpTo(3)).unwrap();
    assert_eq!(tracker.steps(), [1, 2, 3]);
    let aside = fs::read(tracker.repair().set_aside.as_ref().unwrap()).unwrap();
    assert_eq!(aside, b"\0\0\xff\n[2]\n{\"step\":2,\"again\":1}\n");
}

/// What the deterministic run of this test logs for a step.
fn logged(step: u64) -> Metrics {
    metrics(&[("loss", 1.0 / (step as f64 + 1.0)), ("näïve \"tag\"\n", f64::NAN)])
}

fn write(tracker: &mut JsonlTracker, steps: impl IntoIterator<Item = u64>) {
    for step in steps {
        tracker.append(step, &logged(step)).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Torn at any byte and resumed at any step, again and again: the file ends as if nothing had happened.
    #[test]
    fn torn_anywhere_and_resumed_anywhere_it_ends_equal_to_an_uninterrupted_one(
        total in 1_u64..12,
        kills in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4),
    ) {
        let tmp = tempfile::tempdir().unwrap();
        let whole = tmp.path().join("whole/tracker.jsonl");
        write(&mut JsonlTracker::open(&whole, Keep::All).unwrap(), 0..=total);
        let whole = fs::read(whole).unwrap();

        let path = tmp.path().join("killed/tracker.jsonl");
        fs::create_dir(tmp.path().join("killed")).unwrap();
        fs::write(&path, &whole).unwrap();
        for (tear, resume) in kills {
            let before = fs::read(&path).unwrap();
            let torn = &before[..tear.index(before.len() + 1)];
            fs::write(&path, torn).unwrap();
            let survivors: BTreeSet<u64> = (0..=total).filter(|&step| {
                let line = line_of(&whole, step);
                torn.windows(line.len()).any(|window| window == line)
            }).collect();
            // A checkpoint's tracker line is durable before the checkpoint: only surviving steps are resumed from.
            let Some(&last) = survivors.last() else {
                write(&mut JsonlTracker::open(&path, Keep::Nothing).unwrap(), 0..=total);
                continue;
            };
            let resumed_from = *resume.get(&(0..=last).collect::<Vec<u64>>());

            let mut tracker = JsonlTracker::open(&path, Keep::UpTo(resumed_from)).unwrap();
            let kept: Vec<u64> = (0..=resumed_from).collect();
            prop_assert_eq!(tracker.steps(), kept);
            let aside = tracker.repair().set_aside.as_ref().map_or(Vec::new(), |path| fs::read(path).unwrap());
            let together = [fs::read(&path).unwrap(), aside].concat();
            prop_assert_eq!(together.strip_suffix(b"\n"), Some(torn.strip_suffix(b"\n").unwrap_or(torn)));
            write(&mut tracker, resumed_from + 1..=total);
        }
        prop_assert_eq!(fs::read(&path).unwrap(), whole);
    }
}

/// The line of a step without its line feed.
fn line_of(whole: &[u8], step: u64) -> &[u8] {
    (0..).zip(whole.split(|&byte| byte == b'\n')).find(|&(n, _)| n == step).unwrap().1
}
