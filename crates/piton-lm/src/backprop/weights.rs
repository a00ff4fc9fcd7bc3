//! Gradients of weight matrices: sums over rows of output gradients times inputs.

use rayon::prelude::*;

use crate::cpu::linear::Linear;
use crate::cpu::product::{Out, Panels, Rows, WIDTH, multiply, pack, panels_len, transpose};

/// What one chunk contributes to a matrix's gradient.
#[derive(Debug, Default)]
pub(super) struct Contribution {
    /// Inputs `[R, K]` as panels `[K / 16][R][16]`.
    inputs: Vec<f32>,
    /// `[N, R]` gradient of the outputs.
    d_outputs: Vec<f32>,
    rows: usize,
}

impl Contribution {
    /// Takes `inputs [R, K]` and `d_outputs [R, N]`.
    pub(super) fn set(&mut self, inputs: &[f32], d_outputs: &[f32], (k, n): (usize, usize)) {
        self.rows = inputs.len() / k;
        pack(Rows::dense(inputs, k), k, &mut self.inputs);
        transpose(Rows::dense(d_outputs, n), n, &mut self.d_outputs);
    }

    /// Adds the sums over the rows, unless the matrix has no bias.
    pub(super) fn add_bias(&self, gradient: &mut [f32]) {
        if !gradient.is_empty() {
            for (gradient, d_outputs) in gradient.iter_mut().zip(self.d_outputs.chunks_exact(self.rows)) {
                *gradient += d_outputs.iter().sum::<f32>();
            }
        }
    }
}

/// Rows of a gradient that one task fills: few enough that they stay in the second-level cache over all chunks.
const TASK_ROWS: usize = 64;

/// Some rows of one matrix's gradient, and the chunks that add to it.
pub(super) struct Task<'a> {
    gradient: &'a mut [f32],
    first: usize,
    inputs: usize,
    contributions: Vec<&'a Contribution>,
}

/// Cuts the gradient `[N, K]` of a matrix into tasks.
pub(super) fn tasks<'a>(
    gradient: &'a mut [f32],
    inputs: usize,
    contributions: impl Iterator<Item = &'a Contribution>,
) -> impl Iterator<Item = Task<'a>> {
    let contributions: Vec<_> = contributions.collect();
    gradient.chunks_mut(TASK_ROWS * inputs).enumerate().map(move |(index, gradient)| Task {
        gradient,
        first: index * TASK_ROWS,
        inputs,
        contributions: contributions.clone(),
    })
}

/// Runs tasks on all threads; each sums over the chunks in their order.
pub(super) fn run(tasks: Vec<Task<'_>>) {
    tasks.into_par_iter().with_max_len(1).for_each(|task| {
        let Task { gradient, first, inputs, contributions } = task;
        let count = gradient.len() / inputs;
        for contribution in contributions {
            let rows = contribution.rows;
            let panels = Panels { data: &contribution.inputs, inputs: rows, outputs: inputs };
            let d_outputs = &contribution.d_outputs[first * rows..(first + count) * rows];
            multiply(panels, Rows::dense(d_outputs, rows), Out::onto(gradient, inputs));
        }
    });
}

/// A weight matrix turned around, to go from the gradient of its outputs to that of its inputs.
#[derive(Debug, Default)]
pub(super) struct Transposed {
    panels: Vec<f32>,
    /// Outputs of the matrix.
    inputs: usize,
    /// Inputs of the matrix.
    outputs: usize,
}

impl Transposed {
    /// Copies a matrix.
    pub(super) fn load(&mut self, linear: &Linear) {
        let Panels { data, inputs, outputs } = linear.panels();
        (self.inputs, self.outputs) = (outputs, inputs);
        self.panels.resize(panels_len(outputs, inputs), 0.0);
        self.panels.par_chunks_exact_mut(outputs * WIDTH).enumerate().for_each(|(index, panel)| {
            let width = WIDTH.min(inputs - index * WIDTH);
            for (from, to) in data.chunks_exact(inputs * WIDTH).zip(panel.chunks_mut(WIDTH * WIDTH)) {
                let from = &from[index * WIDTH * WIDTH..][..width * WIDTH];
                for (lane, slots) in to.chunks_exact_mut(WIDTH).enumerate() {
                    for (slot, weights) in slots.iter_mut().zip(from.chunks_exact(WIDTH)) {
                        *slot = weights[lane];
                    }
                }
            }
        });
    }

    /// Multiplies `d_outputs [R, N]` into `d_inputs [R, K]`.
    pub(super) fn apply(&self, d_outputs: &[f32], d_inputs: &mut [f32]) {
        let panels = Panels { data: &self.panels, inputs: self.inputs, outputs: self.outputs };
        multiply(panels, Rows::dense(d_outputs, self.inputs), Out::dense(d_inputs, self.outputs));
    }
}
