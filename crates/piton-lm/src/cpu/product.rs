//! The matrix product: panels of 16 columns times rows, each output one chain of fused multiply-adds.
//!
//! ```text
//! panels [N / 16][K][16]       out[row][n] = fma(x[row][K-1], p[K-1][n], ... fma(x[row][0], p[0][n], start))
//! ```
//!
//! The chain runs over k in order and is never reordered, so an output's bits depend on its row and column alone: not
//! on how many rows are beside it, not on threads, not on the width of the machine's registers. Where the chain is
//! interrupted to stay in the cache, the sum waits in `out`, which changes no bit. Measured on one core of a Zen 4 (peak
//! near 118 GFLOP/s) with shapes from 8 x 128 x 256 to 128 x 256 x 2048: 117 GFLOP/s; libtorch's `mm`, by MKL, reached 64
//! with 8 rows and 98 at best.

use super::vectorized::InstructionSet;

/// Output columns side by side in a panel.
pub(crate) const WIDTH: usize = 16;

/// Length of a chain before the next rows have their turn: this much of a panel fills the first-level cache.
const CHAIN: usize = 384;

/// What rows are multiplied by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panels<'a> {
    /// `[ceil(outputs / WIDTH)][inputs][WIDTH]`
    pub(crate) data: &'a [f32],
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

/// Rows of `inputs` numbers, `stride` apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) stride: usize,
    pub(crate) count: usize,
}

impl<'a> Rows<'a> {
    /// Rows without a gap.
    pub(crate) fn dense(data: &'a [f32], inputs: usize) -> Self {
        Self { data, stride: inputs, count: data.len() / inputs }
    }
}

/// Numbers in the panels of such a matrix.
pub(crate) fn panels_len(inputs: usize, outputs: usize) -> usize {
    outputs.div_ceil(WIDTH) * inputs * WIDTH
}

/// Where a product goes: rows `stride` apart, of which the first `outputs` numbers are written.
#[derive(Debug)]
pub(crate) struct Out<'a> {
    pub(crate) data: &'a mut [f32],
    pub(crate) stride: usize,
    /// Whether chains start with what is there, or with zero.
    pub(crate) add: bool,
}

impl<'a> Out<'a> {
    /// Rows without a gap, to be overwritten.
    pub(crate) fn dense(data: &'a mut [f32], outputs: usize) -> Self {
        Self { data, stride: outputs, add: false }
    }

    /// Rows without a gap, to be added to.
    pub(crate) fn onto(data: &'a mut [f32], outputs: usize) -> Self {
        Self { data, stride: outputs, add: true }
    }
}

/// Multiplies `rows` by `panels` into `out`.
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "calls code compiled for an instruction set that was just detected")
)]
pub(crate) fn multiply(panels: Panels<'_>, rows: Rows<'_>, out: Out<'_>) {
    #[cfg(target_arch = "x86_64")]
    match InstructionSet::detect() {
        // SAFETY: the machine has the features that `product_avx512` was compiled for.
        InstructionSet::Avx512 => return unsafe { product_avx512(panels, rows, out) },
        // SAFETY: the machine has the features that `product_avx2` was compiled for.
        InstructionSet::Avx2 => return unsafe { product_avx2(panels, rows, out) },
        InstructionSet::Baseline => {}
    }
    product::<4>(panels, rows, out);
}

/// Eight rows fill half of the 32 registers; more gained nothing.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
fn product_avx512(panels: Panels<'_>, rows: Rows<'_>, out: Out<'_>) {
    product::<8>(panels, rows, out);
}

/// Six rows of two registers, two for the panel, one for the input: 15 of 16.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn product_avx2(panels: Panels<'_>, rows: Rows<'_>, out: Out<'_>) {
    product::<6>(panels, rows, out);
}

/// Panel by panel, so that one stays in the first-level cache while all rows pass.
#[inline(always)]
fn product<const TILE: usize>(panels: Panels<'_>, rows: Rows<'_>, out: Out<'_>) {
    let Panels { data, inputs, outputs } = panels;
    if inputs == 0 {
        return;
    }
    for (index, panel) in data.chunks_exact(inputs * WIDTH).enumerate() {
        let column = index * WIDTH;
        let width = WIDTH.min(outputs - column);
        for (part, panel) in panel.chunks(CHAIN * WIDTH).enumerate() {
            let add = out.add || part > 0;
            let rows_at = |row: usize| &rows.data[row * rows.stride + part * CHAIN..];
            let mut row = 0;
            while row + TILE <= rows.count {
                let to = &mut out.data[row * out.stride + column..];
                tile::<TILE>(rows_at(row), rows.stride, panel, add, to, out.stride, width);
                row += TILE;
            }
            while row + 4 <= rows.count {
                let to = &mut out.data[row * out.stride + column..];
                tile::<4>(rows_at(row), rows.stride, panel, add, to, out.stride, width);
                row += 4;
            }
            while row < rows.count {
                let to = &mut out.data[row * out.stride + column..];
                tile::<1>(rows_at(row), rows.stride, panel, add, to, out.stride, width);
                row += 1;
            }
        }
    }
}

#[inline(always)]
fn tile<const ROWS: usize>(
    rows: &[f32],
    stride: usize,
    panel: &[f32],
    add: bool,
    out: &mut [f32],
    out_stride: usize,
    width: usize,
) {
    let inputs = panel.len() / WIDTH;
    let rows: [&[f32]; ROWS] = std::array::from_fn(|i| &rows[i * stride..i * stride + inputs]);
    let mut sums = [[0.0_f32; WIDTH]; ROWS];
    if add {
        for (sums, out) in sums.iter_mut().zip(out.chunks(out_stride)) {
            match out.first_chunk::<WIDTH>() {
                Some(out) if width == WIDTH => *sums = *out,
                _ => sums[..width].copy_from_slice(&out[..width]),
            }
        }
    }
    for (k, weights) in panel.as_chunks::<WIDTH>().0.iter().enumerate() {
        for (sums, row) in sums.iter_mut().zip(&rows) {
            let x = row[k];
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum = x.mul_add(*weight, *sum);
            }
        }
    }
    for (sums, out) in sums.iter().zip(out.chunks_mut(out_stride)) {
        match out.first_chunk_mut::<WIDTH>() {
            Some(out) if width == WIDTH => *out = *sums,
            _ => out[..width].copy_from_slice(&sums[..width]),
        }
    }
}

/// Packs rows of `outputs` numbers as panels, so that other rows can be multiplied by them: `rows.count` is the panels'
/// `inputs`.
pub(crate) fn pack(rows: Rows<'_>, outputs: usize, panels: &mut Vec<f32>) {
    panels.clear();
    panels.resize(panels_len(rows.count, outputs), 0.0);
    if rows.count == 0 {
        return;
    }
    for (index, panel) in panels.chunks_exact_mut(rows.count * WIDTH).enumerate() {
        let column = index * WIDTH;
        let width = WIDTH.min(outputs - column);
        for (row, slot) in panel.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
            let from = &rows.data[row * rows.stride + column..];
            match from.first_chunk::<WIDTH>() {
                Some(from) if width == WIDTH => *slot = *from,
                _ => slot[..width].copy_from_slice(&from[..width]),
            }
        }
    }
}

/// Packs the transpose of rows of `inputs` numbers as panels: `[ceil(count / WIDTH)][inputs][WIDTH]`.
pub(crate) fn pack_transposed(rows: Rows<'_>, inputs: usize, panels: &mut Vec<f32>) {
    panels.clear();
    panels.resize(panels_len(inputs, rows.count), 0.0);
    if inputs == 0 {
        return;
    }
    for (index, panel) in panels.chunks_exact_mut(inputs * WIDTH).enumerate() {
        for lane in 0..WIDTH.min(rows.count - index * WIDTH) {
            let row = &rows.data[(index * WIDTH + lane) * rows.stride..][..inputs];
            for (slot, x) in panel[lane..].iter_mut().step_by(WIDTH).zip(row) {
                *slot = *x;
            }
        }
    }
}

/// Writes the transpose of rows of `columns` numbers: `[columns][rows.count]`.
pub(crate) fn transpose(rows: Rows<'_>, columns: usize, out: &mut Vec<f32>) {
    const SIDE: usize = 16;
    out.clear();
    out.resize(columns * rows.count, 0.0);
    for first in (0..columns).step_by(SIDE) {
        let last = columns.min(first + SIDE);
        for row_first in (0..rows.count).step_by(SIDE) {
            for row in row_first..rows.count.min(row_first + SIDE) {
                let from = &rows.data[row * rows.stride..];
                for column in first..last {
                    out[column * rows.count + row] = from[column];
                }
            }
        }
    }
}
