//! Batched generation with a KV cache.
//!
//! One forward computes the rows of everything that runs, packed without padding:
//!
//! ```text
//!   sequence   position  token
//!   prompt A      0..30   ..        a prompt on its way into the cache: all its rows at once, for all its samples
//!   A sample 0     37     512       a response under way: its newest token
//!   A sample 1     35      17
//!   B sample 0     62       3       only a unit's last row gets logits
//! ```
//!
//! Requests join at any step and leave when they end. Those with equal prompts share its keys and values.
//!
//! ```
//! use piton_lm::generate::{Engine, EngineConfig, Request, SamplingParams};
//! use piton_lm::{ModelConfig, init};
//! use piton_rng::Seed;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = ModelConfig::from_json(
//!     r#"{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 50, "hidden_size": 16, "intermediate_size": 32,
//!         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}"#,
//! )?;
//! let weights = init(&config, Seed(7), tch::Device::Cpu)?;
//! let mut engine = Engine::new(&config, &weights, EngineConfig::default(), 0)?;
//! let sampling = Seed(7).domain("sample");
//! let params = SamplingParams { max_tokens: 5, ..SamplingParams::default() };
//! let samples = (0..8).map(|k| Request::new(k, [3, 1, 4], params.clone(), sampling).sample_of(0, k)).collect();
//! for finished in engine.generate(samples, &|| false)? {
//!     assert_eq!(finished.response_ids.len(), finished.log_probs.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! On the CPU a response's bits depend on the weights, the prompt, the parameters and its own random streams only: not on
//! what shares its batch, the number of threads, when it joined, or interruptions. Each output of a matrix product is one
//! chain of fused multiply-adds in a fixed order, and attention is one query over its own prefix, by one thread.
//! Other devices compute with libtorch's operations, where the last bits may depend on the batch.
//!
//! # What it does not do
//!
//! It speculates nothing and keeps no prompt that no request in flight uses. New weights wait until nothing is in flight:
//! [`Engine::abort_all`], load, and go on with [`Request::continue_from`]. One prompt is cached by one thread, so a lone
//! long prompt gains nothing from the others.

mod backend;
mod cpu;
mod engine;
mod request;
mod sampling;
mod scheduler;
mod torch;

pub use engine::{Engine, EngineConfig, Kernels};
pub use request::{Finish, Finished, Request, SamplingParams};
