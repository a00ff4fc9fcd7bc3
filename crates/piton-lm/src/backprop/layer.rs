//! Back through one layer, for one chunk.

use super::attention::{self, attention_back};
use super::gradients::LayerGradients;
use super::layout::Chunk;
use super::tape::{LayerTape, Shape, gate, turn};
use super::weights::{self, Contribution, Task, Transposed};
use crate::cpu::gradients::{rms_norm_back, silu_mul_back, turn_back};
use crate::cpu::kernels::{add, norm_rows};
use crate::cpu::model::Layer;
use crate::cpu::rope::Rope;
use crate::cpu::sized;

/// The matrices of a layer turned around.
#[derive(Debug, Default)]
pub(super) struct TransposedLayer {
    qkv: Transposed,
    o: Transposed,
    gate_up: Transposed,
    down: Transposed,
}

impl TransposedLayer {
    pub(super) fn load(&mut self, layer: &Layer) {
        self.qkv.load(&layer.qkv);
        self.o.load(&layer.o);
        self.gate_up.load(&layer.gate_up);
        self.down.load(&layer.down);
    }
}

/// A chunk on its way back: the gradient of the residual stream, and what the layer's weights get from it.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// `[A, H]` of the layer's output when [`Work::back`] begins, `[R, H]` of its input when it ends.
    pub(super) d_stream: Vec<f32>,
    qkv: Contribution,
    o: Contribution,
    gate_up: Contribution,
    down: Contribution,
    input_norm: Vec<f32>,
    q_norm: Vec<f32>,
    k_norm: Vec<f32>,
    post_norm: Vec<f32>,
    normed: Vec<f32>,
    gated: Vec<f32>,
    turned: Vec<f32>,
    d_normed: Vec<f32>,
    d_gated: Vec<f32>,
    d_gate_up: Vec<f32>,
    d_attended: Vec<f32>,
    d_qkv: Vec<f32>,
    attention: attention::Scratch,
}

impl Work {
    /// Goes from the layer's output to its input.
    #[expect(clippy::too_many_arguments, reason = "a layer, forward and back")]
    pub(super) fn back(
        &mut self,
        shape: &Shape,
        layer: &Layer,
        transposed: &TransposedLayer,
        rope: &Rope,
        chunk: &Chunk,
        last: bool,
        tape: &LayerTape,
    ) {
        self.feed_forward(shape, layer, transposed, tape);
        self.attention(shape, layer, transposed, rope, chunk, last, tape);
    }

    fn feed_forward(&mut self, shape: &Shape, layer: &Layer, transposed: &TransposedLayer, tape: &LayerTape) {
        let (hidden, inner) = (shape.hidden, shape.inner);
        let rows = tape.middle.len() / hidden;
        gate(shape, &tape.gate_up, &mut self.gated);
        self.down.set(&self.gated, &self.d_stream, (inner, hidden));
        transposed.down.apply(&self.d_stream, sized(&mut self.d_gated, rows * inner));
        let d_gate_up = sized(&mut self.d_gate_up, rows * 2 * inner);
        for ((gate_up, d), d_gate_up) in tape
            .gate_up
            .chunks_exact(2 * inner)
            .zip(self.d_gated.chunks_exact(inner))
            .zip(d_gate_up.chunks_exact_mut(2 * inner))
        {
            silu_mul_back(gate_up, d, d_gate_up);
        }
        norm_rows(&tape.middle, &layer.post_norm, shape.eps, sized(&mut self.normed, rows * hidden));
        self.gate_up.set(&self.normed, &self.d_gate_up, (hidden, 2 * inner));
        transposed.gate_up.apply(&self.d_gate_up, sized(&mut self.d_normed, rows * hidden));
        let weight = &layer.post_norm;
        norm_back(&tape.middle, weight, shape.eps, &self.d_normed, &mut self.d_stream, &mut self.post_norm);
    }

    #[expect(clippy::too_many_arguments, reason = "a layer, forward and back")]
    fn attention(
        &mut self,
        shape: &Shape,
        layer: &Layer,
        transposed: &TransposedLayer,
        rope: &Rope,
        chunk: &Chunk,
        last: bool,
        tape: &LayerTape,
    ) {
        let (hidden, width) = (shape.hidden, shape.width());
        let (rows, active) = (chunk.tokens.len(), tape.middle.len() / hidden);
        self.o.set(&tape.attended, &self.d_stream, (shape.queries, hidden));
        transposed.o.apply(&self.d_stream, sized(&mut self.d_attended, active * shape.queries));
        turn(shape, layer, rope, chunk, &tape.qkv, &mut self.turned);
        let scratch = &mut self.attention;
        attention_back(shape, chunk, last, &self.turned, &self.d_attended, &mut self.d_qkv, scratch);
        zeroed(&mut self.q_norm, layer.q_norm.len());
        zeroed(&mut self.k_norm, layer.k_norm.len());
        for ((&position, qkv), d_qkv) in
            chunk.positions.iter().zip(tape.qkv.chunks_exact(width)).zip(self.d_qkv.chunks_exact_mut(width))
        {
            let angles = rope.at(position);
            let (q, kv) = qkv.split_at(shape.queries);
            let (d_q, d_kv) = d_qkv.split_at_mut(shape.queries);
            let (k, d_k) = (&kv[..shape.keys], &mut d_kv[..shape.keys]);
            turn_back(q, &layer.q_norm, shape.eps, angles, d_q, &mut self.q_norm);
            turn_back(k, &layer.k_norm, shape.eps, angles, d_k, &mut self.k_norm);
        }
        norm_rows(&tape.input, &layer.input_norm, shape.eps, sized(&mut self.normed, rows * hidden));
        self.qkv.set(&self.normed, &self.d_qkv, (hidden, width));
        transposed.qkv.apply(&self.d_qkv, sized(&mut self.d_normed, rows * hidden));
        if last {
            let of_needed = std::mem::take(&mut self.d_stream);
            zeroed(&mut self.d_stream, rows * hidden);
            for (&row, d) in chunk.needed.iter().zip(of_needed.chunks_exact(hidden)) {
                self.d_stream[row * hidden..][..hidden].copy_from_slice(d);
            }
        }
        let weight = &layer.input_norm;
        norm_back(&tape.input, weight, shape.eps, &self.d_normed, &mut self.d_stream, &mut self.input_norm);
    }

    /// Adds the chunk's share to the gradients of the layer's small weights.
    pub(super) fn add_vectors(&self, gradients: &mut LayerGradients) {
        self.qkv.add_bias(&mut gradients.qkv_bias);
        self.o.add_bias(&mut gradients.o_bias);
        self.gate_up.add_bias(&mut gradients.gate_up_bias);
        self.down.add_bias(&mut gradients.down_bias);
        add(&mut gradients.input_norm, &self.input_norm);
        add(&mut gradients.q_norm, &self.q_norm);
        add(&mut gradients.k_norm, &self.k_norm);
        add(&mut gradients.post_norm, &self.post_norm);
    }
}

/// What is to be done for the layer's matrices once all chunks are through.
pub(super) fn matrix_tasks<'a>(
    shape: &Shape,
    gradients: &'a mut LayerGradients,
    work: &'a [Work],
) -> Vec<Task<'a>> {
    let LayerGradients { qkv, o, gate_up, down, .. } = gradients;
    weights::tasks(gate_up, shape.hidden, work.iter().map(|work| &work.gate_up))
        .chain(weights::tasks(down, shape.inner, work.iter().map(|work| &work.down)))
        .chain(weights::tasks(qkv, shape.hidden, work.iter().map(|work| &work.qkv)))
        .chain(weights::tasks(o, shape.queries, work.iter().map(|work| &work.o)))
        .collect()
}

/// Back through the norm of every row; the weight's gradient starts at zero.
pub(super) fn norm_back(
    rows: &[f32],
    weight: &[f32],
    eps: f32,
    d_out: &[f32],
    d_rows: &mut [f32],
    d_weight: &mut Vec<f32>,
) {
    let hidden = weight.len();
    zeroed(d_weight, hidden);
    for ((row, d_out), d_row) in
        rows.chunks_exact(hidden).zip(d_out.chunks_exact(hidden)).zip(d_rows.chunks_exact_mut(hidden))
    {
        rms_norm_back(row, weight, eps, d_out, d_row, d_weight);
    }
}

fn zeroed(buffer: &mut Vec<f32>, len: usize) {
    buffer.clear();
    buffer.resize(len, 0.0);
}
