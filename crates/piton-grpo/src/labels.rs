//! The trained tokens of a forward pass as flat arrays.

use piton_trainer::TrainSample;
use tch::{Device, Kind, Tensor};

use crate::Result;
use crate::batch::Pass;
use crate::convert::index;

/// What the loss needs of a pass, one entry for each trained token, in the order of [`Pass::samples`].
///
/// Suffix `n`: trained tokens of the pass.
#[derive(Debug)]
pub(crate) struct Labels {
    /// `[N]` the token to be predicted.
    pub(crate) tokens_n: Tensor,
    /// `[N]` advantages.
    pub(crate) advantages_n: Tensor,
    /// `[N]` what the rollout engine reported.
    pub(crate) rollout_log_probs: Vec<f32>,
    /// `[N]` row of each token among all response tokens of the pass; absent when every response token is trained on.
    rows_n: Option<Tensor>,
}

impl Labels {
    pub(crate) fn new(batch: &[TrainSample], pass: &Pass, device: Device) -> Result<Self> {
        let (mut tokens, mut advantages, mut rollout_log_probs, mut rows) = (vec![], vec![], vec![], vec![]);
        let mut row = 0;
        for sample in pass.samples().map(|index| &batch[index]) {
            let response = &sample.tokens[sample.prompt_len..];
            for (at, &token) in response.iter().enumerate() {
                if sample.loss_mask[at] {
                    tokens.push(i64::from(token));
                    advantages.push(sample.advantages[at]);
                    rollout_log_probs.push(sample.rollout_log_probs[at]);
                    rows.push(index(row)?);
                }
                row += 1;
            }
        }
        let rows_n =
            if rows.len() == row { None } else { Some(Tensor::f_from_slice(&rows)?.f_to_device(device)?) };
        Ok(Self {
            tokens_n: Tensor::f_from_slice(&tokens)?.f_to_device(device)?,
            advantages_n: Tensor::f_from_slice(&advantages)?.f_to_device(device)?,
            rollout_log_probs,
            rows_n,
        })
    }

    /// `[N]` log-probability of each trained token, from `[R, V]` the logits before each response token.
    pub(crate) fn log_probs(&self, logits_rv: &Tensor) -> Result<Tensor> {
        let logits_nv = match &self.rows_n {
            Some(rows_n) => logits_rv.f_index_select(0, rows_n)?,
            None => logits_rv.shallow_clone(),
        };
        // one pass over the logits forward and one back; logsumexp and a gather of the logits take nine
        let log_probs_nv = logits_nv.f_log_softmax(-1, None::<Kind>)?;
        Ok(log_probs_nv.f_gather(1, &self.tokens_n.f_unsqueeze(1)?, false)?.f_squeeze_dim(1)?)
    }
}
