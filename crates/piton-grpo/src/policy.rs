//! A policy: weights, and the log-probabilities they give to the tokens of a pass.

use std::collections::BTreeMap;

use piton_lm::{CausalLm, ModelConfig, SharedPrefixBatch, Weights};
use piton_torch::{AdamW, zero_grad};
use piton_trainer::{AdamWConfig, TrainSample};
use tch::{Device, Tensor};

use crate::Result;
use crate::batch::Pass;
use crate::labels::Labels;

/// A decoder in training, or a frozen one.
#[derive(Debug)]
pub(crate) struct Policy {
    model: CausalLm,
    /// The tensors of `model` by name: the same objects, gradients included.
    params: BTreeMap<String, Tensor>,
}

impl Policy {
    /// A policy whose weights collect gradients. It takes the tensors; whoever holds them too sees them change.
    pub(crate) fn trainable(model: &ModelConfig, weights: Weights) -> Result<Self> {
        Self::new(model, weights, true)
    }

    /// A policy that stays as it is.
    pub(crate) fn frozen(model: &ModelConfig, weights: Weights) -> Result<Self> {
        Self::new(model, weights, false)
    }

    fn new(model: &ModelConfig, mut weights: Weights, requires_grad: bool) -> Result<Self> {
        weights.set_requires_grad(requires_grad)?;
        let params = weights.shallow_clone().into_tensors();
        Ok(Self { model: CausalLm::new(model.clone(), weights), params })
    }

    /// `[N]` log-probabilities of the trained tokens of `pass`; on the gradient graph unless a no-grad guard is held.
    pub(crate) fn log_probs(&self, batch: &[TrainSample], pass: &Pass, labels: &Labels) -> Result<Tensor> {
        let mut prefixes = Vec::with_capacity(pass.shared.len());
        let mut sequences = Vec::new();
        for members in &pass.shared {
            for &index in members {
                let (prompt, response) = batch[index].tokens.split_at(batch[index].prompt_len);
                if Some(&index) == members.first() {
                    prefixes.push(prompt);
                }
                sequences.push((prefixes.len() - 1, response));
            }
        }
        let laid_out = SharedPrefixBatch::new(&prefixes, &sequences, self.device())?;
        labels.log_probs(&self.model.token_logits(&laid_out)?)
    }

    pub(crate) fn config(&self) -> &ModelConfig {
        self.model.config()
    }

    pub(crate) fn weights(&self) -> &Weights {
        self.model.weights()
    }

    pub(crate) fn params(&self) -> &BTreeMap<String, Tensor> {
        &self.params
    }

    pub(crate) fn params_mut(&mut self) -> &mut BTreeMap<String, Tensor> {
        &mut self.params
    }

    pub(crate) fn device(&self) -> Device {
        self.weights().device()
    }

    /// Copies other weights of this model in place.
    pub(crate) fn load(&mut self, weights: &Weights) -> Result<()> {
        Ok(self.model.weights_mut().copy_from(weights)?)
    }

    pub(crate) fn zero_grad(&mut self) -> Result<()> {
        Ok(zero_grad(&mut self.params)?)
    }
}

/// A fresh optimizer for a policy's weights.
pub(crate) fn optimizer(policy: &Policy, config: &AdamWConfig) -> Result<AdamW> {
    let [beta1, beta2] = config.betas;
    let settings = piton_torch::AdamWConfig {
        lr: config.lr,
        betas: (beta1, beta2),
        eps: config.eps,
        weight_decay: config.weight_decay,
    };
    Ok(AdamW::new(settings, policy.params())?)
}
