//! Format version 1, written by `fixtures/checkpoints/make_v1.py` with other code.

use std::path::PathBuf;

use piton_checkpoint::{Overwrite, RenderOptions, render};

use crate::support::{open, read};

fn golden() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/checkpoints/v1"))
}

#[test]
fn version_1_loads() {
    let latest = read(&golden()).latest().unwrap().unwrap();
    assert_eq!(latest.step(), 10);
    assert_eq!(latest.verify().unwrap(), piton_checkpoint::Report::default());
    let manifest = latest.manifest();
    assert_eq!((manifest.run_id.as_str(), manifest.parent_step), ("golden", Some(9)));
    assert_eq!(manifest.environment["libtorch"], "2.13.0");
    assert_eq!(latest.read("tasks/sum/replay.jsonl").unwrap(), b"{\"uid\": 1}\n{\"uid\": 2}\n");
    let state: std::collections::BTreeMap<String, u64> = latest.read_json("train_state.json").unwrap();
    assert_eq!(state["cur_step"], 10);
}

#[test]
fn rendering_shows_paths_json_and_tensors_and_hides_what_varies() {
    let checkpoint = read(&golden()).at(10).unwrap();
    let options = RenderOptions::default();
    insta::assert_snapshot!(render(checkpoint.path(), &options).unwrap());
    insta::assert_snapshot!("rendering_with_digests", {
        render(checkpoint.path(), &options.digests().redact("cur_step")).unwrap()
    });
}

/// The same files give the same manifest as the Python script writes, byte for byte.
#[test]
fn this_version_writes_what_the_other_code_writes() {
    let golden = read(&golden()).at(9).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let manifest = golden.manifest();
    let options = piton_checkpoint::StoreOptions::new("golden", "golden-config", || 1_796_000_000_000)
        .environment(manifest.environment.clone());
    let mut store = piton_checkpoint::Store::open(temp.path(), options).unwrap();
    let saved = store
        .save(9, Overwrite::Refuse, |stage| {
            golden.files().try_for_each(|path| stage.write(path, &golden.read(path)?))
        })
        .unwrap();
    let text = |dir: &std::path::Path| std::fs::read_to_string(dir.join("MANIFEST.json")).unwrap();
    assert_eq!(text(saved.path()), text(golden.path()));
}

/// Digests printed by the script for `bytes(at % 251 for at in range(size))`.
#[test]
fn digests_equal_those_of_the_python_package() {
    const FIRST: &str = "4e94e6f582581a0f3855f3ce504b153e951e65036fe9e2f010b7e25473c54f98";
    let expected: [(usize, &str, &[&str]); 5] = [
        (0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262", &[]),
        (1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213", &[]),
        (4 << 20, FIRST, &[]),
        (
            (4 << 20) + 1,
            "0460893a0170917e0d568bb27c0287984d4f7e9d59eafb95e6fb3c01ec611eab",
            &[FIRST, "684200d461e94e063925de567369dd89b8c1959b6f94ec8e740edf4c2bd21396"],
        ),
        (
            9 << 20,
            "8516f8a0ae9a7a21cdd69df13aaa9b2a22a499848fb3185cea4cae496ce4d91a",
            &[
                FIRST,
                "046f90301fa8a38b2bcfc87db934d243f2cbccb1c66021255697277ac6b956b8",
                "2f4e1bd655d6ce1f70b3df7b2721453ceb4232065515f8becda3d8e9906690e4",
            ],
        ),
    ];
    let bytes: Vec<u8> = (0..9_u32 << 20).map(|at| (at % 251) as u8).collect();
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    let saved = store.save(1, Overwrite::Refuse, |stage| {
        expected.iter().try_for_each(|(size, ..)| stage.write(&format!("f{size}"), &bytes[..*size]))
    });
    let saved = saved.unwrap();
    for (size, whole, chunks) in expected {
        let entry = saved.manifest().file(&format!("f{size}")).unwrap();
        assert_eq!((entry.blake3.as_str(), entry.chunks.len()), (whole, chunks.len()), "{size}");
        assert_eq!(entry.chunks, chunks, "{size}");
    }
}
