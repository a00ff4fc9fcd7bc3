//! Saving.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use piton_checkpoint::{Error, Op, Overwrite, SaveError, Stage};

use crate::support::{Trace, assert_filled, fill, names, open, options, save, store_with, weights};

/// The promise rests on this order: data, manifest, directories from below, rename, root.
#[test]
fn every_file_is_synced_before_the_rename_and_the_root_after_it() {
    let temp = tempfile::tempdir().unwrap();
    let trace = Arc::new(Trace::default());
    let mut store = piton_checkpoint::Store::open(temp.path(), options().hook(trace.clone())).unwrap();
    trace.take();
    save(&mut store, 1).unwrap();
    let mut text = String::new();
    for (op, path) in trace.take() {
        if matches!(op, Op::Create | Op::Write | Op::Sync | Op::SyncDir | Op::Rename | Op::MakeDir) {
            let path = path.strip_prefix(&temp.path().display().to_string()).unwrap();
            let mut parts: Vec<&str> = path.split('/').collect();
            if parts.get(1).is_some_and(|part| part.starts_with(".tmp-ckpt-step-1-")) {
                parts[1] = "STAGE";
            }
            writeln!(text, "{op} {}", parts.join("/")).unwrap();
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_saved_checkpoint_reads_back_and_knows_its_parent() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [9, 10]);
    let latest = open(temp.path()).latest().unwrap().unwrap();
    assert_filled(&latest);
    assert_eq!((latest.step(), latest.manifest().parent_step), (10, Some(9)));
    assert_eq!(
        latest.files().collect::<Vec<_>>(),
        ["tasks/sum/empty", "train_state.json", "weights/model.bin"]
    );
}

#[test]
fn a_failing_or_panicking_closure_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1]);
    let mut store = open(temp.path());
    let failed = store.save(2, Overwrite::Refuse, |stage| {
        stage.write("half", b"half").unwrap();
        Err("no tensor")
    });
    assert!(matches!(failed, Err(SaveError::Content("no tensor"))), "{failed:?}");
    assert_eq!(names(temp.path()), ["ckpt-step-1"]);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.save(2, Overwrite::Refuse, |stage| -> Result<(), Error> {
            stage.write("half", b"half")?;
            panic!("in the middle")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(names(temp.path()), ["ckpt-step-1"]);
    assert_filled(&save(&mut store, 2).unwrap());
}

#[test]
fn a_step_is_saved_once_unless_exchange_is_asked_for() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1, 3]);
    let mut store = open(temp.path());
    let again = save(&mut store, 3);
    assert!(matches!(again, Err(Error::AlreadyExists { step: 3, .. })), "{again:?}");
    let back = save(&mut store, 2);
    assert!(matches!(back, Err(Error::StepNotMonotonic { step: 2, newest: 3, .. })), "{back:?}");
    let swapped = store.save(3, Overwrite::Exchange, |stage| stage.write("other", b"new")).unwrap();
    assert_eq!(swapped.read("other").unwrap(), b"new");
    assert_eq!(swapped.manifest().parent_step, Some(1));
    assert_eq!(names(temp.path()), ["ckpt-step-1", "ckpt-step-3"]);
    assert!(store.take_problems().is_empty());
}

#[test]
fn a_damaged_directory_under_the_steps_name_is_moved_away_and_kept() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1]);
    std::fs::create_dir(temp.path().join("ckpt-step-2")).unwrap();
    std::fs::write(temp.path().join("ckpt-step-2/half"), b"half").unwrap();
    let mut store = open(temp.path());
    assert_filled(&save(&mut store, 2).unwrap());
    let moved = temp.path().join("abandoned-2-1/ckpt-step-2");
    assert_eq!(std::fs::read(moved.join("half")).unwrap(), b"half");
    assert_eq!(store.reader().abandoned().unwrap(), [moved]);
}

#[test]
fn files_written_by_other_code_are_taken_in_with_readable_modes() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    let saved = store
        .save(1, Overwrite::Refuse, |stage| -> Result<(), Error> {
            let dir = stage.dir().join("weights");
            std::fs::create_dir(&dir).unwrap();
            std::fs::write(dir.join("model.bin"), weights(1)).unwrap();
            std::fs::set_permissions(dir.join("model.bin"), PermissionsExt::from_mode(0o600)).unwrap();
            stage.write("own", b"own")
        })
        .unwrap();
    assert_filled(&saved);
    let mode = |path: &str| saved.path().join(path).metadata().unwrap().permissions().mode() & 0o777;
    // The umask of the test process decides; both kinds of file must follow it alike.
    assert_eq!(mode("weights/model.bin"), mode("own"));
    assert_eq!(mode("own"), mode("") & 0o666);
    assert_eq!(mode("own") & 0o600, 0o600);
}

#[test]
fn streamed_pieces_equal_one_write() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 253) as u8).collect();
    let saved = store
        .save(1, Overwrite::Refuse, |stage| -> Result<(), Box<dyn std::error::Error>> {
            stage.write("whole", &bytes)?;
            let mut file = stage.create("pieces")?;
            let mut rest = &bytes[..];
            for size in [0, 1, 7, 1_048_575, 1_048_576, 2_000_000] {
                let (now, later) = rest.split_at(size);
                file.write_all(now)?;
                rest = later;
            }
            file.write_all(rest)?;
            file.finish()?;
            Ok(())
        })
        .unwrap();
    let manifest = saved.manifest();
    let (whole, pieces) = (manifest.file("whole").unwrap(), manifest.file("pieces").unwrap());
    assert_eq!((&whole.blake3, &whole.chunks), (&pieces.blake3, &pieces.chunks));
    assert_eq!(saved.read("pieces").unwrap(), bytes);
}

#[track_caller]
fn refused(fill: impl FnOnce(&mut Stage) -> Result<(), Error>, expected: &str) {
    let temp = tempfile::tempdir().unwrap();
    let error = Error::from(open(temp.path()).save(1, Overwrite::Refuse, fill).unwrap_err());
    assert_eq!(error.to_string(), expected);
    assert_eq!(names(temp.path()), [""; 0]);
}

#[test]
fn what_cannot_be_in_a_checkpoint_is_refused_by_name() {
    let tail = "use a relative path such as weights/model.safetensors";
    for (path, reason) in [
        ("../x", "a component starts with a dot"),
        ("/x", "it is absolute, ends in a slash or has an empty component"),
        ("a//x", "it is absolute, ends in a slash or has an empty component"),
        ("", "it is empty"),
        (".hidden", "a component starts with a dot"),
        ("a\0b", "it has a control character"),
        ("MANIFEST.json", "that name is reserved for the manifest"),
    ] {
        let message = format!("cannot have {path:?} in a checkpoint: {reason}; {tail}");
        refused(|stage| stage.write(path, b""), &message);
    }
    refused(
        |stage| {
            std::os::unix::fs::symlink("/etc/passwd", stage.dir().join("link")).unwrap();
            Ok(())
        },
        &format!("cannot have \"link\" in a checkpoint: it is a symbolic link or a special file; {tail}"),
    );
    refused(
        |stage| {
            stage.create("half").map(drop)?;
            stage.write("other", b"other")
        },
        "file \"half\" was not finished: call finish() on every StageFile before the save ends",
    );
    refused(
        |stage| stage.metric("a, b", 1.0),
        "cannot record metric \"a, b\" = 1: its name is empty, longer than 255 bytes or has a space or a comma; leave it out where there is none",
    );
    refused(
        |stage| {
            fill(stage, 1)?;
            std::fs::remove_file(stage.dir().join("train_state.json")).unwrap();
            Ok(())
        },
        "file \"train_state.json\" of the stage was changed after it was written: found nothing, \
         16 bytes were written",
    );
}

#[test]
fn space_is_refused_before_anything_is_written() {
    let temp = tempfile::tempdir().unwrap();
    let free = piton_checkpoint::free_bytes(temp.path().join("not/there/yet")).unwrap();
    assert!(free > 0);
    let error = open(temp.path()).save(1, Overwrite::Refuse, |stage| stage.expect_bytes(u64::MAX / 2));
    let Err(SaveError::Content(Error::NoSpace { needed, free, .. })) = error else { panic!("{error:?}") };
    assert!(needed > free);
}
