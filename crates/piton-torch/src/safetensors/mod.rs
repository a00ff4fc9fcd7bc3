//! Named tensors as safetensors files: checked before use, byte-stable when written.

mod check;
mod read;
mod write;

use ::safetensors::Dtype;
use tch::Kind;

pub use check::{TensorSpec, check_tensors};
pub use read::{TensorFile, read_safetensors, read_safetensors_dir, read_safetensors_file};
pub use write::write_safetensors;

/// The dtypes that both sides know, in the order in which files hold them.
///
/// Widest first, so that every tensor starts aligned: the order of the
/// safetensors crate, whose files these are byte for byte.
const DTYPES: [(Dtype, Kind, &str); 10] = [
    (Dtype::I64, Kind::Int64, "I64"),
    (Dtype::F64, Kind::Double, "F64"),
    (Dtype::F32, Kind::Float, "F32"),
    (Dtype::I32, Kind::Int, "I32"),
    (Dtype::BF16, Kind::BFloat16, "BF16"),
    (Dtype::F16, Kind::Half, "F16"),
    (Dtype::I16, Kind::Int16, "I16"),
    (Dtype::I8, Kind::Int8, "I8"),
    (Dtype::U8, Kind::Uint8, "U8"),
    (Dtype::BOOL, Kind::Bool, "BOOL"),
];
