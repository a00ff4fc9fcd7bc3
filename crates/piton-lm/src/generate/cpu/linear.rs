//! The matrix product: packed weights times rows, each output one chain of fused multiply-adds.
//!
//! ```text
//! weight [N, K]  ->  panels [N / 16][K][16]       out[row][n] = fma(x[row][K-1], w[n][K-1], ... fma(x[row][0], w[n][0], 0))
//! ```
//!
//! The chain runs over k in order and is never split, so a row's bits depend on the row and the weights alone: not on
//! how many rows are beside it, not on threads, not on the width of the machine's registers. Measured on one core of
//! a Zen 4 (peak near 118 GFLOP/s) with shapes from 8 x 128 x 256 to 128 x 256 x 2048: 117 GFLOP/s; libtorch's `mm`, by
//! MKL, reached 64 with 8 rows and 98 at best.

use tch::Tensor;

use super::vectorized::InstructionSet;
use crate::Result;

/// Output columns side by side in a panel.
const WIDTH: usize = 16;

/// One or more projections of the same input, packed as one.
#[derive(Debug)]
pub(crate) struct Linear {
    inputs: usize,
    outputs: usize,
    /// `[ceil(outputs / WIDTH)][inputs][WIDTH]`, zeros past the last output.
    panels: Vec<f32>,
}

impl Linear {
    /// Makes room for weights of `outputs` rows and `inputs` columns.
    pub(crate) fn zeros(inputs: usize, outputs: usize) -> Self {
        Self { inputs, outputs, panels: vec![0.0; outputs.div_ceil(WIDTH) * inputs * WIDTH] }
    }

    /// Width of an output row.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Copies `[N, K]` weights, one below the other, into the panels.
    pub(crate) fn load(&mut self, parts: &[&Tensor], scratch: &mut Vec<f32>) -> Result<()> {
        let mut first = 0;
        for part in parts {
            read(part, scratch)?;
            for (row, weights) in scratch.chunks_exact(self.inputs).enumerate() {
                let output = first + row;
                let panel = &mut self.panels[output / WIDTH * self.inputs * WIDTH..][..self.inputs * WIDTH];
                for (slot, &weight) in panel[output % WIDTH..].iter_mut().step_by(WIDTH).zip(weights) {
                    *slot = weight;
                }
            }
            first += scratch.len() / self.inputs;
        }
        Ok(())
    }

    /// Multiplies `rows` of `[rows, inputs]` into `out`, `[rows, outputs]`.
    #[cfg_attr(
        target_arch = "x86_64",
        expect(unsafe_code, reason = "calls code compiled for an instruction set that was just detected")
    )]
    pub(crate) fn apply(&self, rows: &[f32], out: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        match InstructionSet::detect() {
            // SAFETY: the machine has the features that `product_avx512` was compiled for.
            InstructionSet::Avx512 => return unsafe { product_avx512(self, rows, out) },
            // SAFETY: the machine has the features that `product_avx2` was compiled for.
            InstructionSet::Avx2 => return unsafe { product_avx2(self, rows, out) },
            InstructionSet::Baseline => {}
        }
        product::<4>(self, rows, out);
    }
}

/// Copies a tensor's numbers, row by row, into `out`.
pub(crate) fn read(tensor: &Tensor, out: &mut Vec<f32>) -> Result<()> {
    out.resize(tensor.numel(), 0.0);
    tensor.f_detach()?.f_copy_data(out, tensor.numel())?;
    Ok(())
}

/// Eight rows fill half of the 32 registers; more gained nothing.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
fn product_avx512(linear: &Linear, rows: &[f32], out: &mut [f32]) {
    product::<8>(linear, rows, out);
}

/// Six rows of two registers, two for the panel, one for the input: 15 of 16.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn product_avx2(linear: &Linear, rows: &[f32], out: &mut [f32]) {
    product::<6>(linear, rows, out);
}

/// Panel by panel, so that one stays in the first-level cache while all rows pass.
#[inline(always)]
fn product<const TILE: usize>(linear: &Linear, rows: &[f32], out: &mut [f32]) {
    let (inputs, outputs) = (linear.inputs, linear.outputs);
    let count = rows.len() / inputs;
    for (index, panel) in linear.panels.chunks_exact(inputs * WIDTH).enumerate() {
        let column = index * WIDTH;
        let mut row = 0;
        while row + TILE <= count {
            tile::<TILE>(&rows[row * inputs..], panel, &mut out[row * outputs..], outputs, column);
            row += TILE;
        }
        while row + 4 <= count {
            tile::<4>(&rows[row * inputs..], panel, &mut out[row * outputs..], outputs, column);
            row += 4;
        }
        while row < count {
            tile::<1>(&rows[row * inputs..], panel, &mut out[row * outputs..], outputs, column);
            row += 1;
        }
    }
}

#[inline(always)]
fn tile<const ROWS: usize>(rows: &[f32], panel: &[f32], out: &mut [f32], outputs: usize, column: usize) {
    let inputs = panel.len() / WIDTH;
    let rows: [&[f32]; ROWS] = std::array::from_fn(|i| &rows[i * inputs..(i + 1) * inputs]);
    let mut sums = [[0.0_f32; WIDTH]; ROWS];
    for (k, weights) in panel.as_chunks::<WIDTH>().0.iter().enumerate() {
        for (sums, row) in sums.iter_mut().zip(&rows) {
            let x = row[k];
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum = x.mul_add(*weight, *sum);
            }
        }
    }
    for (sums, out) in sums.iter().zip(out.chunks_mut(outputs)) {
        match out[column..].first_chunk_mut::<WIDTH>() {
            Some(out) => *out = *sums,
            None => out[column..].copy_from_slice(&sums[..outputs - column]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the number of rows and the machine: the chain that the head of this file writes down.
    #[test]
    fn every_output_is_one_chain_of_fused_multiply_adds() {
        let numbers =
            |count: usize, step: f32| -> Vec<f32> { (0..count).map(|i| (i as f32 * step).sin()).collect() };
        for (inputs, outputs) in [(3, 1), (40, 16), (129, 50)] {
            let weights = numbers(inputs * outputs, 0.7);
            let tensor = Tensor::from_slice(&weights).view([outputs as i64, inputs as i64]);
            let (upper, lower) = (tensor.narrow(0, 0, 1), tensor.narrow(0, 1, outputs as i64 - 1));
            let mut linear = Linear::zeros(inputs, outputs);
            linear.load(&[&upper, &lower], &mut Vec::new()).unwrap();
            for count in [1, 2, 5, 8, 15, 27] {
                let rows = numbers(count * inputs, 1.3);
                let mut out = vec![f32::NAN; count * outputs];
                linear.apply(&rows, &mut out);
                for (index, found) in out.iter().enumerate() {
                    let (row, weight) = (index / outputs * inputs, index % outputs * inputs);
                    let chain =
                        (0..inputs).fold(0.0_f32, |sum, k| rows[row + k].mul_add(weights[weight + k], sum));
                    assert_eq!(found.to_bits(), chain.to_bits(), "{count} rows of {inputs}, output {index}");
                }
            }
        }
    }
}
