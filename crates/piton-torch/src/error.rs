//! What can go wrong between Rust and libtorch.

use thiserror::Error;

/// Result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything this crate refuses, with what was found and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Named tensors do not match what was expected; every fault is listed.
    #[error("{context}:\n{}", faults.iter().map(|fault| format!("  {fault}")).collect::<Vec<_>>().join("\n"))]
    Mismatch {
        /// What was being matched, for example `load optimizer state`.
        context: String,
        /// One line a fault: name, expected, found.
        faults: Vec<String>,
    },
    /// Tensors hold NaN or infinity.
    #[error("{context}: not finite: {}", names.join(", "))]
    NonFinite {
        /// What was checked, for example `gradients`.
        context: String,
        /// Names of the tensors with a NaN or an infinity.
        names: Vec<String>,
    },
    /// A dtype that safetensors files or this crate cannot carry.
    #[error("tensor {name} has dtype {dtype}, which is not supported; convert it first")]
    Dtype {
        /// Name of the tensor.
        name: String,
        /// The dtype found.
        dtype: String,
    },
    /// Bytes that are not a well-formed safetensors file.
    #[error("{origin}: not a valid safetensors file: {reason}; copy or download it again")]
    Format {
        /// Where the bytes came from.
        origin: String,
        /// What is wrong with them.
        reason: String,
    },
    /// A hyper-parameter out of its range.
    #[error("{name} is {found}, expected {expected}")]
    Setting {
        /// The field.
        name: &'static str,
        /// Its value.
        found: f64,
        /// Its legal range.
        expected: &'static str,
    },
    /// A file could not be read or written.
    #[error("{action}: {source}")]
    Io {
        /// What was attempted and on which path.
        action: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// libtorch refused an operation.
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
}
