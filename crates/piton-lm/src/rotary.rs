//! Rotary position embedding: half rotation, as Qwen3 has it.

use tch::{Kind, Tensor};

use crate::{ModelConfig, Result};

/// Angles of a run of tokens: T tokens, D head width.
pub(crate) struct Rotary {
    /// `[T, 1, D/2]`
    cos: Tensor,
    /// `[T, 1, D/2]`
    sin: Tensor,
}

impl Rotary {
    /// `positions`: `[T]` i64, where 0 is the first token of a prompt.
    pub(crate) fn new(config: &ModelConfig, positions: &Tensor) -> Result<Self> {
        let dim = i64::try_from(config.head_dim).unwrap_or(i64::MAX);
        let options = (Kind::Float, positions.device());
        // f32 throughout and in this order, as transformers computes it
        let exponent = Tensor::f_arange_start_step(0, dim, 2, options)?.f_div_scalar(dim)?;
        let base = Tensor::f_full([1], config.rope_theta, options)?;
        let inverse_frequency = base.f_pow(&exponent)?.f_reciprocal()?;
        let angles = positions.f_to_kind(Kind::Float)?.f_outer(&inverse_frequency)?.f_unsqueeze(1)?;
        Ok(Self { cos: angles.f_cos()?, sin: angles.f_sin()? })
    }

    /// The angles of some of the tokens: `rows` is `[R]` i64.
    pub(crate) fn rows(&self, rows: &Tensor) -> Result<Self> {
        Ok(Self { cos: self.cos.f_index_select(0, rows)?, sin: self.sin.f_index_select(0, rows)? })
    }

    /// Turns heads `[T, heads, D]` to their positions; same shape.
    pub(crate) fn turn(&self, heads: &Tensor) -> Result<Tensor> {
        let [first, second] = halves(heads)?;
        let turned_first = (first.f_mul(&self.cos)?).f_sub(&second.f_mul(&self.sin)?)?;
        let turned_second = (second.f_mul(&self.cos)?).f_add(&first.f_mul(&self.sin)?)?;
        Ok(Tensor::f_cat(&[turned_first, turned_second], -1)?)
    }
}

fn halves(heads: &Tensor) -> Result<[Tensor; 2]> {
    let half = heads.size().last().copied().unwrap_or(0) / 2;
    let mut parts = heads.f_split(half, -1)?;
    match (parts.pop(), parts.pop()) {
        (Some(second), Some(first)) => Ok([first, second]),
        _ => unreachable!("head_dim is even and positive: checked in ModelConfig"),
    }
}
