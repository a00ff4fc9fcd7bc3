//! The weights as the CPU kernels want them.

use super::linear::{Linear, read};
use crate::{ModelConfig, Result, Weights};

/// A model's packed weights; projections of the same input are one product.
#[derive(Debug)]
pub(crate) struct Model {
    /// `[V, H]`
    pub(crate) embedding: Vec<f32>,
    pub(crate) layers: Vec<Layer>,
    /// `[H]`
    pub(crate) norm: Vec<f32>,
    pub(crate) head: Linear,
}

/// One decoder layer.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) input_norm: Vec<f32>,
    /// Queries, then keys, then values.
    pub(crate) qkv: Linear,
    /// Empty where heads are not normed.
    pub(crate) q_norm: Vec<f32>,
    /// Empty where heads are not normed.
    pub(crate) k_norm: Vec<f32>,
    pub(crate) o: Linear,
    pub(crate) post_norm: Vec<f32>,
    /// Gate, then up.
    pub(crate) gate_up: Linear,
    pub(crate) down: Linear,
}

impl Model {
    /// Makes room for a model of this shape.
    pub(crate) fn zeros(config: &ModelConfig) -> Self {
        let hidden = config.hidden_size;
        let queries = config.num_attention_heads * config.head_dim;
        let keys = config.num_key_value_heads * config.head_dim;
        let layer = || Layer {
            input_norm: Vec::new(),
            qkv: Linear::zeros(hidden, queries + 2 * keys),
            q_norm: Vec::new(),
            k_norm: Vec::new(),
            o: Linear::zeros(queries, hidden),
            post_norm: Vec::new(),
            gate_up: Linear::zeros(hidden, 2 * config.intermediate_size),
            down: Linear::zeros(config.intermediate_size, hidden),
        };
        Self {
            embedding: Vec::new(),
            layers: (0..config.num_hidden_layers).map(|_| layer()).collect(),
            norm: Vec::new(),
            head: Linear::zeros(hidden, config.vocab_size),
        }
    }

    /// Copies `weights` into this room.
    pub(crate) fn load(&mut self, weights: &Weights) -> Result<()> {
        let mut scratch = Vec::new();
        read(weights.embed_tokens(), &mut self.embedding)?;
        read(weights.norm(), &mut self.norm)?;
        self.head.load(&[weights.lm_head()], &mut scratch)?;
        for (index, layer) in self.layers.iter_mut().enumerate() {
            let from = weights.layer(index);
            read(from.input_layernorm, &mut layer.input_norm)?;
            layer.qkv.load(&[from.q_proj, from.k_proj, from.v_proj], &mut scratch)?;
            layer
                .qkv
                .load_bias(&[from.biases.q_proj, from.biases.k_proj, from.biases.v_proj], &mut scratch)?;
            for (norm, room) in [(from.q_norm, &mut layer.q_norm), (from.k_norm, &mut layer.k_norm)] {
                if let Some(norm) = norm {
                    read(norm, room)?;
                }
            }
            layer.o.load(&[from.o_proj], &mut scratch)?;
            layer.o.load_bias(&[from.biases.o_proj], &mut scratch)?;
            read(from.post_attention_layernorm, &mut layer.post_norm)?;
            layer.gate_up.load(&[from.gate_proj, from.up_proj], &mut scratch)?;
            layer.gate_up.load_bias(&[from.biases.gate_proj, from.biases.up_proj], &mut scratch)?;
            layer.down.load(&[from.down_proj], &mut scratch)?;
            layer.down.load_bias(&[from.biases.down_proj], &mut scratch)?;
        }
        Ok(())
    }
}
