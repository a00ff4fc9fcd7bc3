//! The gradients of all weights, as plain memory.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::tape::Shape;
use crate::ModelConfig;

/// A gradient for every weight of a model; passes add to it.
#[derive(Debug)]
pub struct Gradients {
    pub(super) layers: Vec<LayerGradients>,
    /// `[H]`
    pub(super) norm: Vec<f32>,
    /// `[V, H]`
    pub(super) embedding: Vec<f32>,
    /// `[V, H]`; absent when it is tied to the embedding.
    pub(super) head: Option<Vec<f32>>,
    shape: Shape,
}

/// Gradients of one layer; projections of the same input stand below each other.
#[derive(Debug)]
pub(super) struct LayerGradients {
    pub(super) input_norm: Vec<f32>,
    /// `[queries + 2 keys, H]`
    pub(super) qkv: Vec<f32>,
    pub(super) q_norm: Vec<f32>,
    pub(super) k_norm: Vec<f32>,
    /// `[H, queries]`
    pub(super) o: Vec<f32>,
    pub(super) post_norm: Vec<f32>,
    /// `[2 I, H]`
    pub(super) gate_up: Vec<f32>,
    /// `[H, I]`
    pub(super) down: Vec<f32>,
    /// Of the biases, in the order of the projections; empty where the model has none.
    pub(super) qkv_bias: Vec<f32>,
    pub(super) o_bias: Vec<f32>,
    pub(super) gate_up_bias: Vec<f32>,
    pub(super) down_bias: Vec<f32>,
}

/// Numbers whose squares are summed by one thread; a constant, so that the sum does not depend on their number.
const NORM_PART: usize = 1 << 16;

impl Gradients {
    /// Zero for every weight of this model.
    pub fn zeros(config: &ModelConfig) -> Self {
        let shape = Shape::new(config);
        let (hidden, inner) = (shape.hidden, shape.inner);
        let some = |wanted: bool, length: usize| vec![0.0; if wanted { length } else { 0 }];
        let layer = |_| LayerGradients {
            input_norm: vec![0.0; hidden],
            qkv: vec![0.0; shape.width() * hidden],
            q_norm: some(config.qk_norm, shape.head_dim),
            k_norm: some(config.qk_norm, shape.head_dim),
            o: vec![0.0; hidden * shape.queries],
            post_norm: vec![0.0; hidden],
            gate_up: vec![0.0; 2 * inner * hidden],
            down: vec![0.0; hidden * inner],
            qkv_bias: some(config.qkv_bias, shape.width()),
            o_bias: some(config.o_bias, hidden),
            gate_up_bias: some(config.mlp_bias, 2 * inner),
            down_bias: some(config.mlp_bias, hidden),
        };
        let table = || vec![0.0; shape.vocab * hidden];
        Self {
            layers: (0..config.num_hidden_layers).map(layer).collect(),
            norm: vec![0.0; hidden],
            embedding: table(),
            head: (!config.tie_word_embeddings).then(table),
            shape,
        }
    }

    /// Back to zero, keeping the memory.
    pub fn clear(&mut self) {
        self.each_mut(|part| part.fill(0.0));
    }

    /// Multiplies all by a number.
    pub fn scale(&mut self, factor: f32) {
        self.each_mut(|part| part.iter_mut().for_each(|x| *x *= factor));
    }

    /// The 2-norm over all of them, the same on any number of threads.
    pub fn norm(&self) -> f64 {
        let mut sum = 0.0;
        self.each(|_, part| {
            let squares: Vec<f64> = part
                .par_chunks(NORM_PART)
                .map(|part| part.iter().map(|&x| f64::from(x).powi(2)).sum())
                .collect();
            sum += squares.iter().sum::<f64>();
        });
        sum.sqrt()
    }

    /// Each weight's gradient by its Hugging Face name, in the weight's shape, row by row.
    pub fn by_name(&self) -> BTreeMap<String, &[f32]> {
        let mut gradients = BTreeMap::new();
        self.each(|name, gradient| {
            gradients.insert(name.to_owned(), gradient);
        });
        gradients
    }

    fn each<'a>(&'a self, mut take: impl FnMut(&str, &'a [f32])) {
        take("model.embed_tokens.weight", &self.embedding);
        for (index, layer) in self.layers.iter().enumerate() {
            let Shape { hidden, queries, keys, inner, .. } = self.shape;
            let (q, kv) = layer.qkv.split_at(queries * hidden);
            let (k, v) = kv.split_at(keys * hidden);
            let (gate, up) = layer.gate_up.split_at(inner * hidden);
            // an empty bias is an empty slice wherever it is cut
            let part = |bias: &'a [f32], from: usize, to: usize| bias.get(from..to).unwrap_or_default();
            for (name, weight, bias) in [
                ("input_layernorm", &layer.input_norm[..], &[][..]),
                ("self_attn.q_proj", q, part(&layer.qkv_bias, 0, queries)),
                ("self_attn.k_proj", k, part(&layer.qkv_bias, queries, queries + keys)),
                ("self_attn.v_proj", v, part(&layer.qkv_bias, queries + keys, queries + 2 * keys)),
                ("self_attn.q_norm", &layer.q_norm, &[]),
                ("self_attn.k_norm", &layer.k_norm, &[]),
                ("self_attn.o_proj", &layer.o, &layer.o_bias),
                ("post_attention_layernorm", &layer.post_norm, &[]),
                ("mlp.gate_proj", gate, part(&layer.gate_up_bias, 0, inner)),
                ("mlp.up_proj", up, part(&layer.gate_up_bias, inner, 2 * inner)),
                ("mlp.down_proj", &layer.down, &layer.down_bias),
            ] {
                for (kind, gradient) in [("weight", weight), ("bias", bias)] {
                    if !gradient.is_empty() {
                        take(&format!("model.layers.{index}.{name}.{kind}"), gradient);
                    }
                }
            }
        }
        take("model.norm.weight", &self.norm);
        if let Some(head) = &self.head {
            take("lm_head.weight", head);
        }
    }

    /// The gradient of the output head, wherever it lies.
    pub(super) fn head_mut(&mut self) -> &mut Vec<f32> {
        self.head.as_mut().unwrap_or(&mut self.embedding)
    }

    fn each_mut(&mut self, mut take: impl FnMut(&mut [f32])) {
        take(&mut self.embedding);
        for layer in &mut self.layers {
            for part in [
                &mut layer.input_norm,
                &mut layer.qkv,
                &mut layer.q_norm,
                &mut layer.k_norm,
                &mut layer.o,
                &mut layer.post_norm,
                &mut layer.gate_up,
                &mut layer.down,
                &mut layer.qkv_bias,
                &mut layer.o_bias,
                &mut layer.gate_up_bias,
                &mut layer.down_bias,
            ] {
                take(part);
            }
        }
        take(&mut self.norm);
        if let Some(head) = &mut self.head {
            take(head);
        }
    }
}
