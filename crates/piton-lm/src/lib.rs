//! Decoder language models: Hugging Face import and export, training forward, batched generation.

mod config;
mod error;
pub mod generate;
mod weights;

pub use config::{ModelConfig, SUPPORTED_ARCHITECTURES};
pub use error::{Error, Result};
pub use weights::{LayerWeights, Weights, parameter_shapes};
