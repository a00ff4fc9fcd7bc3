//! A weight matrix as the product wants it: panels of 16 outputs.
//!
//! ```text
//! weight [N, K]  ->  panels [N / 16][K][16]
//! ```

use tch::Tensor;

use super::product::{Out, Panels, Rows, WIDTH, multiply, panels_len};
use crate::Result;

/// One or more projections of the same input, packed as one.
#[derive(Debug)]
pub(crate) struct Linear {
    inputs: usize,
    outputs: usize,
    /// `[ceil(outputs / WIDTH)][inputs][WIDTH]`, zeros past the last output.
    panels: Vec<f32>,
    /// `[outputs]`, with which the chains start; empty for zeros.
    bias: Vec<f32>,
}

impl Linear {
    /// Makes room for weights of `outputs` rows and `inputs` columns.
    pub(crate) fn zeros(inputs: usize, outputs: usize) -> Self {
        Self { inputs, outputs, panels: vec![0.0; panels_len(inputs, outputs)], bias: Vec::new() }
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

    /// Copies the biases of the parts, which have them all or none.
    pub(crate) fn load_bias(&mut self, parts: &[Option<&Tensor>], scratch: &mut Vec<f32>) -> Result<()> {
        self.bias.clear();
        for part in parts.iter().flatten() {
            read(part, scratch)?;
            self.bias.extend_from_slice(scratch);
        }
        Ok(())
    }

    /// Multiplies `rows` of `[rows, inputs]` into `out`, `[rows, outputs]`, and adds the bias.
    pub(crate) fn apply(&self, rows: &[f32], out: &mut [f32]) {
        let add = !self.bias.is_empty();
        if add {
            out.chunks_exact_mut(self.outputs).for_each(|out| out.copy_from_slice(&self.bias));
        }
        multiply(self.panels(), Rows::dense(rows, self.inputs), Out { data: out, stride: self.outputs, add });
    }

    pub(crate) fn panels(&self) -> Panels<'_> {
        Panels { data: &self.panels, inputs: self.inputs, outputs: self.outputs }
    }
}

/// Copies a tensor's numbers, row by row, into `out`.
pub(crate) fn read(tensor: &Tensor, out: &mut Vec<f32>) -> Result<()> {
    out.resize(tensor.numel(), 0.0);
    tensor.f_detach()?.f_copy_data(out, tensor.numel())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the number of rows and the machine: the chain that the head of `product.rs` writes down.
    #[test]
    fn every_output_is_one_chain_of_fused_multiply_adds() {
        let numbers =
            |count: usize, step: f32| -> Vec<f32> { (0..count).map(|i| (i as f32 * step).sin()).collect() };
        for (inputs, outputs) in [(3, 1), (40, 16), (129, 50), (900, 33)] {
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
