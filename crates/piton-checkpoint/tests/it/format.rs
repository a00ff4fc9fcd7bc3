//! Format versions 1 and 2, written by `fixtures/checkpoints/make_v1.py` and `make_v2.py` with other code.

use std::path::PathBuf;

use piton_checkpoint::{Overwrite, RenderOptions, render};

use crate::support::{open, read};

fn golden(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/checkpoints").join(version)
}

#[test]
fn version_1_loads() {
    let latest = read(&golden("v1")).latest().unwrap().unwrap();
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
fn version_2_loads() {
    let latest = read(&golden("v2")).latest().unwrap().unwrap();
    assert_eq!(latest.step(), 10);
    assert_eq!(latest.verify().unwrap(), piton_checkpoint::Report::default());
    assert_eq!(latest.manifest().metrics.get("eval/accuracy"), Some(&0.25));
    assert_eq!(latest.read("weights/model.bin").unwrap(), vec![b'p'; (4 << 20) + 2000]);
}

/// A checkpoint of format 1 with a file of two chunks, as that version wrote it.
#[test]
fn damage_in_a_large_file_of_version_1_is_located() {
    let temp = tempfile::tempdir().unwrap();
    let directory = temp.path().join("ckpt-step-3");
    std::fs::create_dir(&directory).unwrap();
    let mut bytes = vec![7_u8; 5 << 20];
    let digest = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
    let (first, second) = bytes.split_at(4 << 20);
    let body = format!(
        r#"{{
  "format": 1,
  "run_id": "golden",
  "step": 3,
  "parent_step": null,
  "config_digest": "golden-config",
  "created_unix_ms": 1796000000000,
  "environment": {{}},
  "files": [{{"path": "big", "size": {}, "blake3": "{}", "chunks": ["{}", "{}"]}}],
"#,
        bytes.len(),
        digest(&bytes),
        digest(first),
        digest(second)
    );
    let manifest = format!("{body}  \"self_blake3\": \"{}\"\n}}\n", digest(body.as_bytes()));
    std::fs::write(directory.join("MANIFEST.json"), manifest).unwrap();
    std::fs::write(directory.join("big"), &bytes).unwrap();
    assert_eq!(read(temp.path()).at(3).unwrap().read("big").unwrap(), bytes);

    bytes[(4 << 20) + 5] ^= 1;
    std::fs::write(directory.join("big"), &bytes).unwrap();
    let error = read(temp.path()).at(3).unwrap_err().to_string();
    assert!(error.contains("4194304"), "{error}");
}

#[test]
fn a_metric_that_is_not_finite_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    for value in [f64::NAN, f64::INFINITY] {
        let saved = store.save(1, Overwrite::Refuse, |stage| stage.metric("return", value));
        let error = saved.unwrap_err().to_string();
        assert!(
            error.contains(&format!("metric \"return\" = {value}: it is not a finite number")),
            "{error}"
        );
    }
    assert_eq!(store.reader().steps().unwrap(), [] as [u64; 0]);
}

#[test]
fn rendering_shows_paths_json_and_tensors_and_hides_what_varies() {
    let checkpoint = read(&golden("v1")).at(10).unwrap();
    let options = RenderOptions::default();
    insta::assert_snapshot!(render(checkpoint.path(), &options).unwrap());
    insta::assert_snapshot!("rendering_with_digests", {
        render(checkpoint.path(), &options.digests().redact("cur_step")).unwrap()
    });
}

/// The same files give the same manifest as the Python script writes, byte for byte.
#[test]
fn this_version_writes_what_the_other_code_writes() {
    let golden = read(&golden("v2")).at(9).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let manifest = golden.manifest();
    let options = piton_checkpoint::StoreOptions::new("golden", "golden-config", || 1_796_000_000_000)
        .environment(manifest.environment.clone());
    let mut store = piton_checkpoint::Store::open(temp.path(), options).unwrap();
    let saved = store
        .save(9, Overwrite::Refuse, |stage| {
            manifest.metrics.iter().try_for_each(|(name, value)| stage.metric(name, *value))?;
            golden.files().try_for_each(|path| stage.write(path, &golden.read(path)?))
        })
        .unwrap();
    let text = |dir: &std::path::Path| std::fs::read_to_string(dir.join("MANIFEST.json")).unwrap();
    assert_eq!(text(saved.path()), text(golden.path()));
}

/// Digests printed by the script for `bytes(at % 251 for at in range(size))`.
#[test]
fn digests_equal_those_of_the_other_code() {
    let expected: [(usize, &str, &[&str]); 5] = [
        (0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262", &[]),
        (1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213", &[]),
        (4194304, "4e94e6f582581a0f3855f3ce504b153e951e65036fe9e2f010b7e25473c54f98", &[]),
        (
            4194305,
            "0460893a0170917e0d568bb27c0287984d4f7e9d59eafb95e6fb3c01ec611eab",
            &[
                "66c3728f16ef43866ba8c7fc0bf1f81407bbe7bf0974e508022a8bb151f92822",
                "f49e55893dc3a6aa03fff53c643b1b5186a11ebc3f6f66a3a064249323f8c56a",
            ],
        ),
        (
            9437184,
            "8516f8a0ae9a7a21cdd69df13aaa9b2a22a499848fb3185cea4cae496ce4d91a",
            &[
                "66c3728f16ef43866ba8c7fc0bf1f81407bbe7bf0974e508022a8bb151f92822",
                "404e30f08e893495fad7ce1e918c5aef526f8a7ad2e996e417dc01dd73fd8517",
                "8b61ffb06a324770001dfc1923ff123239e9b620e7dca3aec5dee19489eff916",
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
