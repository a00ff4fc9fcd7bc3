//! Decoder language models: Hugging Face import and export, training forward, batched generation.
//!
//! A model is a [`ModelConfig`] and [`Weights`]: tensors under their Hugging Face names, checked against the
//! configuration when they are read. Training sees a batch as prefixes and their continuations, the shape that GRPO
//! has, and computes each prefix once:
//!
//! ```text
//! config.json, model.safetensors ── HfModel::load ──> CausalLm ── logits [B, T] ──> [B, T, V]      plain
//!                                                        │
//!   prefix 0 ─┬─ sequence 0: a b c                       └ token_logits ──> [N, V]                  shared prefixes
//!             └─ sequence 1: d e        N = 3 + 2 + 1 rows: each predicts one token of a sequence
//!   prefix 1 ─── sequence 2: f
//! ```
//!
//! ```
//! use piton_lm::{CausalLm, ModelConfig, SharedPrefixBatch, init};
//! use tch::{Device, Kind};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = ModelConfig::from_json(
//!     r#"{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 50, "hidden_size": 16, "intermediate_size": 32,
//!         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}"#,
//! )?;
//! let mut weights = init(&config, piton_rng::Seed(7), Device::Cpu)?; // or HfModel::load(dir, device)
//! weights.set_requires_grad(true)?;
//! let model = CausalLm::new(config, weights);
//!
//! let batch = SharedPrefixBatch::new(&[&[5, 6, 7]], &[(0, &[8, 9]), (0, &[10])], Device::Cpu)?;
//! let logits = model.token_logits(&batch)?;
//! assert_eq!(logits.size(), [3, 50]);
//! logits.f_log_softmax(-1, Kind::Float)?.f_mean(Kind::Float)?.f_backward()?;
//! assert!(model.weights().embed_tokens().grad().defined());
//! # Ok(())
//! # }
//! ```
//!
//! On the CPU training needs no autograd: [`backprop`] computes log-probabilities and gradients with the kernels of
//! [`generate`], so that the learner's numbers equal the engine's bit for bit. It takes as long as libtorch, which is what
//! other devices use (`cargo bench -p piton-lm --bench training`, the `kernels` rows beside the `shared` ones).
//!
//! Logits equal those of transformers 5.24.0 to 1e-5 on seven models: the three architectures, grouped, single and full
//! key heads, with and without biases, tied and untied, in f32, bf16 and shards (`fixtures/golden/lm/make_*.py`). Both forms give the same logits and gradients
//! to 1e-5. With 8 samples a prompt, forward and backward over shared prefixes took 0.20 of the time of separate
//! sequences for prompts of 30 tokens and answers of 5, and 0.56 for 64 and 64 (`cargo bench -p piton-lm --bench
//! training`, one thread, medians on a shared machine). Two thirds of the CPU time of the former and four fifths of the
//! latter are the matrix products of the linear layers.
//!
//! # What it does not do
//!
//! It computes Qwen3, Qwen2 and Llama with full attention and default, linear or llama3 rotary embedding, and refuses every
//! other configuration by name rather than approximate it. Weights are f32. There is no tokenizer here (piton-data) and no loss (piton-grpo);
//! nothing is split over devices, and no activation is recomputed to save memory. Attention of sequences of up to 16
//! tokens holds its scores in memory; that of longer ones copies the keys and values of a prefix for each sequence.

pub mod backprop;
mod batch;
mod config;
mod cpu;
mod decoder;
mod error;
mod fused_attention;
pub mod generate;
mod hf;
mod init;
mod model;
mod rope_scaling;
mod rotary;
mod shared_attention;
mod weights;

pub use batch::SharedPrefixBatch;
pub use config::{ModelConfig, SUPPORTED_ARCHITECTURES};
pub use error::{Error, Result};
pub use hf::{ExportDtype, HfModel, export, export_with};
pub use init::init;
pub use model::CausalLm;
pub use rope_scaling::RopeScaling;
pub use weights::{LayerBiases, LayerWeights, Weights, parameter_shapes};
