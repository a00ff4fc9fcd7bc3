//! Rotary frequencies, and the ways in which models change them for longer sequences.

use serde_json::{Map, Value};

use crate::ModelConfig;

/// How the rotary frequencies differ from those of the plain embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum RopeScaling {
    /// They do not: `rope_type` `default`.
    None,
    /// All are divided by a factor.
    Linear {
        /// What they are divided by.
        factor: f64,
    },
    /// Long waves are divided by a factor, short ones are not, with a slope between them: Llama 3.1 and later.
    Llama3 {
        /// What long waves are divided by.
        factor: f64,
        /// A wave is long when the original length holds fewer than this many of it.
        low_freq_factor: f64,
        /// A wave is short when the original length holds more than this many of it.
        high_freq_factor: f64,
        /// The length that the model was first trained on, in tokens.
        original_max_position_embeddings: f64,
    },
}

impl RopeScaling {
    /// Reads the object that stands under `table` in `config.json`.
    pub(crate) fn read(table: &str, parameters: &Map<String, Value>, faults: &mut Vec<String>) -> Self {
        let kind = parameters.get("rope_type").or_else(|| parameters.get("type")).and_then(Value::as_str);
        let mut number = |key: &str| match parameters.get(key).and_then(Value::as_f64) {
            Some(value) if value > 0.0 => value,
            _ => {
                let found = parameters.get(key).map_or_else(|| "absent".to_owned(), Value::to_string);
                faults.push(format!("{table}.{key} is {found}, expected a positive number"));
                1.0
            }
        };
        let (scaling, keys) = match kind.unwrap_or("default") {
            "default" => (Self::None, &[][..]),
            "linear" => (Self::Linear { factor: number("factor") }, &["factor"][..]),
            "llama3" => {
                let scaling = Self::Llama3 {
                    factor: number("factor"),
                    low_freq_factor: number("low_freq_factor"),
                    high_freq_factor: number("high_freq_factor"),
                    original_max_position_embeddings: number("original_max_position_embeddings"),
                };
                let keys = &[
                    "factor",
                    "low_freq_factor",
                    "high_freq_factor",
                    "original_max_position_embeddings",
                ][..];
                (scaling, keys)
            }
            other => {
                faults
                    .push(format!("{table}.rope_type is {other:?}, computed are default, linear and llama3"));
                return Self::None;
            }
        };
        for (key, value) in parameters {
            let known = match key.as_str() {
                "rope_theta" | "rope_type" | "type" => true,
                "partial_rotary_factor" => value.as_f64() == Some(1.0),
                key => value.is_null() || keys.contains(&key),
            };
            if !known {
                faults.push(format!(
                    "{table}.{key} is {value}, which the rotary embedding here has no use for"
                ));
            }
        }
        scaling
    }
}

/// Radians per position, one for each pair of dimensions of a head.
pub(crate) fn frequencies(config: &ModelConfig) -> Vec<f32> {
    let dim = config.head_dim as f64;
    let plain = |pair: usize| config.rope_theta.powf(-2.0 * pair as f64 / dim);
    (0..config.head_dim / 2).map(|pair| single(scaled(config.rope_scaling, plain(pair)))).collect()
}

fn scaled(scaling: RopeScaling, frequency: f64) -> f64 {
    match scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear { factor } => frequency / factor,
        RopeScaling::Llama3 {
            factor,
            low_freq_factor,
            high_freq_factor,
            original_max_position_embeddings,
        } => {
            let waves = original_max_position_embeddings * frequency / std::f64::consts::TAU;
            let share = ((waves - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0);
            share * frequency + (1.0 - share) * frequency / factor
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest single")]
fn single(x: f64) -> f32 {
    x as f32
}
