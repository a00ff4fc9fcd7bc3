//! The header of a safetensors file, for showing what is in it. Nothing in the file is trusted.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use serde::Deserialize;
use serde_json::Value;

/// The format's own limit on the header, in bytes.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Name, type and shape of each tensor, by name.
pub(crate) type Tensors = BTreeMap<String, Tensor>;

/// One entry of the header.
#[derive(Debug, Deserialize)]
pub(crate) struct Tensor {
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u64>,
    /// First byte and the byte after the last, counted from the end of the header.
    data_offsets: (u64, u64),
}

/// Reads the header; the message says what is wrong with it.
pub(crate) fn read_header(file: &mut File) -> Result<Tensors, String> {
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| "shorter than 8 bytes".to_owned())?;
    let length = u64::from_le_bytes(length);
    let data = size.checked_sub(8).and_then(|rest| rest.checked_sub(length));
    let Some(data) = data.filter(|_| length <= MAX_HEADER_BYTES) else {
        return Err(format!("its header claims {length} bytes, the file has {size}"));
    };
    let mut header = Vec::new();
    file.take(length).read_to_end(&mut header).map_err(|error| error.to_string())?;
    let entries: BTreeMap<String, Value> =
        serde_json::from_slice(&header).map_err(|error| format!("its header is not JSON: {error}"))?;
    let mut tensors = Tensors::new();
    for (name, value) in entries.into_iter().filter(|(name, _)| name != "__metadata__") {
        let tensor: Tensor = serde_json::from_value(value).map_err(|error| format!("{name}: {error}"))?;
        let (begin, end) = tensor.data_offsets;
        if begin > end || end > data {
            return Err(format!("{name}: bytes {begin}..{end} are not in its {data} bytes of data"));
        }
        tensors.insert(name, tensor);
    }
    Ok(tensors)
}

/// BLAKE3 of a tensor's bytes, in hex.
pub(crate) fn digest(file: &mut File, tensor: &Tensor) -> std::io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(data(file, tensor)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// A tensor's bytes.
pub(crate) fn data<'a>(file: &'a mut File, tensor: &Tensor) -> std::io::Result<impl Read + use<'a>> {
    let mut length = [0; 8];
    file.seek(SeekFrom::Start(0))?;
    file.read_exact(&mut length)?;
    let (begin, _) = tensor.data_offsets;
    file.seek(SeekFrom::Start(8 + u64::from_le_bytes(length) + begin))?;
    Ok(file.take(tensor.bytes()))
}

impl Tensor {
    /// Size of its data in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let (begin, end) = self.data_offsets;
        end - begin
    }
}
