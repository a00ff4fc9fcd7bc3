//! Decoder language models: Hugging Face import and export, training forward, batched generation.

mod batch;
mod config;
mod decoder;
mod error;
pub mod generate;
mod hf;
mod init;
mod model;
mod rotary;
mod shared_attention;
mod weights;

pub use batch::SharedPrefixBatch;
pub use config::{ModelConfig, SUPPORTED_ARCHITECTURES};
pub use error::{Error, Result};
pub use hf::{ExportDtype, HfModel, export, export_with};
pub use init::init;
pub use model::CausalLm;
pub use weights::{LayerWeights, Weights, parameter_shapes};
