//! Attention of long sequences over shared prefixes: libtorch's fused kernel, which keeps no scores.
//!
//! It wants the keys of a sequence in one piece, so each prefix's keys are copied for each of its sequences. That pays
//! from about 16 tokens a sequence on; below, [`shared_attention`](crate::shared_attention) copies less.
//!
//! Shapes: G groups of M sequences of L tokens, C prefix tokens, K key/value heads, A query heads, D head width.

use tch::Tensor;

use crate::Result;
use crate::batch::SequenceBucket;
use crate::decoder::Heads;
use crate::shared_attention::{pad, unpad};

/// Longest sequence that is better off without this kernel. At 15 tokens over 17 and 64 of prefix both take the same
/// time forward and backward, at 31 this one takes 0.8, at 63 it takes 0.64 (one thread, 5 M and 0.5 M models).
pub(crate) const SHORT: usize = 16;

/// Sequences over their prefix and themselves; `mask [G, 1, L, C + L]` is added to the scores. To `[rows, A*D]`.
pub(crate) fn attention(
    bucket: &SequenceBucket,
    mask: &Tensor,
    prefix: &Heads,
    own: &Heads,
) -> Result<Tensor> {
    let &SequenceBucket { groups, members, length, context, .. } = bucket;
    let [_, queries, width] = own.q.size()[..] else { unreachable!("heads are [T, A, D]") };
    let keys = own.k.size()[1];
    let own_rectangle = |x: &Tensor, heads: i64| {
        let x = pad(&bucket.rows, x)?.f_view([groups, members, length, heads, width])?;
        Ok::<_, crate::Error>(x.f_transpose(2, 3)?)
    };
    // members stand beside heads, so that one mask a group serves them all
    let whole = |prefix: &Tensor, own: &Tensor| {
        let prefix = prefix.f_index_select(0, &bucket.prefix_rows)?;
        let prefix = prefix.f_view([groups, 1, context, keys, width])?.f_transpose(2, 3)?;
        let prefix = prefix.f_expand([groups, members, keys, context, width], false)?;
        let both = Tensor::f_cat(&[prefix, own_rectangle(own, keys)?], 3)?;
        Ok::<_, crate::Error>(both.f_view([groups, members * keys, context + length, width])?)
    };
    let q = own_rectangle(&own.q, queries)?.f_reshape([groups, members * queries, length, width])?;
    let (k, v) = (whole(&prefix.k, &own.k)?, whole(&prefix.v, &own.v)?);
    let output =
        Tensor::f_scaled_dot_product_attention(&q, &k, &v, Some(mask), 0.0, false, 1.0, keys != queries)?;
    let output = output.f_view([groups, members, queries, length, width])?.f_transpose(2, 3)?;
    unpad(&bucket.rows, &output.f_reshape([groups * members * length, queries * width])?)
}
