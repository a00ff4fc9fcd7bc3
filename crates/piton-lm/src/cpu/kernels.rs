//! Row-wise arithmetic between the matrix products: norms, the gated activation, exponentials.
//!
//! Every function reads and writes one row, in an order that depends on the row's length only.

use super::vectorized::vectorized;

/// Numbers summed side by side before they are added up.
const LANES: usize = 16;

vectorized! {
    /// Writes `row / sqrt(mean(row^2) + eps) * weight` to `out`; all three have one length.
    pub(crate) fn rms_norm(row: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
        let scale = inverse_rms(row, eps);
        for ((out, x), w) in out.iter_mut().zip(row).zip(weight) {
            *out = w * (x * scale);
        }
    }
}

/// [`rms_norm`] of every row.
pub(crate) fn norm_rows(rows: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    for (row, out) in rows.chunks_exact(weight.len()).zip(out.chunks_exact_mut(weight.len())) {
        rms_norm(row, weight, eps, out);
    }
}

vectorized! {
    /// Adds `delta` to `row`.
    pub(crate) fn add(row: &mut [f32], delta: &[f32]) {
        for (x, d) in row.iter_mut().zip(delta) {
            *x += d;
        }
    }
}

vectorized! {
    /// Writes `silu(gate) * up` to `out`; `gate_up` is the gate and then the up projection, each as long as `out`.
    pub(crate) fn silu_mul(gate_up: &[f32], out: &mut [f32]) {
        let (gate, up) = gate_up.split_at(out.len());
        for ((out, g), u) in out.iter_mut().zip(gate).zip(up) {
            *out = g / (1.0 + exp(-g)) * u;
        }
    }
}

vectorized! {
    /// Normalises each head of `heads` (RMSNorm with `weight`) and turns it by the angles of its position.
    ///
    /// `cos` and `sin` hold half a head. The rotation pairs dimension i with i + half, as transformers' `rotate_half`.
    fn norm_and_rotate(heads: &mut [f32], weight: &[f32], eps: f32, cos: &[f32], sin: &[f32]) {
        let half = cos.len();
        let (weight_low, weight_high) = weight.split_at(half);
        for head in heads.chunks_exact_mut(2 * half) {
            let scale = inverse_rms(head, eps);
            let (low, high) = head.split_at_mut(half);
            for i in 0..half {
                let a = weight_low[i] * (low[i] * scale);
                let b = weight_high[i] * (high[i] * scale);
                low[i] = a * cos[i] - b * sin[i];
                high[i] = b * cos[i] + a * sin[i];
            }
        }
    }
}

vectorized! {
    /// Turns each head of `heads` by the angles of its position, as `norm_and_rotate` does.
    fn rotate(heads: &mut [f32], cos: &[f32], sin: &[f32]) {
        let half = cos.len();
        for head in heads.chunks_exact_mut(2 * half) {
            let (low, high) = head.split_at_mut(half);
            for i in 0..half {
                let (a, b) = (low[i], high[i]);
                low[i] = a * cos[i] - b * sin[i];
                high[i] = b * cos[i] + a * sin[i];
            }
        }
    }
}

/// Heads as attention wants them: normed, unless `weight` is empty, and turned.
pub(crate) fn turn(heads: &mut [f32], weight: &[f32], eps: f32, cos: &[f32], sin: &[f32]) {
    match weight.is_empty() {
        true => rotate(heads, cos, sin),
        false => norm_and_rotate(heads, weight, eps, cos, sin),
    }
}

vectorized! {
    /// Gives the largest of `row`, NaN aside; minus infinity when there is none.
    pub(crate) fn max(row: &[f32]) -> f32 {
        let mut lanes = [f32::NEG_INFINITY; LANES];
        let (chunks, rest) = row.as_chunks::<LANES>();
        for chunk in chunks {
            for (lane, x) in lanes.iter_mut().zip(chunk) {
                *lane = if *x > *lane { *x } else { *lane };
            }
        }
        lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a })
    }
}

vectorized! {
    /// Writes `exp((row - shift) * scale)` to `out` and gives the sum.
    pub(crate) fn exp_sum(row: &[f32], shift: f32, scale: f32, out: &mut [f32]) -> f32 {
        let mut lanes = [0.0; LANES];
        let (chunks, rest) = row.as_chunks::<LANES>();
        let (out_chunks, out_rest) = out.as_chunks_mut::<LANES>();
        for (out, chunk) in out_chunks.iter_mut().zip(chunks) {
            for ((lane, out), x) in lanes.iter_mut().zip(out).zip(chunk) {
                *out = exp((x - shift) * scale);
                *lane += *out;
            }
        }
        for ((lane, out), x) in lanes.iter_mut().zip(out_rest).zip(rest) {
            *out = exp((x - shift) * scale);
            *lane += *out;
        }
        sum_lanes(lanes)
    }
}

vectorized! {
    /// Turns scores into unnormalised weights, `exp((score - max) * scale)`, and gives their sum.
    pub(crate) fn softmax_in_place(scores: &mut [f32], scale: f32) -> f32 {
        let mut lanes = [f32::NEG_INFINITY; LANES];
        let (chunks, rest) = scores.as_chunks_mut::<LANES>();
        for chunk in &*chunks {
            for (lane, x) in lanes.iter_mut().zip(chunk) {
                *lane = if *x > *lane { *x } else { *lane };
            }
        }
        let largest = lanes.iter().chain(&*rest).fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
        let mut lanes = [0.0; LANES];
        for chunk in chunks {
            for (lane, x) in lanes.iter_mut().zip(chunk) {
                *x = exp((*x - largest) * scale);
                *lane += *x;
            }
        }
        for (lane, x) in lanes.iter_mut().zip(rest) {
            *x = exp((*x - largest) * scale);
            *lane += *x;
        }
        sum_lanes(lanes)
    }
}

#[inline(always)]
pub(crate) fn inverse_rms(row: &[f32], eps: f32) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = x.mul_add(*x, *lane);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = x.mul_add(*x, *lane);
    }
    1.0 / (sum_lanes(lanes) / row.len() as f32 + eps).sqrt()
}

/// Adds halves to halves: the order in which a register is summed.
#[inline(always)]
pub(crate) fn sum_lanes(lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    let mut lanes = lanes;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// e^x for x clamped to [-87, 88]; NaN gives e^-87.
///
/// 2^n times a polynomial of degree 6 on [-ln 2 / 2, ln 2 / 2] (coefficients of Cephes' `expf`); within 2 units in the
/// last place.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    /// Adding it rounds to an integer and leaves that integer in the low bits.
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = if x > -87.0 { x } else { -87.0 };
    let x = if x < 88.0 { x } else { 88.0 };
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    let mut p = 1.987_569_1e-4_f32;
    p = p.mul_add(r, 1.398_199_9e-3);
    p = p.mul_add(r, 8.333_452e-3);
    p = p.mul_add(r, 4.166_579_6e-2);
    p = p.mul_add(r, 1.666_666_6e-1);
    p = p.mul_add(r, 0.5);
    let p = p.mul_add(r * r, r) + 1.0;
    p * f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        let xs: Vec<f32> = (-8_700..=8_800).map(|i| i as f32 * 0.01).collect();
        let mut found = vec![0.0; xs.len()];
        exp_sum(&xs, 0.0, 1.0, &mut found);
        for (x, found) in xs.iter().zip(found) {
            let exact = f64::from(*x).exp();
            let unit = 2.0_f64.powf(exact.log2().floor() - 23.0);
            assert!((f64::from(found) - exact).abs() <= 2.0 * unit, "exp({x}) is {exact}, found {found}");
        }
    }

    #[test]
    fn exp_saturates() {
        let mut found = [0.0; 3];
        exp_sum(&[f32::NEG_INFINITY, -1000.0, 1000.0], 0.0, 1.0, &mut found);
        assert!(found[0] < 2e-38 && found[1] < 2e-38 && found[2] > 1e38 && found[2].is_finite());
    }
}
