//! Settings of the rollout engine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The rollout engine, with the reference's names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RolloutConfig {
    /// Hugging Face directory of the model. Default: the trainer's `load_from`.
    pub model_path: Option<PathBuf>,
    /// Hugging Face directory of the tokenizer. Default: the trainer's `tokenizer_path`.
    pub tokenizer_path: Option<PathBuf>,
    /// Name of the model, for messages. Default: the directory's name.
    pub model_name: Option<String>,
    /// Longest prompt plus response, in tokens. Default: what the model's configuration allows.
    pub context_length: Option<usize>,
    /// Largest number of sequences generated at the same time. Default 1024, as the reference for short contexts.
    pub rollout_max_batch_size_per_instance: usize,
    /// Seconds after which one group counts as failed. Default 1200.
    pub rollout_timeout: f64,
}

impl Default for RolloutConfig {
    fn default() -> Self {
        Self {
            model_path: None,
            tokenizer_path: None,
            model_name: None,
            context_length: None,
            rollout_max_batch_size_per_instance: 1024,
            rollout_timeout: 1200.0,
        }
    }
}
