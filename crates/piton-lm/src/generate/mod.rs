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
//! On the CPU a response's bits depend on the weights, the prompt, the parameters and its own random streams only: not on
//! what shares its batch, the number of threads, when it joined, or interruptions. Each output of a matrix product is one
//! chain of fused multiply-adds in a fixed order, and attention is one query over its own prefix, by one thread.
//! Other devices compute with libtorch's operations, where the last bits may depend on the batch.

mod backend;
mod cpu;
mod engine;
mod request;
mod sampling;
mod scheduler;

pub use engine::{Engine, EngineConfig};
pub use request::{Finish, Finished, Request, SamplingParams};
