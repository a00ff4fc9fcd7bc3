//! The glue tch lacks: AdamW with named state, dtype-safe safetensors, non-finite checks.

mod adamw;
mod adamw_kernel;
mod engine;
mod error;
mod grad;
mod safetensors;

pub use adamw::{AdamW, AdamWConfig};
pub use engine::{EngineFacts, engine_facts, set_threads};
pub use error::{Error, Result};
pub use grad::{check_finite, clip_grad_norm, grad_norm, non_finite_grads, zero_grad};
pub use safetensors::{
    TensorFile, TensorSpec, check_tensors, read_safetensors, read_safetensors_dir, read_safetensors_file,
    write_safetensors,
};
