//! All layers over one chunk's packed rows.

use crate::ModelConfig;
use crate::cpu::attention::attend;
use crate::cpu::kernels::{add, norm_rows, silu_mul, turn};
use crate::cpu::kv_cache::{CacheShape, KvCache};
use crate::cpu::model::Model;
use crate::cpu::rope::Rope;
use crate::cpu::sized;
use crate::generate::backend::Unit;

/// Buffers of one thread's chunk, kept between forwards. R rows, H hidden, I intermediate.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    rows: Vec<Row>,
    /// `[R, H]` the residual stream
    stream: Vec<f32>,
    /// `[R, H]` normed
    normed: Vec<f32>,
    /// `[R, queries + keys + values]`
    qkv: Vec<f32>,
    /// `[R, queries]`
    attended: Vec<f32>,
    /// `[R, H]` what a block adds to the stream
    delta: Vec<f32>,
    /// `[R, 2 I]`
    gate_up: Vec<f32>,
    /// `[R, I]`
    gated: Vec<f32>,
    /// `[R, V]`
    logits: Vec<f32>,
    /// attention scores of one head
    scores: Vec<f32>,
    /// probabilities of one row
    weights: Vec<f32>,
}

/// One packed row.
#[derive(Debug, Clone, Copy)]
struct Row {
    unit: usize,
    /// Place in the unit's own cache.
    slot: usize,
    /// Place in the sequence.
    position: usize,
    /// Whether its logits are wanted.
    last: bool,
}

/// Runs the rows of `units`, for which cache room and angles are reserved.
pub(crate) fn forward(
    config: &ModelConfig,
    shape: &CacheShape,
    model: &Model,
    rope: &Rope,
    units: &mut [Unit<'_, KvCache>],
    ws: &mut Workspace,
) {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the constant is single precision in every checkpoint"
    )]
    let eps = config.rms_norm_eps as f32;
    let hidden = config.hidden_size;
    let queries = config.num_attention_heads * config.head_dim;
    let keys = config.num_key_value_heads * config.head_dim;
    let width = queries + 2 * keys;

    ws.embed(model, hidden, units);
    for (index, layer) in model.layers.iter().enumerate() {
        let count = ws.rows.len();
        norm_rows(&ws.stream, &layer.input_norm, eps, sized(&mut ws.normed, count * hidden));
        layer.qkv.apply(&ws.normed, sized(&mut ws.qkv, count * width));
        for (row, qkv) in ws.rows.iter().zip(ws.qkv.chunks_exact_mut(width)) {
            let (cos, sin) = rope.at(row.position);
            let (q, kv) = qkv.split_at_mut(queries);
            let (k, v) = kv.split_at_mut(keys);
            turn(q, &layer.q_norm, eps, cos, sin);
            turn(k, &layer.k_norm, eps, cos, sin);
            units[row.unit].cache.write(shape, index, row.slot, k, v);
        }
        if index + 1 == model.layers.len() {
            ws.keep_last_rows(hidden, width);
        }
        let count = ws.rows.len();
        let attended = sized(&mut ws.attended, count * queries);
        for ((row, qkv), out) in
            ws.rows.iter().zip(ws.qkv.chunks_exact(width)).zip(attended.chunks_exact_mut(queries))
        {
            let unit = &units[row.unit];
            let own = (&*unit.cache, row.slot + 1);
            let prompt = unit.prompt.unwrap_or((own.0, 0));
            attend(shape, index, [prompt, own], &qkv[..queries], &mut ws.scores, out);
        }
        layer.o.apply(&ws.attended, sized(&mut ws.delta, count * hidden));
        add(&mut ws.stream, &ws.delta);
        norm_rows(&ws.stream, &layer.post_norm, eps, sized(&mut ws.normed, count * hidden));
        layer.gate_up.apply(&ws.normed, sized(&mut ws.gate_up, count * layer.gate_up.outputs()));
        let inner = config.intermediate_size;
        let gated = sized(&mut ws.gated, count * inner);
        for (gate_up, out) in ws.gate_up.chunks_exact(2 * inner).zip(gated.chunks_exact_mut(inner)) {
            silu_mul(gate_up, out);
        }
        layer.down.apply(&ws.gated, sized(&mut ws.delta, count * hidden));
        add(&mut ws.stream, &ws.delta);
    }
    let count = ws.rows.len();
    norm_rows(&ws.stream, &model.norm, eps, sized(&mut ws.normed, count * hidden));
    model.head.apply(&ws.normed, sized(&mut ws.logits, count * config.vocab_size));
    for (row, logits) in ws.rows.iter().zip(ws.logits.chunks_exact(config.vocab_size)) {
        units[row.unit].head.take(logits, &mut ws.weights);
    }
}

impl Workspace {
    /// Lists the rows and copies their embeddings to the stream.
    fn embed(&mut self, model: &Model, hidden: usize, units: &[Unit<'_, KvCache>]) {
        self.rows.clear();
        self.stream.clear();
        for (index, unit) in units.iter().enumerate() {
            for (offset, &token) in unit.tokens.iter().enumerate() {
                self.stream.extend_from_slice(&model.embedding[token as usize * hidden..][..hidden]);
                self.rows.push(Row {
                    unit: index,
                    slot: unit.cached + offset,
                    position: unit.position() + offset,
                    last: offset + 1 == unit.tokens.len() && unit.head.wants_logits(),
                });
            }
        }
    }

    /// Once the last layer's keys and values are written, only rows whose logits are wanted go on.
    fn keep_last_rows(&mut self, hidden: usize, width: usize) {
        let mut kept = 0;
        for index in 0..self.rows.len() {
            if self.rows[index].last {
                self.rows[kept] = self.rows[index];
                self.stream.copy_within(index * hidden..(index + 1) * hidden, kept * hidden);
                self.qkv.copy_within(index * width..(index + 1) * width, kept * width);
                kept += 1;
            }
        }
        self.rows.truncate(kept);
        self.stream.truncate(kept * hidden);
        self.qkv.truncate(kept * width);
    }
}
