//! JSONL rows, chat templates, tokenisation and a sampler whose state is an absolute position.
//!
//! ```text
//! prompts.jsonl ──> Dataset ──> Prompts ──────────────────> Prompt { row, line, token_ids }
//!                     rows  ^      ^   \                       ^
//!                Tokenizer ─┘  max_length  Sampler ──> Draw { group_id, epoch, row_index }
//!        (tokenizer.json, chat template)     │
//!                                            └──> SamplerState { position, ... } in the checkpoint
//! ```
//!
//! ```
//! use piton_data::{Dataset, Prompts, Tokenizer};
//! use piton_rng::Seed;
//!
//! # fn main() -> Result<(), piton_data::Error> {
//! # let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
//! let dataset = Dataset::read_jsonl(fixtures.join("prompts/chain_sum/heldout.jsonl"))?;
//! let tokenizer = Tokenizer::from_dir(fixtures.join("models/chain-sum"))?;
//! let prompts = Prompts::tokenize(&dataset, &tokenizer, Some(64))?; // drops what is longer than 64 tokens
//! assert_eq!(prompts.counts().skipped, 0);
//!
//! let mut sampler = prompts.sampler("chain_sum", Seed(42));
//! sampler.check_batch(32)?; // fewer rows than a batch is an error, not an endless loop
//! let draw = sampler.draw();
//! let prompt = &prompts.as_slice()[draw.row_index];
//! assert_eq!(draw.group_id, 0);
//! assert!(tokenizer.decode(&prompt.token_ids, false)?.ends_with("<|im_start|>assistant\n"));
//! # Ok(())
//! # }
//! ```
//!
//! Every fault of a file is reported at once, with its line, what was found, what was expected and what to write
//! instead ([`Error`]). Token ids are those of `transformers` 5.24, held by golden files made with it.
//!
//! # What it does not do
//!
//! It downloads nothing and reads no Parquet, images or tools. It neither cuts nor pads a prompt. It has no threads of
//! its own (rayon's pool tokenizes), no async, and no tensor: ids leave it as plain slices. It never reads the clock; a
//! template that asks for the date is given one by the caller.

mod dataset;
mod error;
mod fault;
mod json;
mod jsonl;
mod prompts;
mod python;
mod row;
mod sampler;
mod sampler_state;
mod template;
mod tokenizer;
mod tokenizer_files;

pub use dataset::Dataset;
pub use error::Error;
pub use fault::{FAULTS_KEPT, Fault, Faults, Place};
pub use json::{Json, Object};
pub use prompts::{Counts, Prompt, Prompts};
pub use row::{Message, RewardModel, Row};
pub use sampler::{Draw, Order, Sampler};
pub use sampler_state::{Difference, SamplerState};
pub use tokenizer::Tokenizer;
