//! Attention of sequences over shared prefixes, in two parts that never repeat a prefix's keys.
//!
//! Prefixes attend to themselves. A sequence's tokens attend to their prefix and to themselves: scores against the
//! prefix are one product for all sequences of a group, scores against their own tokens one for each, and a single
//! softmax runs over both. Long sequences go to [`fused_attention`] instead.
//!
//! Shapes: P prefixes, G groups of M sequences of L tokens, C prefix tokens, K key/value heads, R query heads a
//! key head, A = K*R, D head width.

use tch::{Kind, Tensor};

use crate::batch::{Pad, PrefixBucket, SequenceBucket, SharedPrefixBatch};
use crate::decoder::{Attention, Heads};
use crate::{Result, fused_attention};

/// A batch as the decoder's attention.
pub(crate) struct SharedAttention<'a>(pub(crate) &'a SharedPrefixBatch);

impl Attention for SharedAttention<'_> {
    fn needed(&self) -> Option<&Tensor> {
        Some(&self.0.needed)
    }

    fn every_row(&self, heads: &Heads) -> Result<Tensor> {
        let Parts { prefix, own } = self.parts(heads, self.0.prefix_rows)?;
        let mut outputs = Vec::new();
        for bucket in &self.0.prefix_buckets {
            outputs.push(prefix_attention(bucket, &prefix)?);
        }
        self.sequences(&prefix, &own, outputs)
    }

    fn needed_rows(&self, heads: &Heads) -> Result<Tensor> {
        let prefixes = self.0.prefix_buckets.iter().map(|bucket| bucket.count).sum();
        let Parts { prefix, own } = self.parts(heads, prefixes)?;
        let mut outputs = Vec::new();
        let mut first = 0;
        for bucket in &self.0.prefix_buckets {
            let q = prefix.q.f_narrow(0, first, bucket.count)?;
            outputs.push(last_token_attention(bucket, &q, &prefix)?);
            first += bucket.count;
        }
        self.sequences(&prefix, &own, outputs)
    }
}

/// The heads of prefix rows and of sequence rows.
struct Parts {
    prefix: Heads,
    own: Heads,
}

impl SharedAttention<'_> {
    /// Splits rows into those of prefixes and those of sequences; of `q`, the first `prefix_queries` are the former.
    fn parts(&self, heads: &Heads, prefix_queries: i64) -> Result<Parts> {
        let [prefix_q, own_q] = split(&heads.q, prefix_queries)?;
        let [prefix_k, own_k] = split(&heads.k, self.0.prefix_rows)?;
        let [prefix_v, own_v] = split(&heads.v, self.0.prefix_rows)?;
        Ok(Parts {
            prefix: Heads { q: prefix_q, k: prefix_k, v: prefix_v },
            own: Heads { q: own_q, k: own_k, v: own_v },
        })
    }

    fn sequences(&self, prefix: &Heads, own: &Heads, mut outputs: Vec<Tensor>) -> Result<Tensor> {
        for bucket in &self.0.sequence_buckets {
            outputs.push(match &bucket.mask {
                Some(mask) => fused_attention::attention(bucket, mask, prefix, own)?,
                None => sequence_attention(bucket, prefix, own)?,
            });
        }
        Ok(Tensor::f_cat(&outputs, 0)?)
    }
}

/// Causal self-attention of whole prefixes; right padding is invisible to a causal query. To `[rows, A*D]`.
fn prefix_attention(bucket: &PrefixBucket, prefix: &Heads) -> Result<Tensor> {
    let rectangle = |x: &Tensor| {
        let padded = pad(&bucket.rows, x)?.f_unflatten(0, [bucket.count, bucket.length])?;
        Ok::<_, crate::Error>(padded.f_transpose(1, 2)?)
    };
    let (q, k, v) = (rectangle(&prefix.q)?, rectangle(&prefix.k)?, rectangle(&prefix.v)?);
    let grouped = q.size()[1] != k.size()[1];
    let output =
        Tensor::f_scaled_dot_product_attention::<&Tensor>(&q, &k, &v, None, 0.0, true, 1.0, grouped)?;
    unpad(&bucket.rows, &output.f_transpose(1, 2)?.f_flatten(0, 1)?.f_flatten(1, 2)?)
}

/// The last token of each prefix over its whole prefix. `q [P, A, D]` to `[P, A*D]`.
fn last_token_attention(bucket: &PrefixBucket, q: &Tensor, prefix: &Heads) -> Result<Tensor> {
    let rectangle = |x: &Tensor| {
        pad(&bucket.rows, x)?.f_unflatten(0, [bucket.count, bucket.length]).map_err(crate::Error::from)
    };
    let k = rectangle(&prefix.k)?.f_permute([0, 2, 3, 1])?;
    let v = rectangle(&prefix.v)?.f_permute([0, 2, 1, 3])?;
    let q = q.f_unflatten(1, [k.size()[1], -1])?; // [P, K, R, D]
    let scores = q.f_matmul(&k)?.f_masked_fill(&bucket.beyond.f_unsqueeze(1)?, f64::NEG_INFINITY)?;
    Ok(scores.f_softmax(-1, None::<Kind>)?.f_matmul(&v)?.f_flatten(1, 3)?)
}

/// Sequences over their prefix and themselves. To `[rows, A*D]`.
fn sequence_attention(bucket: &SequenceBucket, prefix: &Heads, own: &Heads) -> Result<Tensor> {
    let &SequenceBucket { groups, members, length, context, .. } = bucket;
    let (keys, width) = (own.k.size()[1], own.k.size()[2]);
    let repeat = own.q.size()[1] / keys;

    // [G, K, M, R, L, D]: one copy, of which both products are views
    let q = pad(&bucket.rows, &own.q)?
        .f_view([groups, members, length, keys, repeat, width])?
        .f_permute([0, 3, 1, 4, 2, 5])?
        .f_contiguous()?;
    let own_rectangle = |x: &Tensor| {
        let x = pad(&bucket.rows, x)?.f_view([groups, members, length, keys, width])?;
        Ok::<_, crate::Error>(x.f_permute([0, 3, 1, 2, 4])?.f_reshape([
            groups * keys * members,
            length,
            width,
        ])?)
    };
    let prefix_rectangle = |x: &Tensor| {
        let x = x.f_index_select(0, &bucket.prefix_rows)?.f_view([groups, context, keys, width])?;
        Ok::<_, crate::Error>(x.f_transpose(1, 2)?.f_reshape([groups * keys, context, width])?)
    };
    let over_prefix = q.f_view([groups * keys, members * repeat * length, width])?;
    let over_own = q.f_view([groups * keys * members, repeat * length, width])?;

    let prefix_scores = over_prefix.f_bmm(&prefix_rectangle(&prefix.k)?.f_transpose(1, 2)?)?;
    let own_scores = over_own.f_bmm(&own_rectangle(&own.k)?.f_transpose(1, 2)?)?;
    let cells = |last: i64| [groups, keys, members, repeat, length, last];
    let both = [prefix_scores.f_view(cells(context))?, own_scores.f_view(cells(length))?];
    let mut scores = Tensor::f_cat(&both, -1)?;
    let _ = scores.f_masked_fill_(&bucket.hidden, f64::NEG_INFINITY)?;
    let chances = scores.f_softmax(-1, None::<Kind>)?.f_split_with_sizes([context, length], -1)?;
    let from_prefix = chances[0]
        .f_reshape([groups * keys, members * repeat * length, context])?
        .f_bmm(&prefix_rectangle(&prefix.v)?)?;
    let from_own = chances[1]
        .f_reshape([groups * keys * members, repeat * length, length])?
        .f_bmm(&own_rectangle(&own.v)?)?;
    let output = from_prefix.f_view(cells(width))?.f_add(&from_own.f_view(cells(width))?)?;
    let output = output
        .f_permute([0, 2, 4, 1, 3, 5])?
        .f_reshape([groups * members * length, keys * repeat * width])?;
    unpad(&bucket.rows, &output)
}

/// Packed rows `[rows, ..]` of this bucket as the cells of its rectangle `[cells, ..]`.
pub(crate) fn pad(rows: &Pad, x: &Tensor) -> Result<Tensor> {
    let whole = rows.packed.start == 0 && rows.packed.end == x.size()[0];
    let x = if whole {
        x.shallow_clone()
    } else {
        x.f_narrow(0, rows.packed.start, rows.packed.end - rows.packed.start)?
    };
    Ok(match &rows.moves {
        None => x,
        Some((into, _)) => x.f_index_select(0, into)?,
    })
}

/// Cells back to packed rows.
pub(crate) fn unpad(rows: &Pad, cells: &Tensor) -> Result<Tensor> {
    Ok(match &rows.moves {
        None => cells.shallow_clone(),
        Some((_, back)) => cells.f_index_select(0, back)?,
    })
}

fn split(x: &Tensor, first: i64) -> Result<[Tensor; 2]> {
    let mut parts = x.f_split_with_sizes([first, x.size()[0] - first], 0)?;
    match (parts.pop(), parts.pop()) {
        (Some(rest), Some(first)) => Ok([first, rest]),
        _ => unreachable!("split into two sizes"),
    }
}
