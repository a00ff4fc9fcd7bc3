//! The way back through the row-wise kernels.
//!
//! Every function reads and writes one row in an order that depends on the row's length only.

use super::kernels::{exp, inverse_rms, sum_lanes};
use super::vectorized::vectorized;

const LANES: usize = 16;

vectorized! {
    /// Back through `rms_norm`: adds to `d_row` and to `d_weight`.
    ///
    /// With s = 1 / sqrt(mean(x^2) + eps) and g = d_out * w it is s g - x s^3 mean(g x).
    pub(crate) fn rms_norm_back(
        row: &[f32],
        weight: &[f32],
        eps: f32,
        d_out: &[f32],
        d_row: &mut [f32],
        d_weight: &mut [f32],
    ) {
        let scale = inverse_rms(row, eps);
        let pull = scale * scale * scale * weighted_dot(row, weight, d_out) / row.len() as f32;
        for ((((d_row, d_weight), x), w), d) in d_row.iter_mut().zip(d_weight).zip(row).zip(weight).zip(d_out) {
            *d_weight = (d * x).mul_add(scale, *d_weight);
            *d_row += (d * w).mul_add(scale, -(x * pull));
        }
    }
}

vectorized! {
    /// Back through `silu_mul`: `gate_up` and `d_gate_up` are the gate and then the up projection.
    pub(crate) fn silu_mul_back(gate_up: &[f32], d_out: &[f32], d_gate_up: &mut [f32]) {
        let (gate, up) = gate_up.split_at(d_out.len());
        let (d_gate, d_up) = d_gate_up.split_at_mut(d_out.len());
        for ((((d_gate, d_up), g), u), d) in d_gate.iter_mut().zip(d_up).zip(gate).zip(up).zip(d_out) {
            let sigmoid = 1.0 / (1.0 + exp(-g));
            *d_gate = d * u * sigmoid * (g * (1.0 - sigmoid) + 1.0);
            *d_up = d * g * sigmoid;
        }
    }
}

vectorized! {
    /// Back through `norm_and_rotate`: `d_heads` comes as the gradient of its output and leaves as that of its input,
    /// `heads`; adds to `d_weight`.
    fn norm_and_rotate_back(
        heads: &[f32],
        weight: &[f32],
        eps: f32,
        cos: &[f32],
        sin: &[f32],
        d_heads: &mut [f32],
        d_weight: &mut [f32],
    ) {
        let half = cos.len();
        for (head, d_head) in heads.chunks_exact(2 * half).zip(d_heads.chunks_exact_mut(2 * half)) {
            let (low, high) = d_head.split_at_mut(half);
            for i in 0..half {
                let a = low[i] * cos[i] + high[i] * sin[i];
                let b = high[i] * cos[i] - low[i] * sin[i];
                low[i] = a;
                high[i] = b;
            }
            let scale = inverse_rms(head, eps);
            let pull = scale * scale * scale * weighted_dot(head, weight, d_head) / head.len() as f32;
            for (((d, d_weight), x), w) in d_head.iter_mut().zip(&mut *d_weight).zip(head).zip(weight) {
                *d_weight = (*d * x).mul_add(scale, *d_weight);
                *d = (*d * w).mul_add(scale, -(x * pull));
            }
        }
    }
}

vectorized! {
    /// Back through a rotation: `d_heads` comes as the gradient of its output and leaves as that of its input.
    fn rotate_back(cos: &[f32], sin: &[f32], d_heads: &mut [f32]) {
        let half = cos.len();
        for d_head in d_heads.chunks_exact_mut(2 * half) {
            let (low, high) = d_head.split_at_mut(half);
            for i in 0..half {
                let (a, b) = (low[i], high[i]);
                low[i] = a * cos[i] + b * sin[i];
                high[i] = b * cos[i] - a * sin[i];
            }
        }
    }
}

/// Back through `turn`, whose input was `heads`.
pub(crate) fn turn_back(
    heads: &[f32],
    weight: &[f32],
    eps: f32,
    (cos, sin): (&[f32], &[f32]),
    d_heads: &mut [f32],
    d_weight: &mut [f32],
) {
    match weight.is_empty() {
        true => rotate_back(cos, sin, d_heads),
        false => norm_and_rotate_back(heads, weight, eps, cos, sin, d_heads, d_weight),
    }
}

vectorized! {
    /// Back through a softmax of `scale` times scores: `d_weights` comes as the gradient of the `weights` and leaves as
    /// that of the scores.
    pub(crate) fn softmax_back(weights: &[f32], scale: f32, d_weights: &mut [f32]) {
        let mean = dot(weights, d_weights);
        for (d, p) in d_weights.iter_mut().zip(weights) {
            *d = scale * p * (*d - mean);
        }
    }
}

vectorized! {
    /// Multiplies a row by a number.
    pub(crate) fn scale(row: &mut [f32], factor: f32) {
        row.iter_mut().for_each(|x| *x *= factor);
    }
}

#[inline(always)]
fn weighted_dot(x: &[f32], w: &[f32], d: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (xs, x_rest) = x.as_chunks::<LANES>();
    let (ws, w_rest) = w.as_chunks::<LANES>();
    let (ds, d_rest) = d.as_chunks::<LANES>();
    for ((x, w), d) in xs.iter().zip(ws).zip(ds) {
        for (((lane, x), w), d) in lanes.iter_mut().zip(x).zip(w).zip(d) {
            *lane = (x * w).mul_add(*d, *lane);
        }
    }
    for (((lane, x), w), d) in lanes.iter_mut().zip(x_rest).zip(w_rest).zip(d_rest) {
        *lane = (x * w).mul_add(*d, *lane);
    }
    sum_lanes(lanes)
}

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane = a.mul_add(*b, *lane);
        }
    }
    for ((lane, a), b) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
        *lane = a.mul_add(*b, *lane);
    }
    sum_lanes(lanes)
}
