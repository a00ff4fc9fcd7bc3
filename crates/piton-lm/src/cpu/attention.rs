//! Attention of one query row over its own prefix, by one thread, in a fixed order.

use super::kernels::softmax_in_place;
use super::kv_cache::{BLOCK, CacheShape, KvCache};
use super::vectorized::vectorized;

/// A cache and how many of its positions a row may see.
pub(crate) type Seen<'a> = (&'a KvCache, usize);

/// Writes the attention of `queries` (`[query heads * head_dim]`, one row) to `out`, of the same length.
///
/// The row sees the first positions of the prompt's cache and then those of its own; where the one ends and the other
/// begins changes no bit of the scores and is the same for every batch. `scores` is scratch.
pub(crate) fn attend(
    shape: &CacheShape,
    layer: usize,
    seen: [Seen<'_>; 2],
    queries: &[f32],
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    let dim = shape.head_dim;
    let group = queries.len() / dim / shape.heads;
    let positions = seen[0].1 + seen[1].1;
    if scores.len() < positions + BLOCK {
        scores.resize(positions + BLOCK, 0.0);
    }
    let scale = 1.0 / (dim as f32).sqrt();
    for (index, (query, out)) in queries.chunks_exact(dim).zip(out.chunks_exact_mut(dim)).enumerate() {
        let head = index / group;
        score(shape, layer, head, seen, query, scores);
        let total = softmax_in_place(&mut scores[..positions], scale);
        weigh(shape, layer, head, seen, scores, 1.0 / total, out);
    }
}

vectorized! {
    /// Writes `query . key` of every seen position to `scores`.
    fn score(shape: &CacheShape, layer: usize, head: usize, seen: [Seen<'_>; 2], query: &[f32], scores: &mut [f32]) {
        let mut first = 0;
        for (cache, positions) in seen {
            for (block, used) in cache.blocks(positions) {
                let keys = shape.keys(block, layer, head);
                let scores = &mut scores[first..first + BLOCK];
                match used {
                    0..=16 => dot::<16>(query, keys, scores),
                    17..=32 => dot::<32>(query, keys, scores),
                    _ => dot::<64>(query, keys, scores),
                }
                first += used;
            }
        }
    }
}

/// Scores of the first `N` positions of a block; those past the used ones are overwritten or ignored.
#[inline(always)]
fn dot<const N: usize>(query: &[f32], keys: &[f32], scores: &mut [f32]) {
    let mut sums = [0.0_f32; N];
    for (q, keys) in query.iter().zip(keys.chunks_exact(BLOCK)) {
        for (sum, key) in sums.iter_mut().zip(&keys[..N]) {
            *sum = q.mul_add(*key, *sum);
        }
    }
    scores[..N].copy_from_slice(&sums);
}

vectorized! {
    /// Writes the weighted sum of the values, times `scale`, to `out`.
    fn weigh(
        shape: &CacheShape,
        layer: usize,
        head: usize,
        seen: [Seen<'_>; 2],
        weights: &[f32],
        scale: f32,
        out: &mut [f32],
    ) {
        let mut column = 0;
        while column + 32 <= out.len() {
            columns::<32>(shape, layer, head, seen, weights, scale, column, out);
            column += 32;
        }
        while column + 8 <= out.len() {
            columns::<8>(shape, layer, head, seen, weights, scale, column, out);
            column += 8;
        }
        while column < out.len() {
            columns::<1>(shape, layer, head, seen, weights, scale, column, out);
            column += 1;
        }
    }
}

/// `N` columns of the weighted sum: four sums over every fourth position of a block, so that additions overlap.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the arguments of `weigh` and a column")]
fn columns<const N: usize>(
    shape: &CacheShape,
    layer: usize,
    head: usize,
    seen: [Seen<'_>; 2],
    weights: &[f32],
    scale: f32,
    column: usize,
    out: &mut [f32],
) {
    let dim = shape.head_dim;
    let mut sums = [[0.0_f32; N]; 4];
    let mut first = 0;
    for (cache, positions) in seen {
        for (block, used) in cache.blocks(positions) {
            let values = shape.values(block, layer, head);
            let (fours, rest) = weights[first..first + used].as_chunks::<4>();
            for (weights, rows) in fours.iter().zip(values.chunks_exact(4 * dim)) {
                for lane in 0..4 {
                    let row = &rows[lane * dim + column..][..N];
                    for (sum, value) in sums[lane].iter_mut().zip(row) {
                        *sum = weights[lane].mul_add(*value, *sum);
                    }
                }
            }
            let done = used - rest.len();
            for (lane, weight) in rest.iter().enumerate() {
                let row = &values[(done + lane) * dim + column..][..N];
                for (sum, value) in sums[lane].iter_mut().zip(row) {
                    *sum = weight.mul_add(*value, *sum);
                }
            }
            first += used;
        }
    }
    let [a, b, c, d] = sums;
    for (i, out) in out[column..column + N].iter_mut().enumerate() {
        *out = ((a[i] + b[i]) + (c[i] + d[i])) * scale;
    }
}
