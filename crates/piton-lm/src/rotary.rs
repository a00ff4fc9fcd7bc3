//! Rotary position embedding: half rotation, computed on pairs that lie side by side.
//!
//! Models turn component i together with i + D/2. Scores do not depend on the order of components as long as queries
//! and keys agree, so the projections' rows are brought into the order 0, D/2, 1, D/2 + 1, .. first: a pair is then one
//! complex number and its turn one multiplication, a fifth of the time of turning halves.

use tch::{Kind, Tensor};

use crate::rope_scaling::frequencies;
use crate::{ModelConfig, Result};

/// Turns of a run of tokens: T tokens, D head width.
pub(crate) struct Rotary {
    /// `[T, 1, D/2]` complex: cosine and sine of each angle.
    turns: Tensor,
}

impl Rotary {
    /// `positions`: `[T]` i64, where 0 is the first token of a prompt.
    pub(crate) fn new(config: &ModelConfig, positions: &Tensor) -> Result<Self> {
        let inverse_frequency =
            Tensor::f_from_slice(&frequencies(config))?.f_to_device(positions.device())?;
        let angles = positions.f_to_kind(Kind::Float)?.f_outer(&inverse_frequency)?.f_unsqueeze(1)?;
        Ok(Self { turns: Tensor::f_complex(&angles.f_cos()?, &angles.f_sin()?)? })
    }

    /// The turns of some of the tokens: `rows` is `[R]` i64.
    pub(crate) fn rows(&self, rows: &Tensor) -> Result<Self> {
        Ok(Self { turns: self.turns.f_index_select(0, rows)? })
    }

    /// Turns heads `[T, heads, D]`, pairs side by side, to their positions; same shape.
    pub(crate) fn turn(&self, heads: &Tensor) -> Result<Tensor> {
        let pairs = heads.f_unflatten(-1, [-1, 2])?.f_view_as_complex()?;
        Ok(pairs.f_mul(&self.turns)?.f_view_as_real()?.f_flatten(-2, -1)?)
    }
}

/// Rows of a projection `[heads*D, ..]`, or a norm's weight `[D]`, with the components of a pair side by side.
pub(crate) fn pair(rows: &Tensor, head_dim: usize) -> Result<Tensor> {
    let half = i64::try_from(head_dim / 2).unwrap_or(i64::MAX);
    let shape = rows.size();
    Ok(rows.f_unflatten(0, [-1, 2, half])?.f_transpose(1, 2)?.f_reshape(shape)?)
}
