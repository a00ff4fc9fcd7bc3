//! A policy: weights, and the log-probabilities they give to the tokens of a pass.

use std::collections::BTreeMap;

use piton_lm::backprop::{Backprop, Continuation, Gradients};
use piton_lm::{CausalLm, ModelConfig, SharedPrefixBatch, Weights};
use piton_torch::{AdamW, clip_grad_norm, engine_facts, zero_grad};
use piton_trainer::{AdamWConfig, TrainSample};
use tch::{Device, Tensor};

use crate::Result;
use crate::batch::Pass;
use crate::convert::values;
use crate::labels::Labels;

/// A decoder in training, or a frozen one.
#[derive(Debug)]
pub(crate) struct Policy {
    model: CausalLm,
    /// The tensors of `model` by name: the same objects, gradients included.
    params: BTreeMap<String, Tensor>,
    /// The generation engine's kernels, which make its log-probabilities to the bit; absent off the CPU, where libtorch
    /// computes.
    kernels: Option<Kernels>,
}

#[derive(Debug)]
struct Kernels {
    backprop: Backprop,
    /// Absent in a frozen policy.
    gradients: Option<Gradients>,
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

    fn new(model: &ModelConfig, mut weights: Weights, trainable: bool) -> Result<Self> {
        let kernels = match weights.device() {
            Device::Cpu => Some(Kernels {
                backprop: Backprop::new(model, &weights, engine_facts().threads)?,
                gradients: trainable.then(|| Gradients::zeros(model)),
            }),
            _ => None,
        };
        weights.set_requires_grad(trainable && kernels.is_none())?;
        let params = weights.shallow_clone().into_tensors();
        Ok(Self { model: CausalLm::new(model.clone(), weights), params, kernels })
    }

    /// `[N]` log-probabilities of the trained tokens of `pass`, to be given to [`backward`](Self::backward) before the next
    /// call; without gradients when a no-grad guard is held.
    pub(crate) fn log_probs(
        &mut self,
        batch: &[TrainSample],
        pass: &Pass,
        labels: &Labels,
    ) -> Result<Tensor> {
        let mut prefixes = Vec::with_capacity(pass.shared.len());
        let mut continuations = Vec::new();
        for members in &pass.shared {
            for &index in members {
                let (prompt, tokens) = batch[index].tokens.split_at(batch[index].prompt_len);
                if Some(&index) == members.first() {
                    prefixes.push(prompt);
                }
                let wanted = &batch[index].loss_mask[..];
                continuations.push(Continuation { prefix: prefixes.len() - 1, tokens, wanted });
            }
        }
        if let Some(kernels) = &mut self.kernels {
            let log_probs = kernels.backprop.log_probs(&prefixes, &continuations)?;
            let leaf = Tensor::f_from_slice(&log_probs)?;
            return Ok(leaf.f_set_requires_grad(kernels.gradients.is_some())?);
        }
        let sequences: Vec<_> =
            continuations.iter().map(|continuation| (continuation.prefix, continuation.tokens)).collect();
        let laid_out = SharedPrefixBatch::new(&prefixes, &sequences, self.device())?;
        labels.log_probs(&self.model.token_logits(&laid_out)?)
    }

    /// Adds the gradient of `loss`, a function of `log_probs_n`, to what the weights have collected.
    pub(crate) fn backward(&mut self, log_probs_n: &Tensor, loss: &Tensor) -> Result<()> {
        loss.f_backward()?;
        if let Some(Kernels { backprop, gradients: Some(gradients) }) = &mut self.kernels {
            backprop.backward(&values(&log_probs_n.f_grad()?)?, gradients)?;
        }
        Ok(())
    }

    /// Scales the collected gradients so that their norm is at most `max_norm`; gives the norm before.
    ///
    /// As `torch.nn.utils.clip_grad_norm_`; gradients whose norm is not finite are left as they are.
    pub(crate) fn clip_grad_norm(&mut self, max_norm: f64) -> Result<f64> {
        let Some(Kernels { gradients: Some(gradients), .. }) = &mut self.kernels else {
            return Ok(clip_grad_norm(&self.params, max_norm)?);
        };
        let norm = gradients.norm();
        let factor = max_norm / (norm + 1e-6);
        if norm.is_finite() && factor < 1.0 {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "scalars meet f32 tensors in f32, as in PyTorch"
            )]
            gradients.scale(factor as f32);
        }
        Ok(norm)
    }

    /// Takes a step along the collected gradients.
    pub(crate) fn step(&mut self, optimizer: &mut AdamW) -> Result<()> {
        let Some(Kernels { backprop, gradients: Some(gradients) }) = &mut self.kernels else {
            return Ok(optimizer.step(&mut self.params)?);
        };
        optimizer.step_along(&mut self.params, &gradients.by_name())?;
        Ok(backprop.load(self.model.weights())?)
    }

    /// Forgets the collected gradients.
    pub(crate) fn zero_grad(&mut self) -> Result<()> {
        match &mut self.kernels {
            Some(Kernels { gradients: Some(gradients), .. }) => gradients.clear(),
            _ => zero_grad(&mut self.params)?,
        }
        Ok(())
    }

    /// Copies other weights of this model in place.
    pub(crate) fn load(&mut self, weights: &Weights) -> Result<()> {
        self.model.weights_mut().copy_from(weights)?;
        if let Some(kernels) = &mut self.kernels {
            kernels.backprop.load(self.model.weights())?;
        }
        Ok(())
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

    pub(crate) fn device(&self) -> Device {
        self.weights().device()
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
