//! The glue tch lacks: AdamW with named state, dtype-safe safetensors, non-finite checks.

mod error;

pub use error::{Error, Result};
