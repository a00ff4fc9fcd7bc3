//! What differs between two checkpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;

use serde_json::Value;

use crate::checkpoint::Checkpoint;
use crate::error::Error;
use crate::hook::Op;
use crate::manifest::FileEntry;
use crate::safetensors::{self, Tensor, Tensors};

/// A JSON file larger than this is compared as bytes.
const MAX_JSON_BYTES: u64 = 64 << 20;

/// How a file of two checkpoints differs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FileChange {
    /// Only the first has it; its size in bytes.
    OnlyInFirst(u64),
    /// Only the second has it; its size in bytes.
    OnlyInSecond(u64),
    /// Members of a JSON document, by their path (`/optimizer/lr`, RFC 6901): what they were and what they are.
    Json(BTreeMap<String, (Option<Value>, Option<Value>)>),
    /// Tensors of a safetensors file, by name.
    Tensors(BTreeMap<String, TensorChange>),
    /// Some other content; the sizes in bytes.
    Bytes(u64, u64),
}

/// How a tensor differs. Types and shapes are as text: `F32 [16, 64]`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TensorChange {
    /// Only the first has it.
    OnlyInFirst(String),
    /// Only the second has it.
    OnlyInSecond(String),
    /// Type or shape differ.
    Kind(String, String),
    /// The values differ.
    Values {
        /// Type and shape.
        kind: String,
        /// The largest difference of two numbers at one place, for F32, F64 and BF16; NaN when exactly one is not a number
        /// or they are infinitely far apart.
        largest: Option<f64>,
    },
}

/// The files that differ, by path. Both checkpoints are trusted as far as their digests go: files with equal digests are
/// not read, and of the others every byte is checked first.
///
/// # Errors
/// [`Error::Corrupt`] when a file that has to be read is damaged.
pub fn diff(first: &Checkpoint, second: &Checkpoint) -> Result<BTreeMap<String, FileChange>, Error> {
    let paths: BTreeSet<&str> = first.files().chain(second.files()).collect();
    let mut changes = BTreeMap::new();
    for path in paths {
        let change = match (first.manifest().file(path), second.manifest().file(path)) {
            (Some(a), Some(b)) if a.blake3 == b.blake3 => continue,
            (Some(a), Some(b)) => content(first, a, second, b)?,
            (Some(a), None) => FileChange::OnlyInFirst(a.size),
            (None, Some(b)) => FileChange::OnlyInSecond(b.size),
            (None, None) => continue,
        };
        changes.insert(path.to_owned(), change);
    }
    Ok(changes)
}

fn content(
    first: &Checkpoint,
    a: &FileEntry,
    second: &Checkpoint,
    b: &FileEntry,
) -> Result<FileChange, Error> {
    let path = a.path.as_str();
    if path.ends_with(".json") && a.size.max(b.size) <= MAX_JSON_BYTES {
        let value = |of: &Checkpoint| Ok::<_, Error>(serde_json::from_slice::<Value>(&of.read(path)?).ok());
        if let (Some(old), Some(new)) = (value(first)?, value(second)?) {
            let mut members = BTreeMap::new();
            compare(String::new(), Some(&old), Some(&new), &mut members);
            if !members.is_empty() {
                return Ok(FileChange::Json(members));
            }
        }
    } else if path.ends_with(".safetensors") {
        let (mut one, mut two) = (first.open_verified(path)?, second.open_verified(path)?);
        let headers = (safetensors::read_header(&mut one), safetensors::read_header(&mut two));
        if let (Ok(old), Ok(new)) = headers {
            let failed = |source| Error::Io { op: Op::Read, path: first.path().join(path), source };
            let tensors = tensors(&mut one, &old, &mut two, &new).map_err(failed)?;
            if !tensors.is_empty() {
                return Ok(FileChange::Tensors(tensors));
            }
        }
    }
    Ok(FileChange::Bytes(a.size, b.size))
}

type Members = BTreeMap<String, (Option<Value>, Option<Value>)>;

fn compare(at: String, old: Option<&Value>, new: Option<&Value>, members: &mut Members) {
    match (old, new) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let step = key.replace('~', "~0").replace('/', "~1");
                compare(format!("{at}/{step}"), a.get(key), b.get(key), members);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                compare(format!("{at}/{index}"), a.get(index), b.get(index), members);
            }
        }
        (old, new) if old != new => {
            members.insert(at, (old.cloned(), new.cloned()));
        }
        _ => {}
    }
}

fn tensors(
    one: &mut File,
    old: &Tensors,
    two: &mut File,
    new: &Tensors,
) -> std::io::Result<BTreeMap<String, TensorChange>> {
    let mut changes = BTreeMap::new();
    for name in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
        let change = match (old.get(name), new.get(name)) {
            (Some(a), None) => TensorChange::OnlyInFirst(kind(a)),
            (None, Some(b)) => TensorChange::OnlyInSecond(kind(b)),
            (Some(a), Some(b)) if kind(a) != kind(b) => TensorChange::Kind(kind(a), kind(b)),
            (Some(a), Some(b)) => match distance(one, a, two, b)? {
                Distance::Same => continue,
                Distance::Apart(largest) => TensorChange::Values { kind: kind(a), largest },
            },
            (None, None) => continue,
        };
        changes.insert(name.clone(), change);
    }
    Ok(changes)
}

fn kind(tensor: &Tensor) -> String {
    format!("{} {:?}", tensor.dtype, tensor.shape)
}

enum Distance {
    Same,
    Apart(Option<f64>),
}

/// Compares two tensors of one type and shape, block by block.
fn distance(one: &mut File, a: &Tensor, two: &mut File, b: &Tensor) -> std::io::Result<Distance> {
    let size = a.bytes();
    if size != b.bytes() {
        return Ok(Distance::Apart(None));
    }
    let (mut one, mut two) = (safetensors::data(one, a)?, safetensors::data(two, b)?);
    let mut blocks = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let (mut left, mut same, mut largest) = (size, true, 0_f64);
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(usize::MAX).min(blocks.0.len());
        let (x, y) = (&mut blocks.0[..now], &mut blocks.1[..now]);
        one.read_exact(x)?;
        two.read_exact(y)?;
        if x != y {
            same = false;
            largest = worse(largest, apart(&a.dtype, x, y));
        }
        left -= now as u64;
    }
    let known = ["F32", "F64", "BF16"].contains(&a.dtype.as_str());
    Ok(if same { Distance::Same } else { Distance::Apart(known.then_some(largest)) })
}

/// The larger one; NaN wins.
fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

fn apart(dtype: &str, x: &[u8], y: &[u8]) -> f64 {
    fn over<const N: usize>(x: &[u8], y: &[u8], number: impl Fn([u8; N]) -> f64) -> f64 {
        let pairs = x.as_chunks::<N>().0.iter().zip(y.as_chunks::<N>().0).filter(|(a, b)| a != b);
        let apart = pairs.map(|(a, b)| match (number(*a), number(*b)) {
            (a, b) if a.is_nan() && b.is_nan() => 0.0,
            (a, b) if (a - b).is_finite() => (a - b).abs(),
            _ => f64::NAN,
        });
        apart.fold(0.0, worse)
    }
    match dtype {
        "F32" => over(x, y, |bytes: [u8; 4]| f64::from(f32::from_le_bytes(bytes))),
        "F64" => over(x, y, f64::from_le_bytes),
        // The upper half of an F32.
        "BF16" => over(x, y, |[low, high]: [u8; 2]| f64::from(f32::from_le_bytes([0, 0, low, high]))),
        _ => 0.0,
    }
}
