//! A decoder's tensors under their Hugging Face names.

use std::collections::BTreeMap;

use tch::{Device, Kind, Tensor};

use crate::{Error, ModelConfig, Result};

/// The tensors of one model, complete and well-shaped for its configuration.
///
/// `lm_head.weight` is absent when the configuration ties it to the embedding.
/// All tensors are f32 and live on one device.
#[derive(Debug)]
pub struct Weights {
    tensors: BTreeMap<String, Tensor>,
}

/// One decoder layer's tensors, borrowed from [`Weights`].
///
/// H hidden, I intermediate, A query heads, K key/value heads, D head width.
#[derive(Debug, Clone, Copy)]
pub struct LayerWeights<'a> {
    /// `[H]` RMSNorm before attention.
    pub input_layernorm: &'a Tensor,
    /// `[A*D, H]` query projection.
    pub q_proj: &'a Tensor,
    /// `[K*D, H]` key projection.
    pub k_proj: &'a Tensor,
    /// `[K*D, H]` value projection.
    pub v_proj: &'a Tensor,
    /// `[D]` RMSNorm over each query head, where the model has it.
    pub q_norm: Option<&'a Tensor>,
    /// `[D]` RMSNorm over each key head, where the model has it.
    pub k_norm: Option<&'a Tensor>,
    /// `[H, A*D]` output projection.
    pub o_proj: &'a Tensor,
    /// `[H]` RMSNorm before the feed-forward layer.
    pub post_attention_layernorm: &'a Tensor,
    /// `[I, H]` gate projection.
    pub gate_proj: &'a Tensor,
    /// `[I, H]` up projection.
    pub up_proj: &'a Tensor,
    /// `[H, I]` down projection.
    pub down_proj: &'a Tensor,
    /// Added to the projections, where the model has them.
    pub biases: LayerBiases<'a>,
}

/// One decoder layer's biases; each is as long as its projection's output.
#[derive(Debug, Clone, Copy)]
pub struct LayerBiases<'a> {
    /// `[A*D]` of the queries.
    pub q_proj: Option<&'a Tensor>,
    /// `[K*D]` of the keys.
    pub k_proj: Option<&'a Tensor>,
    /// `[K*D]` of the values.
    pub v_proj: Option<&'a Tensor>,
    /// `[H]` of the attention's output.
    pub o_proj: Option<&'a Tensor>,
    /// `[I]` of the gate.
    pub gate_proj: Option<&'a Tensor>,
    /// `[I]` of the up projection.
    pub up_proj: Option<&'a Tensor>,
    /// `[H]` of the down projection.
    pub down_proj: Option<&'a Tensor>,
}

impl Weights {
    /// Takes tensors by name after checking them against `config`.
    ///
    /// `origin` names them in errors: a path, or a phrase such as `weights in memory`.
    ///
    /// # Errors
    /// Every missing, unexpected or mis-shaped tensor, and any that is not f32, at once.
    pub fn new(config: &ModelConfig, tensors: BTreeMap<String, Tensor>, origin: &str) -> Result<Self> {
        let expected = parameter_shapes(config);
        let mut faults = Vec::new();
        for (name, shape) in &expected {
            match tensors.get(name) {
                None => faults.push(format!("missing {name}: expected shape {shape:?}")),
                Some(tensor) => {
                    let found = tensor.size();
                    if &found != shape {
                        faults.push(format!("mis-shaped {name}: expected {shape:?}, found {found:?}"));
                    }
                    let kind = tensor.f_kind()?;
                    if kind != Kind::Float {
                        faults.push(format!("{name} is {kind:?}, expected Float (f32)"));
                    }
                }
            }
        }
        for (name, tensor) in &tensors {
            if !expected.contains_key(name) {
                faults.push(format!("unexpected {name} of shape {:?}", tensor.size()));
            }
        }
        if !faults.is_empty() {
            return Err(Error::Weights { origin: origin.to_owned(), faults });
        }
        Ok(Self { tensors })
    }

    /// Names and tensors in name order.
    pub fn tensors(&self) -> &BTreeMap<String, Tensor> {
        &self.tensors
    }

    /// Gives the tensors back, in name order.
    pub fn into_tensors(self) -> BTreeMap<String, Tensor> {
        self.tensors
    }

    /// The same tensors under a second handle: no copy, one storage.
    pub fn shallow_clone(&self) -> Self {
        Self {
            tensors: self
                .tensors
                .iter()
                .map(|(name, tensor)| (name.clone(), tensor.shallow_clone()))
                .collect(),
        }
    }

    /// A deep copy outside any gradient graph.
    ///
    /// # Errors
    /// When libtorch cannot allocate.
    pub fn snapshot(&self) -> Result<Self> {
        let mut tensors = BTreeMap::new();
        for (name, tensor) in &self.tensors {
            let mut copy = tensor.f_detach()?.f_empty_like()?;
            copy.f_copy_(&tensor.f_detach()?)?;
            tensors.insert(name.clone(), copy);
        }
        Ok(Self { tensors })
    }

    /// Marks every tensor as a leaf that wants gradients, or no longer.
    ///
    /// # Errors
    /// When a tensor is not a leaf.
    pub fn set_requires_grad(&mut self, wanted: bool) -> Result<()> {
        for tensor in self.tensors.values_mut() {
            *tensor = tensor.f_detach()?.f_set_requires_grad(wanted)?;
        }
        Ok(())
    }

    /// Copies every value of `source` into these tensors, in place.
    ///
    /// # Errors
    /// When `source` belongs to another configuration.
    pub fn copy_from(&mut self, source: &Self) -> Result<()> {
        let _guard = tch::no_grad_guard();
        let faults: Vec<String> = self
            .tensors
            .iter()
            .filter(|(name, tensor)| {
                source.tensors.get(*name).is_none_or(|other| other.size() != tensor.size())
            })
            .map(|(name, tensor)| format!("{name} of shape {:?} has no counterpart", tensor.size()))
            .collect();
        if !faults.is_empty() {
            return Err(Error::Weights { origin: "copy of weights".to_owned(), faults });
        }
        for (name, tensor) in &mut self.tensors {
            if let Some(other) = source.tensors.get(name) {
                tensor.f_copy_(other)?;
            }
        }
        Ok(())
    }

    /// `[V, H]` token embedding.
    pub fn embed_tokens(&self) -> &Tensor {
        self.tensor("model.embed_tokens.weight")
    }

    /// `[H]` final RMSNorm.
    pub fn norm(&self) -> &Tensor {
        self.tensor("model.norm.weight")
    }

    /// `[V, H]` output head: `lm_head.weight`, or the embedding when tied.
    pub fn lm_head(&self) -> &Tensor {
        self.tensors.get("lm_head.weight").unwrap_or_else(|| self.embed_tokens())
    }

    /// The tensors of decoder layer `index`, below `num_hidden_layers`.
    pub fn layer(&self, index: usize) -> LayerWeights<'_> {
        let name = |part: &str, kind: &str| format!("model.layers.{index}.{part}.{kind}");
        let tensor = |part: &str| self.tensor(&name(part, "weight"));
        let bias = |part: &str| self.tensors.get(&name(part, "bias"));
        LayerWeights {
            input_layernorm: tensor("input_layernorm"),
            q_proj: tensor("self_attn.q_proj"),
            k_proj: tensor("self_attn.k_proj"),
            v_proj: tensor("self_attn.v_proj"),
            q_norm: self.tensors.get(&name("self_attn.q_norm", "weight")),
            k_norm: self.tensors.get(&name("self_attn.k_norm", "weight")),
            o_proj: tensor("self_attn.o_proj"),
            post_attention_layernorm: tensor("post_attention_layernorm"),
            gate_proj: tensor("mlp.gate_proj"),
            up_proj: tensor("mlp.up_proj"),
            down_proj: tensor("mlp.down_proj"),
            biases: LayerBiases {
                q_proj: bias("self_attn.q_proj"),
                k_proj: bias("self_attn.k_proj"),
                v_proj: bias("self_attn.v_proj"),
                o_proj: bias("self_attn.o_proj"),
                gate_proj: bias("mlp.gate_proj"),
                up_proj: bias("mlp.up_proj"),
                down_proj: bias("mlp.down_proj"),
            },
        }
    }

    /// The device that the tensors live on.
    pub fn device(&self) -> Device {
        self.embed_tokens().device()
    }

    /// Number of scalars, shared ones counted once.
    pub fn num_parameters(&self) -> usize {
        self.tensors.values().map(Tensor::numel).sum()
    }

    fn tensor(&self, name: &str) -> &Tensor {
        self.tensors.get(name).expect("every name of the configuration is present: checked in Weights::new")
    }
}

/// Names and shapes of all tensors that a model of this configuration has.
pub fn parameter_shapes(config: &ModelConfig) -> BTreeMap<String, Vec<i64>> {
    let dim = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
    let (hidden, inner) = (dim(config.hidden_size), dim(config.intermediate_size));
    let head = dim(config.head_dim);
    let queries = dim(config.num_attention_heads).saturating_mul(head);
    let keys = dim(config.num_key_value_heads).saturating_mul(head);
    let vocab = dim(config.vocab_size);
    let mut shapes = BTreeMap::from([
        ("model.embed_tokens.weight".to_owned(), vec![vocab, hidden]),
        ("model.norm.weight".to_owned(), vec![hidden]),
    ]);
    if !config.tie_word_embeddings {
        shapes.insert("lm_head.weight".to_owned(), vec![vocab, hidden]);
    }
    for index in 0..config.num_hidden_layers {
        let name = |part: &str, kind: &str| format!("model.layers.{index}.{part}.{kind}");
        for (part, length) in [("input_layernorm", hidden), ("post_attention_layernorm", hidden)] {
            shapes.insert(name(part, "weight"), vec![length]);
        }
        for part in ["self_attn.q_norm", "self_attn.k_norm"].into_iter().filter(|_| config.qk_norm) {
            shapes.insert(name(part, "weight"), vec![head]);
        }
        let projections = [
            ("self_attn.q_proj", queries, hidden, config.qkv_bias),
            ("self_attn.k_proj", keys, hidden, config.qkv_bias),
            ("self_attn.v_proj", keys, hidden, config.qkv_bias),
            ("self_attn.o_proj", hidden, queries, config.o_bias),
            ("mlp.gate_proj", inner, hidden, config.mlp_bias),
            ("mlp.up_proj", inner, hidden, config.mlp_bias),
            ("mlp.down_proj", hidden, inner, config.mlp_bias),
        ];
        for (part, outputs, inputs, has_bias) in projections {
            shapes.insert(name(part, "weight"), vec![outputs, inputs]);
            if has_bias {
                shapes.insert(name(part, "bias"), vec![outputs]);
            }
        }
    }
    shapes
}
