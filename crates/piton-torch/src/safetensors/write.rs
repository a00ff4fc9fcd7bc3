//! Tensors to a file: same tensors, same bytes.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;
use tch::{Device, Tensor};

use super::DTYPES;
use crate::{Error, Result};

/// Writes tensors and metadata as one safetensors file.
///
/// The bytes depend on names, values and metadata only: tensors go widest dtype first, then by name,
/// and metadata by key. Tensors on other devices are copied one at a time, so the most memory taken is
/// that of the largest tensor. Nothing is written before all dtypes are known to fit.
///
/// # Errors
/// When a dtype has no counterpart in the format, or `out` fails.
pub fn write_safetensors(
    tensors: &BTreeMap<String, Tensor>,
    metadata: &BTreeMap<String, String>,
    out: &mut impl Write,
) -> Result<()> {
    let mut order = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let kind = tensor.f_kind()?;
        let Some(rank) = DTYPES.iter().position(|(_, known, _)| *known == kind) else {
            return Err(Error::Dtype { name: name.clone(), dtype: format!("{kind:?}") });
        };
        order.push((rank, name, tensor));
    }
    order.sort_by_key(|&(rank, name, _)| (rank, name));

    // in this order and by hand: whether serde_json's own map keeps it depends on features of other crates
    let mut fields = Vec::with_capacity(order.len() + 1);
    if !metadata.is_empty() {
        fields.push(field("__metadata__", metadata)?);
    }
    let mut offset = 0;
    for &(rank, name, tensor) in &order {
        let (start, (.., kind, dtype)) = (offset, DTYPES[rank]);
        offset += tensor.numel() * kind.elt_size_in_bytes();
        fields.push(field(name, &Entry { dtype, shape: tensor.size(), data_offsets: [start, offset] })?);
    }
    let mut header = format!("{{{}}}", fields.join(",")).into_bytes();
    // spaces up to a multiple of 8, so that the first tensor starts aligned
    header.resize(header.len().next_multiple_of(8), b' ');

    let io = |source| Error::Io { action: "write safetensors".to_owned(), source };
    out.write_all(&(header.len() as u64).to_le_bytes()).map_err(io)?;
    out.write_all(&header).map_err(io)?;
    let mut scratch = Vec::new();
    for (rank, _, tensor) in order {
        let numel = tensor.numel();
        scratch.resize(numel * DTYPES[rank].1.elt_size_in_bytes(), 0);
        let tensor = tensor.f_detach()?.f_to_device(Device::Cpu)?.f_contiguous()?;
        tensor.f_copy_data_u8(&mut scratch, numel)?;
        out.write_all(&scratch).map_err(io)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Entry {
    dtype: &'static str,
    shape: Vec<i64>,
    data_offsets: [usize; 2],
}

fn field(name: &str, value: &impl Serialize) -> Result<String> {
    let text =
        |error: serde_json::Error| Error::Format { origin: name.to_owned(), reason: error.to_string() };
    let key = serde_json::to_string(name).map_err(text)?;
    Ok(format!("{key}:{}", serde_json::to_string(value).map_err(text)?))
}
