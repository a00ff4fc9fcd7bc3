//! The glue tch lacks: AdamW with named state, dtype-safe safetensors, non-finite checks.
//!
//! Everything is a map from names to tensors, sorted, so that a parameter, its gradient, its optimizer state and its
//! place in a file are found by one name:
//!
//! ```text
//! params   { "head.weight": [37, 24] f32, .. }          gradients live in the tensors
//! state    { "exp_avg.head.weight": [37, 24] f32,       AdamW::state, AdamW::load_state
//!            "exp_avg_sq.head.weight": [37, 24] f32, .. }  and { "step": "120" }
//! file     safetensors: the same names; equal tensors give equal bytes
//! ```
//!
//! ```
//! use std::collections::BTreeMap;
//! use piton_torch::{AdamW, AdamWConfig, clip_grad_norm, read_safetensors, write_safetensors, zero_grad};
//! use tch::Tensor;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let weight = Tensor::f_from_slice(&[3.0_f32, 4.0])?.f_set_requires_grad(true)?;
//! let mut params = BTreeMap::from([("weight".to_owned(), weight)]);
//! let mut optimizer = AdamW::new(AdamWConfig { lr: 0.1, ..AdamWConfig::default() }, &params)?;
//!
//! zero_grad(&mut params)?;
//! params["weight"].f_square()?.f_sum(None)?.f_backward()?;
//! assert_eq!(clip_grad_norm(&params, 1.0)?, 10.0); // the gradient was (6, 8)
//! optimizer.step(&mut params)?;
//!
//! let mut file = Vec::new();
//! write_safetensors(&optimizer.state(), &optimizer.state_metadata(), &mut file)?;
//! let saved = read_safetensors(&file, "optimizer.safetensors")?;
//! let mut resumed = AdamW::new(optimizer.config().clone(), &params)?;
//! resumed.load_state(&saved.tensors, &saved.metadata)?;
//! assert_eq!(resumed.steps(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! Numbers are pinned to torch 2.13.0: 20 steps of AdamW to 3e-7, clipping to 1e-6
//! (`fixtures/golden/torch/adamw.py`). On the CPU a step is one pass over memory, 6 ms for 5 million parameters
//! on one thread where the optimizer that tch offers takes 59 ms (`cargo bench -p piton-torch`, fastest samples on
//! a shared machine).
//!
//! # What it does not do
//!
//! It has no layers and no models (piton-lm), no other optimizers, and no schedules: set the rate with
//! [`AdamW::set_lr`]. It does not touch libtorch's random generator, whose state cannot be saved through tch. It reads
//! whole files into memory.

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
