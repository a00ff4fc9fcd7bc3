//! Files written here are those of the safetensors crate, byte for byte, and damaged ones are refused.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test or bench: a failure should stop it where it happens"
)]

use std::collections::{BTreeMap, HashMap};

use piton_torch::{read_safetensors, read_safetensors_dir, write_safetensors};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use tch::{Kind, Tensor};

fn example() -> BTreeMap<String, Tensor> {
    let ramp = Tensor::arange(6, (Kind::Float, tch::Device::Cpu)) - 2.5;
    BTreeMap::from([
        ("b.half".to_owned(), ramp.to_kind(Kind::Half)),
        ("a.brain".to_owned(), ramp.to_kind(Kind::BFloat16)),
        ("z.single".to_owned(), ramp.reshape([2, 3])),
        ("transposed".to_owned(), ramp.reshape([2, 3]).tr()),
        ("c.double".to_owned(), ramp.to_kind(Kind::Double)),
        ("ids".to_owned(), Tensor::from_slice(&[1_i64, -7])),
        ("mask".to_owned(), Tensor::from_slice(&[true, false, true])),
        ("scalar".to_owned(), Tensor::from(3.0_f32)),
        ("empty".to_owned(), Tensor::zeros([0, 4], (Kind::Float, tch::Device::Cpu))),
        ("byte".to_owned(), Tensor::from_slice(&[250_u8])),
        ("small".to_owned(), Tensor::from_slice(&[-3_i8])),
        ("short".to_owned(), Tensor::from_slice(&[-300_i16])),
        ("int".to_owned(), Tensor::from_slice(&[-70_000_i32])),
    ])
}

fn metadata(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn written(tensors: &BTreeMap<String, Tensor>, metadata: &BTreeMap<String, String>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_safetensors(tensors, metadata, &mut bytes).unwrap();
    bytes
}

#[test]
fn what_is_written_reads_back_with_names_dtypes_shapes_and_values() {
    let metadata = metadata(&[("format", "pt"), ("b", "2"), ("a", "\"quoted\"\n")]);
    let tensors = example();
    let file = read_safetensors(&written(&tensors, &metadata), "test").unwrap();
    assert_eq!(file.metadata, metadata);
    assert!(file.tensors.keys().eq(tensors.keys()));
    for (name, tensor) in &tensors {
        let read = &file.tensors[name];
        assert_eq!((read.kind(), read.size()), (tensor.kind(), tensor.size()), "{name}");
        assert!(read.equal(tensor), "{name}");
    }
}

#[test]
fn bytes_equal_those_of_the_safetensors_crate() {
    // one metadata key: the crate keeps them in a hash map, and writes several in any order
    let bytes = written(&example(), &metadata(&[("format", "pt")]));
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let views: Vec<(String, TensorView<'_>)> = file.tensors();
    let theirs =
        safetensors::serialize(views, Some(HashMap::from([("format".to_owned(), "pt".to_owned())]))).unwrap();
    assert_eq!(bytes, theirs);
}

#[test]
fn damaged_files_are_refused_and_named() {
    let bytes = written(&example(), &BTreeMap::new());
    for cut in [0, 7, 8, 100, bytes.len() - 1] {
        let error = read_safetensors(&bytes[..cut], "dir/model.safetensors").unwrap_err().to_string();
        assert!(error.starts_with("dir/model.safetensors: not a valid safetensors file: "), "{error}");
    }
}

#[test]
fn a_dtype_without_counterpart_is_refused_both_ways() {
    let view = TensorView::new(Dtype::F8_E4M3, vec![2], &[0, 1]).unwrap();
    let bytes = safetensors::serialize([("weight", view)], None).unwrap();
    let error = read_safetensors(&bytes, "test").unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor weight has dtype F8_E4M3, which is not supported; convert it first"
    );
    let complex = Tensor::zeros([2], (Kind::ComplexFloat, tch::Device::Cpu));
    let mut out = Vec::new();
    let error = write_safetensors(&BTreeMap::from([("c".to_owned(), complex)]), &BTreeMap::new(), &mut out);
    assert!(error.unwrap_err().to_string().contains("ComplexFloat"));
    assert!(out.is_empty());
}

#[test]
fn shards_are_joined_and_an_index_that_lies_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let one =
        BTreeMap::from([("a".to_owned(), Tensor::from(1.0_f32)), ("b".to_owned(), Tensor::from(2.0_f32))]);
    let two = BTreeMap::from([("c".to_owned(), Tensor::from(3.0_f32))]);
    std::fs::write(dir.path().join("m-1.safetensors"), written(&one, &BTreeMap::new())).unwrap();
    std::fs::write(dir.path().join("m-2.safetensors"), written(&two, &BTreeMap::new())).unwrap();
    let index = dir.path().join("model.safetensors.index.json");
    let write_index =
        |map: &str| std::fs::write(&index, format!("{{\"metadata\":{{}},\"weight_map\":{map}}}"));

    write_index(r#"{"a":"m-1.safetensors","b":"m-1.safetensors","c":"m-2.safetensors"}"#).unwrap();
    let whole = read_safetensors_dir(dir.path()).unwrap();
    assert!(whole.tensors.keys().eq(["a", "b", "c"]));

    write_index(r#"{"a":"m-1.safetensors","c":"m-2.safetensors","d":"m-2.safetensors"}"#).unwrap();
    let error = read_safetensors_dir(dir.path()).unwrap_err().to_string();
    assert!(error.contains("b in m-1.safetensors is not in the index"), "{error}");
    assert!(error.contains("d is not in m-2.safetensors"), "{error}");

    write_index(r#"{"a":"../m-1.safetensors"}"#).unwrap();
    assert!(read_safetensors_dir(dir.path()).unwrap_err().to_string().contains("expected a file name"));
}
