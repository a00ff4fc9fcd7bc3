//! The forward pass of a chunk, and what the backward pass needs of it.

use super::layout::Chunk;
use crate::ModelConfig;
use crate::cpu::attention::attend;
use crate::cpu::kernels::{self, add, norm_rows, silu_mul};
use crate::cpu::kv_cache::{BlockPool, CacheShape, KvCache};
use crate::cpu::model::{Layer, Model};
use crate::cpu::rope::Rope;
use crate::cpu::sized;

/// Sizes that every part of a pass needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) hidden: usize,
    /// Width of all query heads.
    pub(super) queries: usize,
    /// Width of all key heads, and of all value heads.
    pub(super) keys: usize,
    pub(super) inner: usize,
    pub(super) vocab: usize,
    pub(super) head_dim: usize,
    pub(super) eps: f32,
    /// Of one layer.
    pub(super) cache: CacheShape,
}

impl Shape {
    pub(super) fn new(config: &ModelConfig) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the constant is single precision in every checkpoint"
        )]
        let eps = config.rms_norm_eps as f32;
        Self {
            hidden: config.hidden_size,
            queries: config.num_attention_heads * config.head_dim,
            keys: config.num_key_value_heads * config.head_dim,
            inner: config.intermediate_size,
            vocab: config.vocab_size,
            head_dim: config.head_dim,
            eps,
            cache: CacheShape::of_one_layer(config),
        }
    }

    /// Width of a row of queries, keys and values.
    pub(super) fn width(&self) -> usize {
        self.queries + 2 * self.keys
    }
}

/// A chunk's activations. R rows; A rows that go on after attention: R, in the last layer those that are needed.
#[derive(Debug, Default)]
pub(super) struct Tape {
    pub(super) layers: Vec<LayerTape>,
    /// `[needed, H]` the residual stream after the last layer.
    pub(super) output: Vec<f32>,
    scratch: Scratch,
}

/// One layer's activations.
#[derive(Debug, Default)]
pub(super) struct LayerTape {
    /// `[R, H]` the residual stream.
    pub(super) input: Vec<f32>,
    /// `[R, queries + 2 keys]` before norm and rotation.
    pub(super) qkv: Vec<f32>,
    /// `[A, queries]`
    pub(super) attended: Vec<f32>,
    /// `[A, H]` the residual stream after attention.
    pub(super) middle: Vec<f32>,
    /// `[A, 2 I]`
    pub(super) gate_up: Vec<f32>,
}

#[derive(Debug, Default)]
struct Scratch {
    normed: Vec<f32>,
    turned: Vec<f32>,
    delta: Vec<f32>,
    gated: Vec<f32>,
    scores: Vec<f32>,
    prefix: KvCache,
    own: KvCache,
    blocks: BlockPool,
}

impl Tape {
    /// Runs `chunk` through all layers.
    pub(super) fn record(&mut self, shape: &Shape, model: &Model, rope: &Rope, chunk: &Chunk) {
        self.layers.resize_with(model.layers.len(), LayerTape::default);
        let mut stream = std::mem::take(&mut self.output);
        stream.clear();
        for &token in &chunk.tokens {
            stream.extend_from_slice(&model.embedding[token as usize * shape.hidden..][..shape.hidden]);
        }
        for (index, (layer, tape)) in model.layers.iter().zip(&mut self.layers).enumerate() {
            tape.input.clone_from(&stream);
            let last = index + 1 == model.layers.len();
            tape.run(shape, layer, rope, chunk, last, &mut self.scratch, &mut stream);
        }
        self.output = stream;
    }
}

impl LayerTape {
    /// From `self.input` to `stream`.
    #[expect(clippy::too_many_arguments, reason = "a layer, its input and its output")]
    fn run(
        &mut self,
        shape: &Shape,
        layer: &Layer,
        rope: &Rope,
        chunk: &Chunk,
        last: bool,
        scratch: &mut Scratch,
        stream: &mut Vec<f32>,
    ) {
        let (rows, hidden, width) = (chunk.tokens.len(), shape.hidden, shape.width());
        norm_rows(&self.input, &layer.input_norm, shape.eps, sized(&mut scratch.normed, rows * hidden));
        layer.qkv.apply(&scratch.normed, sized(&mut self.qkv, rows * width));
        turn(shape, layer, rope, chunk, &self.qkv, &mut scratch.turned);
        if last {
            self.middle.clear();
            for &row in &chunk.needed {
                self.middle.extend_from_slice(&self.input[row * hidden..][..hidden]);
            }
        } else {
            self.middle.clone_from(&self.input);
        }
        let active = self.middle.len() / hidden;
        sized(&mut self.attended, active * shape.queries);
        scratch.attend(shape, chunk, last, &mut self.attended);
        layer.o.apply(&self.attended, sized(&mut scratch.delta, active * hidden));
        add(&mut self.middle, &scratch.delta);
        norm_rows(&self.middle, &layer.post_norm, shape.eps, sized(&mut scratch.normed, active * hidden));
        layer.gate_up.apply(&scratch.normed, sized(&mut self.gate_up, active * 2 * shape.inner));
        gate(shape, &self.gate_up, &mut scratch.gated);
        layer.down.apply(&scratch.gated, sized(&mut scratch.delta, active * hidden));
        stream.clone_from(&self.middle);
        add(stream, &scratch.delta);
    }
}

/// Normed and rotated queries and keys, and the values as they are: `[R, queries + 2 keys]`.
pub(super) fn turn(
    shape: &Shape,
    layer: &Layer,
    rope: &Rope,
    chunk: &Chunk,
    qkv: &[f32],
    turned: &mut Vec<f32>,
) {
    turned.clear();
    turned.extend_from_slice(qkv);
    for (&position, row) in chunk.positions.iter().zip(turned.chunks_exact_mut(shape.width())) {
        let (cos, sin) = rope.at(position);
        let (q, kv) = row.split_at_mut(shape.queries);
        kernels::turn(q, &layer.q_norm, shape.eps, cos, sin);
        kernels::turn(&mut kv[..shape.keys], &layer.k_norm, shape.eps, cos, sin);
    }
}

/// The gated activation of every row: `[A, I]`.
pub(super) fn gate(shape: &Shape, gate_up: &[f32], gated: &mut Vec<f32>) {
    let rows = gate_up.len() / (2 * shape.inner);
    let gated = sized(gated, rows * shape.inner);
    for (gate_up, out) in gate_up.chunks_exact(2 * shape.inner).zip(gated.chunks_exact_mut(shape.inner)) {
        silu_mul(gate_up, out);
    }
}

impl Scratch {
    /// Attention of the rows that go on, group by group.
    fn attend(&mut self, shape: &Shape, chunk: &Chunk, last: bool, attended: &mut [f32]) {
        let Self { turned, scores, prefix, own, blocks, .. } = self;
        let fill = |cache: &mut KvCache, rows: std::ops::Range<usize>, blocks: &mut BlockPool| {
            blocks.shape(&shape.cache);
            cache.reserve(0, rows.len(), blocks);
            for (slot, row) in rows.enumerate() {
                let kv = &turned[row * shape.width()..][shape.queries..shape.width()];
                cache.write(&shape.cache, 0, slot, &kv[..shape.keys], &kv[shape.keys..]);
            }
        };
        let mut out = attended.chunks_exact_mut(shape.queries);
        let query = |row: usize| &turned[row * shape.width()..][..shape.queries];
        for group in &chunk.groups {
            fill(prefix, group.prefix.clone(), blocks);
            let length = group.prefix.len();
            for (slot, row) in group.prefix.clone().enumerate().skip(if last { length - 1 } else { 0 }) {
                if let Some(out) = out.next() {
                    attend(&shape.cache, 0, [(prefix, 0), (prefix, slot + 1)], query(row), scores, out);
                }
            }
            for continuation in &group.continuations {
                fill(own, continuation.clone(), blocks);
                for (slot, row) in continuation.clone().enumerate() {
                    if let Some(out) = out.next() {
                        attend(&shape.cache, 0, [(prefix, length), (own, slot + 1)], query(row), scores, out);
                    }
                }
            }
        }
    }
}
