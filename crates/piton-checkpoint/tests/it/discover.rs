//! Which checkpoint is the newest.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use piton_checkpoint::{Error, ManifestDamage, Reason};

use crate::support::{last, names, no_pins, open, read, save, store_with};

#[test]
fn a_store_that_never_had_a_checkpoint_gives_none() {
    let temp = tempfile::tempdir().unwrap();
    assert!(open(&temp.path().join("a/b/c")).latest().unwrap().is_none());
    assert!(read(temp.path()).latest().unwrap().is_none());
}

#[test]
fn ten_is_newer_than_nine_whatever_the_file_times_say() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [8, 9, 10]);
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    let times = std::fs::FileTimes::new().set_modified(old);
    std::fs::File::open(temp.path().join("ckpt-step-10")).unwrap().set_times(times).unwrap();
    assert_eq!(read(temp.path()).latest().unwrap().unwrap().step(), 10);
}

#[test]
fn an_empty_directory_with_a_higher_step_is_reported_and_passed_over() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [3]);
    std::fs::create_dir(temp.path().join("ckpt-step-999")).unwrap();
    let found = read(temp.path()).discover().unwrap();
    assert_eq!(found.valid.unwrap().step(), 3);
    assert_eq!(found.rejected.len(), 1);
    assert_eq!(found.rejected[0].step, 999);
    assert_eq!(found.rejected[0].reason, Reason::Manifest(ManifestDamage::Missing));
    assert!(temp.path().join("ckpt-step-999").is_dir());
}

#[test]
fn if_some_exist_and_none_is_valid_that_is_an_error() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::create_dir(temp.path().join("ckpt-step-7")).unwrap();
    std::fs::write(temp.path().join("ckpt-step-8"), b"a file").unwrap();
    let error = open(temp.path()).latest().unwrap_err();
    let Error::NoValidCheckpoint { ref rejected, .. } = error else { panic!("{error}") };
    assert_eq!(rejected.iter().map(|one| one.step).collect::<Vec<_>>(), [8, 7]);
    let root = temp.path().display();
    assert_eq!(
        error.to_string(),
        format!(
            "no valid checkpoint in {root}: {root}/ckpt-step-8: is not a directory; {root}/ckpt-step-7: \
             MANIFEST.json is missing; restore one, or move them away to start afresh"
        )
    );
}

#[test]
fn near_misses_of_the_name_are_nobodys_business() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1]);
    let foreign = [
        "CKPT-STEP-9",
        "ckpt-step-",
        "ckpt-step-+9",
        "ckpt-step-09",
        "ckpt-step-18446744073709551616",
        "ckpt-step-9 (1)",
        "ckpt-step-9.bak",
        "my-ckpt-step-9",
        ".tmp-ckpt-step-9",
        ".tmp-ckpt-step-9-XYZ",
        ".trash-other",
    ];
    for name in foreign {
        let copied = std::process::Command::new("cp")
            .arg("-r")
            .args([temp.path().join("ckpt-step-1"), temp.path().join(name)])
            .status();
        assert!(copied.unwrap().success());
    }
    let before = names(temp.path());
    let store = open(temp.path());
    assert_eq!(store.reader().steps().unwrap(), [1]);
    assert_eq!(store.latest().unwrap().unwrap().step(), 1);
    assert_eq!(names(temp.path()), before);
}

#[test]
fn a_copy_under_another_step_and_a_link_are_rejected() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1, 2]);
    std::fs::rename(temp.path().join("ckpt-step-2"), temp.path().join("ckpt-step-5")).unwrap();
    symlink("ckpt-step-1", temp.path().join("ckpt-step-6")).unwrap();
    let found = read(temp.path()).discover().unwrap();
    assert_eq!(found.valid.unwrap().step(), 1);
    let reasons: Vec<_> = found.rejected.into_iter().map(|one| (one.step, one.reason)).collect();
    assert_eq!(
        reasons,
        [(6, Reason::NotADirectory), (5, Reason::Manifest(ManifestDamage::Step { found: 2 }))]
    );
}

#[test]
fn a_step_asked_for_is_given_or_refused_never_substituted() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1, 2, 3]);
    std::fs::remove_file(temp.path().join("ckpt-step-2/train_state.json")).unwrap();
    let reader = read(temp.path());
    assert_eq!(reader.at(1).unwrap().step(), 1);
    assert!(matches!(reader.at(2), Err(Error::Rejected { .. })));
    let error = reader.at(4).unwrap_err().to_string();
    assert!(error.ends_with("steps there: [1, 2, 3]"), "{error}");
}

/// With one checkpoint kept, the newest is replaced all the time while it is being read.
#[test]
fn a_reader_beside_a_pruning_writer_always_finds_a_whole_checkpoint() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let reader = read(temp.path());
            let mut newest = 0;
            let mut looks = 0;
            while !done.load(Ordering::Relaxed) {
                let latest = reader.latest().unwrap().unwrap();
                assert!(latest.step() >= newest, "went back from {newest} to {}", latest.step());
                newest = latest.step();
                looks += 1;
            }
            looks
        });
        let mut store = open(temp.path());
        for step in 2..40 {
            save(&mut store, step).unwrap();
            store.prune(last(1), &no_pins()).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 1);
    });
}

#[test]
fn a_load_falls_back_when_a_read_finds_damage_and_stops_at_any_other_error() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), 1..=3);
    let reader = read(temp.path());
    let mut tried = Vec::new();
    let mut load = || {
        tried.clear();
        let loaded = reader.load(|checkpoint| {
            tried.push(checkpoint.step());
            checkpoint.read("weights/model.bin")
        });
        (loaded, tried.clone())
    };
    assert!(load().0.unwrap() == Some(crate::support::weights(3)));
    for step in [3, 2] {
        let file = temp.path().join(format!("ckpt-step-{step}/weights/model.bin"));
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[40_000] ^= 4;
        std::fs::write(file, bytes).unwrap();
    }
    let (loaded, tried) = load();
    assert!(loaded.unwrap() == Some(crate::support::weights(1)));
    assert_eq!(tried, [3, 2, 1]);
    std::fs::remove_file(temp.path().join("ckpt-step-1/weights/model.bin")).unwrap();
    let error = load().0.unwrap_err();
    assert!(
        matches!(&error, piton_checkpoint::Error::NoValidCheckpoint { rejected, .. } if rejected.len() == 3),
        "{error}"
    );
    assert!(error.to_string().contains("weights/model.bin"), "{error}");

    let none = reader.load(|checkpoint| checkpoint.read("no/such/file"));
    assert!(matches!(none, Err(piton_checkpoint::Error::NoSuchFile { .. })));
    let empty = tempfile::tempdir().unwrap();
    assert!(read(empty.path()).load(|_| Ok(())).unwrap().is_none());
}
