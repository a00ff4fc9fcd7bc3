//! Files to tensors, one file or a sharded directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ::safetensors::SafeTensors;
use serde::Deserialize;
use tch::Tensor;

use super::DTYPES;
use crate::{Error, Result};

/// What one safetensors file, or all shards of a model, hold.
#[derive(Debug, Default)]
pub struct TensorFile {
    /// Tensors by name, on the CPU, in the dtype of the file.
    pub tensors: BTreeMap<String, Tensor>,
    /// The free-text map of the header; of sharded models, that of all shards merged.
    pub metadata: BTreeMap<String, String>,
}

/// Reads the bytes of a safetensors file; `origin` names them in errors.
///
/// # Errors
/// When the header is damaged, offsets overlap or leave holes, or a dtype has no counterpart in tch.
pub fn read_safetensors(bytes: &[u8], origin: &str) -> Result<TensorFile> {
    let format = |reason: String| Error::Format { origin: origin.to_owned(), reason };
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| format(error.to_string()))?;
    let file = SafeTensors::deserialize(bytes).map_err(|error| format(error.to_string()))?;
    let mut tensors = BTreeMap::new();
    for (name, view) in file.iter() {
        let Some((_, kind, _)) = DTYPES.iter().find(|(dtype, ..)| *dtype == view.dtype()) else {
            return Err(Error::Dtype { name: name.to_owned(), dtype: format!("{:?}", view.dtype()) });
        };
        let shape: Option<Vec<i64>> = view.shape().iter().map(|&size| i64::try_from(size).ok()).collect();
        let shape =
            shape.ok_or_else(|| format(format!("{name} has an impossible shape {:?}", view.shape())))?;
        tensors.insert(name.to_owned(), Tensor::f_from_data_size(view.data(), &shape, *kind)?);
    }
    let metadata = header.metadata().clone().unwrap_or_default().into_iter().collect();
    Ok(TensorFile { tensors, metadata })
}

/// Reads one safetensors file.
///
/// # Errors
/// When it cannot be read, or as [`read_safetensors`].
pub fn read_safetensors_file(path: &Path) -> Result<TensorFile> {
    read_safetensors(&read(path)?, &path.display().to_string())
}

/// Reads a model directory: `model.safetensors`, or the shards of `model.safetensors.index.json`.
///
/// # Errors
/// When neither file is there, a shard is missing or damaged, or the index and the shards disagree.
pub fn read_safetensors_dir(dir: &Path) -> Result<TensorFile> {
    let single = dir.join("model.safetensors");
    let index = dir.join("model.safetensors.index.json");
    if single.is_file() || !index.is_file() {
        return read_safetensors_file(&single);
    }
    let origin = index.display().to_string();
    let Index { weight_map } = serde_json::from_slice(&read(&index)?)
        .map_err(|error| Error::Format { origin: origin.clone(), reason: error.to_string() })?;
    let mut names_of: BTreeMap<&Path, Vec<&str>> = BTreeMap::new();
    for (name, shard) in &weight_map {
        // a shard lies beside the index: a path that leads elsewhere is not one
        if shard.components().count() != 1 || shard.file_name().is_none() {
            let reason = format!("{name} lies in {}, expected a file name", shard.display());
            return Err(Error::Format { origin, reason });
        }
        names_of.entry(shard).or_default().push(name);
    }
    let mut whole = TensorFile::default();
    let mut faults = Vec::new();
    for (shard, names) in names_of {
        let mut part = read_safetensors_file(&dir.join(shard))?;
        for name in names {
            match part.tensors.remove(name) {
                Some(tensor) => drop(whole.tensors.insert(name.to_owned(), tensor)),
                None => faults.push(format!("{name} is not in {}", shard.display())),
            }
        }
        for name in part.tensors.keys() {
            faults.push(format!("{name} in {} is not in the index", shard.display()));
        }
        whole.metadata.append(&mut part.metadata);
    }
    if faults.is_empty() { Ok(whole) } else { Err(Error::Mismatch { context: origin, faults }) }
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, PathBuf>,
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|source| Error::Io { action: format!("read {}", path.display()), source })
}
