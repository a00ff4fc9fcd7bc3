//! Damage is found before any byte reaches the caller.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use piton_checkpoint::{Damage, Error, ManifestDamage, Overwrite, Reason};

use crate::support::{in_memory, open, read, store_with};

#[track_caller]
fn rejected(root: &Path, step: u64) -> Reason {
    let found = read(root).discover().unwrap();
    assert_eq!(found.valid.map(|valid| valid.step()), Some(step - 1));
    assert_eq!(found.rejected.len(), 1);
    found.rejected.into_iter().next().unwrap().reason
}

fn damaged(file: &str, change: impl FnOnce(&Path)) -> Vec<(String, Damage)> {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1, 2]);
    change(&temp.path().join("ckpt-step-2").join(file));
    match rejected(temp.path(), 2) {
        Reason::Files(bad) => bad.into_iter().map(|bad| (bad.path, bad.damage)).collect(),
        other => panic!("{other:?}"),
    }
}

fn flip(path: &Path, offset: u64, bit: u8) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << bit)], offset).unwrap();
}

#[test]
fn a_truncated_longer_missing_or_linked_file_is_named() {
    let model = "weights/model.bin";
    let name = model.to_owned();
    let cut =
        |size| move |path: &Path| OpenOptions::new().write(true).open(path).unwrap().set_len(size).unwrap();
    let size = |found| Damage::Size { expected: 50_002, found };
    assert_eq!(damaged(model, cut(50_001)), [(name.clone(), size(50_001))]);
    assert_eq!(damaged(model, cut(0)), [(name.clone(), size(0))]);
    assert_eq!(damaged(model, cut(60_000)), [(name.clone(), size(60_000))]);
    assert_eq!(damaged(model, |path| fs::remove_file(path).unwrap()), [(name.clone(), Damage::Missing)]);
    let link = |path: &Path| {
        fs::rename(path, path.with_extension("real")).unwrap();
        symlink("model.real", path).unwrap();
    };
    assert_eq!(damaged(model, link), [(name.clone(), Damage::NotAFile)]);
    let link_above = |path: &Path| {
        let dir = path.parent().unwrap();
        fs::rename(dir, dir.with_extension("real")).unwrap();
        symlink("weights.real", dir).unwrap();
    };
    assert_eq!(damaged(model, link_above), [(name, Damage::NotAFile)]);
}

#[test]
fn every_bad_file_is_named_and_extra_ones_are_only_reported() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1]);
    let checkpoint = read(temp.path()).at(1).unwrap();
    fs::write(checkpoint.path().join("note.txt"), b"mine").unwrap();
    let report = checkpoint.verify().unwrap();
    assert!(report.is_valid());
    assert_eq!(report.extra, ["note.txt"]);
    fs::remove_file(checkpoint.path().join("tasks/sum/empty")).unwrap();
    flip(&checkpoint.path().join("train_state.json"), 0, 3);
    let bad: Vec<_> = checkpoint.verify().unwrap().bad.iter().map(ToString::to_string).collect();
    assert_eq!(bad, ["tasks/sum/empty is missing", "train_state.json has the wrong checksum from byte 0 on"]);
    let error = checkpoint.read("train_state.json").unwrap_err();
    assert!(matches!(error, Error::Corrupt { step: 1, .. }), "{error}");
    assert!(checkpoint.open_verified("train_state.json").is_err());
    assert!(checkpoint.verified_path("train_state.json").is_err());
}

#[test]
fn any_flipped_bit_of_a_manifest_is_found() {
    let temp = in_memory();
    store_with(temp.path(), [1, 2]);
    let path = temp.path().join("ckpt-step-2/MANIFEST.json");
    let good = fs::read(&path).unwrap();
    let reader = read(temp.path());
    for at in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[at / 8] ^= 1 << (at % 8);
        fs::write(&path, &bad).unwrap();
        let error = reader.at(2).expect_err("a flipped bit went unseen");
        let Error::Rejected { rejected } = error else { panic!("bit {at}: {error}") };
        assert_eq!(rejected.reason, Reason::Manifest(ManifestDamage::Checksum), "bit {at}");
    }
    for length in 0..good.len() {
        fs::write(&path, &good[..length]).unwrap();
        assert!(matches!(reader.at(2), Err(Error::Rejected { .. })), "cut to {length} bytes");
    }
}

#[test]
fn any_flipped_bit_of_a_small_file_is_found() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1, 2]);
    let checkpoint = read(temp.path()).at(2).unwrap();
    let path = checkpoint.path().join("train_state.json");
    for at in 0..path.metadata().unwrap().len() * 8 {
        let bit = u8::try_from(at % 8).unwrap();
        flip(&path, at / 8, bit);
        assert!(checkpoint.read("train_state.json").is_err(), "bit {at}");
        flip(&path, at / 8, bit);
    }
    assert!(checkpoint.read("train_state.json").is_ok());
}

#[test]
fn damage_in_a_large_file_is_placed_by_chunk() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    let saved = store.save(1, Overwrite::Refuse, |stage| stage.write("big", &vec![5; 9 << 20])).unwrap();
    flip(&saved.path().join("big"), (4 << 20) + 17, 0);
    let report = saved.verify().unwrap();
    assert_eq!(report.bad[0].damage, Damage::Checksum { offset: 4 << 20 });
}

/// A hostile manifest with a right checksum: paths that leave the directory are refused as a whole.
#[test]
fn a_manifest_cannot_point_outside() {
    let temp = tempfile::tempdir().unwrap();
    store_with(temp.path(), [1, 2]);
    fs::write(temp.path().join("secret"), b"secret").unwrap();
    let path = temp.path().join("ckpt-step-2/MANIFEST.json");
    let text = fs::read_to_string(&path).unwrap().replace("tasks/sum/empty", "../secret");
    let body = &text[..text.rfind("  \"self_blake3\"").unwrap()];
    // The digest of the changed body, by another road than the store's.
    let digest = blake3::hash(body.as_bytes()).to_hex();
    fs::write(&path, format!("{body}  \"self_blake3\": \"{digest}\"\n}}\n")).unwrap();
    match rejected(temp.path(), 2) {
        Reason::Manifest(ManifestDamage::Malformed(what)) => assert!(what.contains("../secret"), "{what}"),
        other => panic!("{other:?}"),
    }
}
