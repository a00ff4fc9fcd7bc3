//! The layers of a decoder over packed tokens; attention is the caller's.
//!
//! Shapes: T packed tokens, R rows that are needed, H hidden, A query heads, K key/value heads, D head width.

use tch::Tensor;

use crate::rotary::{Rotary, pair};
use crate::weights::LayerWeights;
use crate::{ModelConfig, Result, Weights};

/// How tokens see each other: what differs between one rectangle of sequences and shared prefixes.
pub(crate) trait Attention {
    /// `[R]` rows of the packed tokens that are needed after the last layer; `None` for all of them.
    fn needed(&self) -> Option<&Tensor>;

    /// Every token attends. `q [T, A, D]`, `k` and `v [T, K, D]` to `[T, A*D]`.
    fn every_row(&self, heads: &Heads) -> Result<Tensor>;

    /// The needed rows attend. `q [R, A, D]`, `k` and `v [T, K, D]` to `[R, A*D]`.
    fn needed_rows(&self, heads: &Heads) -> Result<Tensor>;
}

/// Projected, normed and turned heads; `q` is scaled by `1 / sqrt(D)` already. Components of `q` and `k` stand in the
/// order of [`rotary`](crate::rotary).
pub(crate) struct Heads {
    pub(crate) q: Tensor,
    pub(crate) k: Tensor,
    pub(crate) v: Tensor,
}

/// Runs all layers and the final norm. `ids [T]` and `positions [T]`, i64, to `[T, H]`, or `[R, H]` of the needed rows.
pub(crate) fn decode(
    config: &ModelConfig,
    weights: &Weights,
    ids: &Tensor,
    positions: &Tensor,
    attention: &impl Attention,
) -> Result<Tensor> {
    let rotary = Rotary::new(config, positions)?;
    let mut hidden = Tensor::f_embedding(weights.embed_tokens(), ids, -1, false, false)?;
    for index in 0..config.num_hidden_layers {
        let layer = Layer { config, weights: weights.layer(index) };
        let input = layer.norm(&hidden, layer.weights.input_layernorm)?;
        // the last layer's queries and feed-forward serve the output only: leave out rows that nobody reads
        let needed = attention.needed().filter(|_| index + 1 == config.num_hidden_layers);
        let attended = if let Some(rows) = needed {
            let queries = input.f_index_select(0, rows)?;
            hidden = hidden.f_index_select(0, rows)?;
            let q = layer.queries(&queries, &rotary.rows(rows)?)?;
            let (k, v) = layer.keys_and_values(&input, &rotary)?;
            attention.needed_rows(&Heads { q, k, v })?
        } else {
            let q = layer.queries(&input, &rotary)?;
            let (k, v) = layer.keys_and_values(&input, &rotary)?;
            attention.every_row(&Heads { q, k, v })?
        };
        hidden = hidden.f_add(&project(&attended, layer.weights.o_proj, layer.weights.biases.o_proj)?)?;
        let input = layer.norm(&hidden, layer.weights.post_attention_layernorm)?;
        hidden = hidden.f_add(&layer.feed_forward(&input)?)?;
    }
    norm(&hidden, weights.norm(), config.rms_norm_eps)
}

/// `x [.., in]` times the transpose of `weight [out, in]`.
pub(crate) fn linear(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    project(x, weight, None)
}

fn project(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    Ok(x.f_linear(weight, bias)?)
}

struct Layer<'a> {
    config: &'a ModelConfig,
    weights: LayerWeights<'a>,
}

impl Layer<'_> {
    fn norm(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        norm(x, weight, self.config.rms_norm_eps)
    }

    fn queries(&self, input: &Tensor, rotary: &Rotary) -> Result<Tensor> {
        let q = self.paired(input, self.weights.q_proj, self.weights.biases.q_proj)?;
        let scale = (self.config.head_dim as f64).sqrt().recip();
        let q = match self.weights.q_norm {
            // rotation keeps lengths, so the scale of attention can go into the norm's small weight
            Some(weight) => self.norm(&q, &self.pair(&weight.f_mul_scalar(scale)?)?)?,
            None => q.f_mul_scalar(scale)?,
        };
        rotary.turn(&q)
    }

    fn keys_and_values(&self, input: &Tensor, rotary: &Rotary) -> Result<(Tensor, Tensor)> {
        let k = self.paired(input, self.weights.k_proj, self.weights.biases.k_proj)?;
        let k = match self.weights.k_norm {
            Some(weight) => self.norm(&k, &self.pair(weight)?)?,
            None => k,
        };
        let v = self.heads(&project(input, self.weights.v_proj, self.weights.biases.v_proj)?)?;
        Ok((rotary.turn(&k)?, v))
    }

    /// Projected heads with the components of a pair side by side.
    fn paired(&self, input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let bias = bias.map(|bias| self.pair(bias)).transpose()?;
        self.heads(&project(input, &self.pair(weight)?, bias.as_ref())?)
    }

    fn pair(&self, rows: &Tensor) -> Result<Tensor> {
        pair(rows, self.config.head_dim)
    }

    /// `[T, heads*D]` to `[T, heads, D]`.
    fn heads(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.f_unflatten(-1, [-1, i64::try_from(self.config.head_dim).unwrap_or(i64::MAX)])?)
    }

    fn feed_forward(&self, input: &Tensor) -> Result<Tensor> {
        let LayerWeights { gate_proj, up_proj, down_proj, biases, .. } = self.weights;
        let gate = project(input, gate_proj, biases.gate_proj)?.f_silu()?;
        let up = project(input, up_proj, biases.up_proj)?;
        project(&gate.f_mul(&up)?, down_proj, biases.down_proj)
    }
}

fn norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    Ok(x.f_rms_norm(weight.size(), Some(weight), eps)?)
}
