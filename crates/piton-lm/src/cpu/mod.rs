//! The CPU's arithmetic over plain slices, shared by generation and training: the same row gives the same bits in both.

pub(crate) mod attention;
pub(crate) mod gradients;
pub(crate) mod kernels;
pub(crate) mod kv_cache;
pub(crate) mod linear;
pub(crate) mod log_prob;
pub(crate) mod model;
pub(crate) mod product;
pub(crate) mod rope;
pub(crate) mod vectorized;

/// Gives `buffer` this length; what it holds is about to be overwritten.
pub(crate) fn sized(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    buffer.resize(len, 0.0);
    buffer
}
