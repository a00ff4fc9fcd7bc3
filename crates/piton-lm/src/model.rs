//! A decoder with its weights, and the two ways to run it with gradients.

use tch::{Kind, Tensor};

use crate::batch::SharedPrefixBatch;
use crate::decoder::{Attention, Heads, decode, linear};
use crate::shared_attention::SharedAttention;
use crate::{Error, ModelConfig, Result, Weights};

/// A decoder: its configuration and its weights.
///
/// Gradients flow into the weights when they want them ([`Weights::set_requires_grad`]) and no
/// `tch::no_grad` is in force.
#[derive(Debug)]
pub struct CausalLm {
    config: ModelConfig,
    weights: Weights,
}

impl CausalLm {
    /// Joins a configuration and weights that were checked against it.
    pub fn new(config: ModelConfig, weights: Weights) -> Self {
        Self { config, weights }
    }

    /// Sizes and constants.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The tensors.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The tensors, for an optimizer to change in place.
    pub fn weights_mut(&mut self) -> &mut Weights {
        &mut self.weights
    }

    /// Logits of every position of a rectangle of sequences: `input_ids [B, T]` i64 to `[B, T, V]`.
    ///
    /// The plain form, for checks and short work; training uses [`CausalLm::token_logits`].
    ///
    /// # Errors
    /// When the shape is not `[B, T]`, T passes the model's limit, or an id has no row.
    pub fn logits(&self, input_ids: &Tensor) -> Result<Tensor> {
        let (batch, length) = input_ids.size2()?;
        if batch == 0
            || length == 0
            || length > i64::try_from(self.config.max_position_embeddings).unwrap_or(i64::MAX)
        {
            return Err(Error::Input(format!(
                "input_ids has shape [{batch}, {length}], expected at least one sequence of 1 to {} tokens",
                self.config.max_position_embeddings
            )));
        }
        let (smallest, largest) =
            (input_ids.f_min()?.f_int64_value(&[])?, input_ids.f_max()?.f_int64_value(&[])?);
        if smallest < 0 || usize::try_from(largest).unwrap_or(usize::MAX) >= self.config.vocab_size {
            return Err(Error::Input(format!(
                "token ids run from {smallest} to {largest}: the model's vocab_size is {}",
                self.config.vocab_size
            )));
        }
        let positions = Tensor::f_arange(length, (Kind::Int64, input_ids.device()))?.f_repeat([batch])?;
        let ids = input_ids.f_flatten(0, 1)?;
        let hidden = decode(&self.config, &self.weights, &ids, &positions, &Rectangle { batch })?;
        Ok(linear(&hidden, self.weights.lm_head())?.f_unflatten(0, [batch, length])?)
    }

    /// Logits that predict the tokens of each sequence of `batch`: `[N, V]`.
    ///
    /// Rows come sequence by sequence in the order given to [`SharedPrefixBatch::new`]; row j of a sequence predicts
    /// its token j from the prefix and the tokens before. Each prefix is computed once, whatever the number of its
    /// sequences, and the last token of a sequence is never computed.
    ///
    /// # Errors
    /// When a sequence is longer than the model allows or an id has no row.
    pub fn token_logits(&self, batch: &SharedPrefixBatch) -> Result<Tensor> {
        batch.check(&self.config)?;
        let hidden =
            decode(&self.config, &self.weights, &batch.ids, &batch.positions, &SharedAttention(batch))?;
        linear(&hidden.f_index_select(0, &batch.outputs)?, self.weights.lm_head())
    }
}

/// B sequences of one length, all rows needed.
struct Rectangle {
    batch: i64,
}

impl Attention for Rectangle {
    fn needed(&self) -> Option<&Tensor> {
        None
    }

    fn every_row(&self, heads: &Heads) -> Result<Tensor> {
        let rectangle = |x: &Tensor| x.f_unflatten(0, [self.batch, -1])?.f_transpose(1, 2);
        let (q, k, v) = (rectangle(&heads.q)?, rectangle(&heads.k)?, rectangle(&heads.v)?);
        let grouped = q.size()[1] != k.size()[1];
        let output =
            Tensor::f_scaled_dot_product_attention::<&Tensor>(&q, &k, &v, None, 0.0, true, 1.0, grouped)?;
        Ok(output.f_transpose(1, 2)?.f_flatten(0, 1)?.f_flatten(1, 2)?)
    }

    fn needed_rows(&self, heads: &Heads) -> Result<Tensor> {
        self.every_row(heads)
    }
}
