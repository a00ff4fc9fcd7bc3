//! What differs between two checkpoints.

use std::collections::BTreeMap;

use piton_checkpoint::{Checkpoint, Error, FileChange, Overwrite, diff};
use serde_json::json;

use crate::support::open;

/// A safetensors file with these tensors, one after the other.
fn tensors(tensors: &[(&str, &str, &[usize], Vec<u8>)]) -> Vec<u8> {
    let (mut header, mut data) = (BTreeMap::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let begin = data.len();
        data.extend(bytes);
        header.insert(name, json!({ "dtype": dtype, "shape": shape, "data_offsets": [begin, data.len()] }));
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn two(first: &[(&str, Vec<u8>)], second: &[(&str, Vec<u8>)]) -> BTreeMap<String, FileChange> {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    let mut save = |step: u64, files: &[(&str, Vec<u8>)]| -> Checkpoint {
        let saved = store.save(step, Overwrite::Refuse, |stage| -> Result<(), Error> {
            files.iter().try_for_each(|(path, bytes)| stage.write(path, bytes))
        });
        saved.unwrap()
    };
    let (first, second) = (save(1, first), save(2, second));
    assert!(diff(&first, &first).unwrap().is_empty());
    diff(&first, &second).unwrap()
}

#[test]
fn files_are_named_with_what_became_of_them() {
    let same = ("same", vec![1; 10]);
    let changes = two(
        &[same.clone(), ("gone", vec![2; 3]), ("grown", vec![3; 4]), ("not.json", b"{".to_vec())],
        &[same, ("new", vec![2; 5]), ("grown", vec![3; 6]), ("not.json", b"[".to_vec())],
    );
    let expected = [
        ("gone", FileChange::OnlyInFirst(3)),
        ("grown", FileChange::Bytes(4, 6)),
        ("new", FileChange::OnlyInSecond(5)),
        ("not.json", FileChange::Bytes(1, 1)),
    ];
    assert_eq!(changes, expected.map(|(path, change)| (path.to_owned(), change)).into());
}

#[test]
fn members_of_json_are_named_by_their_path() {
    let old = json!({ "a": 1, "b": { "x/y": [1, 2, 3], "same": null }, "gone": [] });
    let new = json!({ "a": 1.5, "b": { "x/y": [1, 4], "same": null }, "new": "text" });
    let file = |value: &serde_json::Value| vec![("state.json", value.to_string().into_bytes())];
    let FileChange::Json(members) = &two(&file(&old), &file(&new))["state.json"] else { panic!() };
    let expected = [
        ("/a", (Some(json!(1)), Some(json!(1.5)))),
        ("/b/x~1y/1", (Some(json!(2)), Some(json!(4)))),
        ("/b/x~1y/2", (Some(json!(3)), None)),
        ("/gone", (Some(json!([])), None)),
        ("/new", (None, Some(json!("text")))),
    ];
    assert_eq!(*members, expected.map(|(path, change)| (path.to_owned(), change)).into());
}

#[test]
fn tensors_are_compared_by_value() {
    let old = tensors(&[
        ("bf16", "BF16", &[2], vec![0x80, 0x3f, 0x00, 0x40]), // 1, 2
        ("f32", "F32", &[3], f32s(&[1.0, -2.0, f32::NAN])),
        ("gone", "U8", &[1], vec![1]),
        ("nan", "F32", &[1], f32s(&[1.0])),
        ("same", "F32", &[1], f32s(&[7.0])),
        ("shape", "F32", &[2, 1], f32s(&[1.0, 2.0])),
        ("u8", "U8", &[1], vec![1]),
    ]);
    let new = tensors(&[
        ("bf16", "BF16", &[2], vec![0x80, 0x3f, 0x40, 0x40]), // 1, 3
        ("f32", "F32", &[3], f32s(&[1.25, -4.5, f32::NAN])),
        ("nan", "F32", &[1], f32s(&[f32::NAN])),
        ("new", "U8", &[1], vec![1]),
        ("same", "F32", &[1], f32s(&[7.0])),
        ("shape", "F32", &[1, 2], f32s(&[1.0, 2.0])),
        ("u8", "U8", &[1], vec![2]),
    ]);
    let changes = two(&[("w.safetensors", old)], &[("w.safetensors", new)]);
    let FileChange::Tensors(tensors) = &changes["w.safetensors"] else { panic!("{changes:?}") };
    let told: Vec<String> = tensors.iter().map(|(name, change)| format!("{name} {change:?}")).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    bf16 Values { kind: "BF16 [2]", largest: Some(1.0) }
    f32 Values { kind: "F32 [3]", largest: Some(2.5) }
    gone OnlyInFirst("U8 [1]")
    nan Values { kind: "F32 [1]", largest: Some(NaN) }
    new OnlyInSecond("U8 [1]")
    shape Kind("F32 [2, 1]", "F32 [1, 2]")
    u8 Values { kind: "U8 [1]", largest: None }
    "#);
}
