//! The shape of a decoder, read from a Hugging Face `config.json`.

use std::path::Path;

use serde_json::{Map, Value};
use tch::Kind;

use crate::rope_scaling::RopeScaling;
use crate::{Error, Result};

/// Architectures that this crate computes, as `config.json` names them.
pub const SUPPORTED_ARCHITECTURES: [&str; 3] = ["LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"];

/// Sizes and constants of a decoder; the file it came from is kept for export.
///
/// Every field has the name and meaning of the key in `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Rows of the embedding and of the output head.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the gated feed-forward layer.
    pub intermediate_size: usize,
    /// Number of decoder layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; divides `num_attention_heads`.
    pub num_key_value_heads: usize,
    /// Width of one head, even; need not be `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    /// Added to the mean square in every RMSNorm.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// How the frequencies are changed for longer sequences.
    pub rope_scaling: RopeScaling,
    /// Whether query and key heads are normed before they are turned: in Qwen3.
    pub qk_norm: bool,
    /// Whether the query, key and value projections have biases: in Qwen2, and where `attention_bias` says so.
    pub qkv_bias: bool,
    /// Whether the attention's output projection has a bias: where `attention_bias` says so.
    pub o_bias: bool,
    /// Whether the projections of the feed-forward layer have biases.
    pub mlp_bias: bool,
    /// Longest sequence, prompt and response together, in tokens.
    pub max_position_embeddings: usize,
    /// Whether the output head is the embedding matrix.
    pub tie_word_embeddings: bool,
    /// Ids that end a sequence according to `config.json`; may be empty.
    pub eos_token_ids: Vec<u32>,
    raw: String,
}

impl ModelConfig {
    /// Reads `config.json` of a model directory.
    ///
    /// # Errors
    /// When the file is unreadable or malformed, or describes something that
    /// [`SUPPORTED_ARCHITECTURES`] does not cover.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
        let reason = |reason: String| Error::Config { path: path.to_path_buf(), reason };
        let text = String::from_utf8(bytes).map_err(|error| reason(format!("not UTF-8: {error}")))?;
        Self::from_json(&text).map_err(|error| match error {
            Error::Config { reason: found, .. } => reason(found),
            Error::Unsupported(found) => reason(found),
            other => other,
        })
    }

    /// Parses the text of a `config.json`.
    ///
    /// # Errors
    /// As [`ModelConfig::read`]; all missing or mistyped keys are named at once.
    pub fn from_json(text: &str) -> Result<Self> {
        let config_error = |reason| Error::Config { path: "config.json".into(), reason };
        let root: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| config_error(format!("not a JSON object: {error}")))?;
        let architecture = check_supported(&root)?;
        let mut fields = Fields { root: &root, faults: Vec::new() };
        let hidden_size = fields.size("hidden_size", None);
        let num_attention_heads = fields.size("num_attention_heads", None);
        // what transformers' Qwen3Config, Qwen2Config and LlamaConfig take when the file is silent
        let (head_dim, longest) = match architecture {
            Architecture::Qwen3 => (128, 32_768),
            Architecture::Qwen2 => (hidden_size / num_attention_heads, 32_768),
            Architecture::Llama => (hidden_size / num_attention_heads, 2048),
        };
        let attention_bias = architecture != Architecture::Qwen2 && fields.flag("attention_bias", false);
        let config = Self {
            vocab_size: fields.size("vocab_size", None),
            hidden_size,
            intermediate_size: fields.size("intermediate_size", None),
            num_hidden_layers: fields.size("num_hidden_layers", None),
            num_attention_heads,
            num_key_value_heads: fields.size("num_key_value_heads", Some(num_attention_heads)),
            head_dim: fields.size("head_dim", Some(head_dim)),
            rms_norm_eps: fields.number("rms_norm_eps", 1e-6),
            rope_theta: fields.rope_theta(),
            rope_scaling: fields.rope_scaling(),
            qk_norm: architecture == Architecture::Qwen3,
            qkv_bias: attention_bias || architecture == Architecture::Qwen2,
            o_bias: attention_bias,
            mlp_bias: architecture == Architecture::Llama && fields.flag("mlp_bias", false),
            max_position_embeddings: fields.size("max_position_embeddings", Some(longest)),
            tie_word_embeddings: fields.flag("tie_word_embeddings", false),
            eos_token_ids: fields.eos_token_ids(),
            raw: text.to_owned(),
        };
        let mut faults = fields.faults;
        if !config.head_dim.is_multiple_of(2) || config.head_dim == 0 {
            faults.push(format!("head_dim is {}, which rotary embedding cannot halve", config.head_dim));
        }
        if faults.is_empty() && !config.num_attention_heads.is_multiple_of(config.num_key_value_heads) {
            faults.push(format!(
                "num_attention_heads ({}) is not a multiple of num_key_value_heads ({})",
                config.num_attention_heads, config.num_key_value_heads
            ));
        }
        if faults.is_empty() { Ok(config) } else { Err(config_error(faults.join("; "))) }
    }

    /// The text this configuration was parsed from, byte for byte.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The dtype that the file names under `dtype` (transformers 5) or `torch_dtype`; f32 when it names none.
    ///
    /// # Errors
    /// When it is not `float32`, `bfloat16` or `float16`.
    pub fn dtype(&self) -> Result<Kind> {
        let root: Value = serde_json::from_str(&self.raw).unwrap_or_default();
        match root.get("dtype").or_else(|| root.get("torch_dtype")).and_then(Value::as_str) {
            None | Some("float32") => Ok(Kind::Float),
            Some("bfloat16") => Ok(Kind::BFloat16),
            Some("float16") => Ok(Kind::Half),
            Some(other) => {
                Err(Error::Unsupported(format!("dtype is {other:?}; supported: float32, bfloat16, float16")))
            }
        }
    }

    /// Query heads that share one key and value head.
    pub fn group_size(&self) -> usize {
        self.num_attention_heads / self.num_key_value_heads
    }

    /// Checks that the model has a row for every id a tokenizer can produce.
    ///
    /// `producible_ids` is the largest such id plus one. Spare rows are normal:
    /// vocabularies are padded past the tokenizer.
    ///
    /// # Errors
    /// When an id has no row.
    pub fn check_tokenizer(&self, producible_ids: usize) -> Result<()> {
        match producible_ids.checked_sub(1) {
            Some(largest) if largest >= self.vocab_size => {
                Err(Error::Tokenizer { largest, rows: self.vocab_size })
            }
            _ => Ok(()),
        }
    }
}

/// What a file's architecture decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Architecture {
    Llama,
    Qwen2,
    Qwen3,
}

/// Refuses whatever would change the arithmetic without being computed here.
fn check_supported(root: &Map<String, Value>) -> Result<Architecture> {
    let architecture = root
        .get("architectures")
        .and_then(Value::as_array)
        .and_then(|names| names.first())
        .and_then(Value::as_str)
        .or_else(|| match root.get("model_type")?.as_str()? {
            "llama" => Some("LlamaForCausalLM"),
            "qwen2" => Some("Qwen2ForCausalLM"),
            "qwen3" => Some("Qwen3ForCausalLM"),
            _ => None,
        });
    let architecture = match architecture {
        Some("LlamaForCausalLM") => Architecture::Llama,
        Some("Qwen2ForCausalLM") => Architecture::Qwen2,
        Some("Qwen3ForCausalLM") => Architecture::Qwen3,
        found => {
            return Err(Error::Unsupported(format!(
                "architectures is {}; supported: {}",
                found.map_or_else(|| "absent".to_owned(), |name| format!("{name:?}")),
                SUPPORTED_ARCHITECTURES.join(", ")
            )));
        }
    };
    let mut faults = Vec::new();
    let mut neutral = |key: &str, wanted: &[Value]| {
        if let Some(found) = root.get(key).filter(|found| !found.is_null())
            && !wanted.contains(found)
        {
            let wanted = wanted.first().map_or_else(|| "null".to_owned(), Value::to_string);
            faults.push(format!("{key} is {found}, only {wanted} is computed"));
        }
    };
    neutral("use_sliding_window", &[false.into()]);
    neutral("attention_dropout", &[0.into(), 0.0.into()]);
    neutral("hidden_act", &["silu".into()]);
    neutral("rope_interleaved", &[false.into()]);
    neutral("quantization_config", &[]);
    if let Some(kinds) = root.get("layer_types").and_then(Value::as_array)
        && let Some(kind) = kinds.iter().find(|kind| kind.as_str() != Some("full_attention"))
    {
        faults.push(format!("layer_types holds {kind}, only \"full_attention\" is computed"));
    }
    if faults.is_empty() { Ok(architecture) } else { Err(Error::Unsupported(faults.join("; "))) }
}

struct Fields<'a> {
    root: &'a Map<String, Value>,
    faults: Vec<String>,
}

impl<'a> Fields<'a> {
    fn present(&self, key: &str) -> Option<&'a Value> {
        self.root.get(key).filter(|value| !value.is_null())
    }

    fn fault<T>(&mut self, key: &str, wanted: &str, fallback: T) -> T {
        let found = self.present(key).map_or_else(|| "absent".to_owned(), Value::to_string);
        self.faults.push(format!("{key} is {found}, expected {wanted}"));
        fallback
    }

    fn size(&mut self, key: &str, default: Option<usize>) -> usize {
        match (self.present(key), default) {
            (None, Some(default)) => default,
            // i32 bounds every dimension: libtorch's CPU kernels index rows with int
            (Some(value), _) => match value.as_u64().and_then(|value| i32::try_from(value).ok()) {
                Some(value) if value > 0 => value.unsigned_abs() as usize,
                _ => self.fault(key, "a positive integer", 1),
            },
            (None, None) => self.fault(key, "a positive integer", 1),
        }
    }

    fn number(&mut self, key: &str, default: f64) -> f64 {
        match self.present(key) {
            None => default,
            Some(value) => match value.as_f64() {
                Some(value) if value > 0.0 => value,
                _ => self.fault(key, "a positive number", default),
            },
        }
    }

    fn flag(&mut self, key: &str, default: bool) -> bool {
        match self.present(key) {
            None => default,
            Some(value) => match value.as_bool() {
                Some(value) => value,
                None => self.fault(key, "true or false", default),
            },
        }
    }

    /// `rope_parameters.rope_theta` (transformers 5), else `rope_theta`, else 10000.
    fn rope_theta(&mut self) -> f64 {
        match self.present("rope_parameters").and_then(|parameters| parameters.get("rope_theta")) {
            None => self.number("rope_theta", 10_000.0),
            Some(value) => match value.as_f64() {
                Some(value) if value > 0.0 => value,
                _ => self.fault("rope_parameters", "a positive rope_theta", 10_000.0),
            },
        }
    }

    /// From `rope_parameters` (transformers 5) or `rope_scaling`.
    fn rope_scaling(&mut self) -> RopeScaling {
        let mut found = Vec::new();
        for table in ["rope_parameters", "rope_scaling"] {
            if let Some(parameters) = self.present(table).and_then(Value::as_object) {
                found.push(RopeScaling::read(table, parameters, &mut self.faults));
            }
        }
        if found.windows(2).any(|pair| pair[0] != pair[1]) {
            self.faults.push("rope_parameters and rope_scaling contradict each other".to_owned());
        }
        found.first().copied().unwrap_or(RopeScaling::None)
    }

    fn eos_token_ids(&mut self) -> Vec<u32> {
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        let ids = match self.present("eos_token_id") {
            None => return Vec::new(),
            Some(Value::Array(ids)) => ids.iter().map(id).collect(),
            Some(value) => id(value).map(|id| vec![id]),
        };
        match ids {
            Some(ids) => ids,
            None => self.fault("eos_token_id", "a token id or a list of them", Vec::new()),
        }
    }
}
