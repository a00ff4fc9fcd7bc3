//! Back through the attention of a chunk.
//!
//! For each group and key head, with the rows of all its query heads below each other: scores and weights once more,
//! then everything is a matrix product. n query rows, P prefix rows, L rows of a continuation.
//!
//! ```text
//! columns      0 .. P            P .. P + L             rows of a prefix use the first part only, and only up to
//! keys         prefix            own continuation       themselves; a continuation's also the second
//! ```

use std::ops::Range;

use super::layout::{Chunk, Group};
use super::tape::Shape;
use crate::cpu::gradients::{scale, softmax_back};
use crate::cpu::kernels::softmax_in_place;
use crate::cpu::product::{Out, Panels, Rows, multiply, pack, pack_transposed, transpose};
use crate::cpu::sized;

/// Buffers kept between chunks.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// `[n, D]` queries of one key head.
    queries: Vec<f32>,
    /// `[n, D]` gradient of what they attended to.
    d_out: Vec<f32>,
    /// `[n, D]` gradient of the queries.
    d_queries: Vec<f32>,
    /// `[n, columns]` weights of attention, zero where a row does not look.
    weights: Vec<f32>,
    /// `[n, columns]` gradient of the weights, then of the scores.
    d_scores: Vec<f32>,
    panels: Vec<f32>,
    transposed: Vec<f32>,
    sum: Vec<f32>,
}

/// Query rows of one segment: a prefix or a continuation.
struct Segment {
    /// Its keys and values, as rows of the chunk.
    rows: Range<usize>,
    /// Its query rows among the `n`.
    queries: Range<usize>,
    is_prefix: bool,
}

/// Writes the gradient of `turned` (`[R, queries + 2 keys]`) from that of what was attended to, `[A, queries]`.
///
/// `last` says that only needed rows had queries.
pub(super) fn attention_back(
    shape: &Shape,
    chunk: &Chunk,
    last: bool,
    turned: &[f32],
    d_attended: &[f32],
    d_turned: &mut Vec<f32>,
    scratch: &mut Scratch,
) {
    d_turned.clear();
    d_turned.resize(turned.len(), 0.0);
    let mut first_active = 0;
    for group in &chunk.groups {
        let skipped = if last { group.prefix.len() - 1 } else { 0 };
        let end = group.continuations.last().unwrap_or(&group.prefix).end;
        let active: Range<usize> = group.prefix.start + skipped..end;
        for head in 0..shape.keys / shape.head_dim {
            let view = Head { shape, turned, head, active: active.clone(), first_active };
            view.back(group, d_attended, d_turned, scratch);
        }
        first_active += active.len();
    }
}

/// One key head of one group.
struct Head<'a> {
    shape: &'a Shape,
    turned: &'a [f32],
    head: usize,
    /// Rows of the chunk that have queries.
    active: Range<usize>,
    /// Row of `d_attended` that belongs to the first of them.
    first_active: usize,
}

impl Head<'_> {
    fn back(&self, group: &Group, d_attended: &[f32], d_turned: &mut [f32], s: &mut Scratch) {
        let dim = self.shape.head_dim;
        let segments = self.segments(group);
        let prefix = group.prefix.len();
        let columns = prefix + group.continuations.iter().map(Range::len).max().unwrap_or(0);
        let count = segments.last().map_or(0, |segment| segment.queries.end);
        self.gather(&segments, d_attended, s);
        sized(&mut s.d_queries, count * dim);
        s.weights.clear();
        s.weights.resize(count * columns, 0.0);
        s.d_scores.clear();
        s.d_scores.resize(count * columns, 0.0);

        // the prefix serves all rows; each continuation only its own
        for (keys, queries, first) in parts(&segments, prefix) {
            let stride = columns;
            let from = queries.start * columns + first;
            let mut product = |values: bool, rows: &[f32], out: &mut [f32]| {
                pack_transposed(self.rows(&keys, values), dim, &mut s.panels);
                let panels = Panels { data: &s.panels, inputs: dim, outputs: keys.len() };
                let rows = Rows::dense(&rows[queries.start * dim..queries.end * dim], dim);
                multiply(panels, rows, Out { data: &mut out[from..], stride, add: false });
            };
            product(false, &s.queries, &mut s.weights);
            product(true, &s.d_out, &mut s.d_scores);
        }
        self.weigh(&segments, prefix, columns, s);
        let mut started = false;
        for (keys, queries, first) in parts(&segments, prefix) {
            let stride = columns;
            let scores = &s.d_scores[queries.start * columns + first..];
            pack(self.rows(&keys, false), dim, &mut s.panels);
            let panels = Panels { data: &s.panels, inputs: keys.len(), outputs: dim };
            let out = Out { data: &mut s.d_queries[queries.start * dim..], stride: dim, add: started };
            multiply(panels, Rows { data: scores, stride, count: queries.len() }, out);
            started = true;
            for (matrix, rows, values) in [(&s.d_scores, &s.queries, false), (&s.weights, &s.d_out, true)] {
                let matrix =
                    Rows { data: &matrix[queries.start * columns + first..], stride, count: queries.len() };
                transpose(matrix, keys.len(), &mut s.transposed);
                pack(Rows::dense(&rows[queries.start * dim..queries.end * dim], dim), dim, &mut s.panels);
                let panels = Panels { data: &s.panels, inputs: queries.len(), outputs: dim };
                let sum = sized(&mut s.sum, keys.len() * dim);
                multiply(panels, Rows::dense(&s.transposed, queries.len()), Out::dense(sum, dim));
                let offset = self.offset(values);
                for (row, sum) in keys.clone().zip(sum.chunks_exact(dim)) {
                    d_turned[row * self.shape.width() + offset..][..dim].copy_from_slice(sum);
                }
            }
        }
        self.scatter(&segments, s, d_turned);
    }

    /// Query rows by segment, and within it by query head and then by row.
    fn segments(&self, group: &Group) -> Vec<Segment> {
        let heads = self.shape.queries / self.shape.keys;
        let mut segments = Vec::with_capacity(1 + group.continuations.len());
        let mut first = 0;
        for (index, rows) in std::iter::once(&group.prefix).chain(&group.continuations).enumerate() {
            let start = rows.start.max(self.active.start);
            let count = (rows.end - start) * heads;
            segments.push(Segment {
                rows: rows.clone(),
                queries: first..first + count,
                is_prefix: index == 0,
            });
            first += count;
        }
        segments
    }

    /// Calls `take` with each query row's index among the `n`, its row in the chunk and the column of its query head.
    fn each_query(&self, segments: &[Segment], mut take: impl FnMut(usize, usize, usize)) {
        let dim = self.shape.head_dim;
        let heads = self.shape.queries / self.shape.keys;
        for segment in segments {
            let rows = segment.rows.start.max(self.active.start)..segment.rows.end;
            for head in 0..heads {
                let column = (self.head * heads + head) * dim;
                for (at, row) in rows.clone().enumerate() {
                    take(segment.queries.start + head * rows.len() + at, row, column);
                }
            }
        }
    }

    fn gather(&self, segments: &[Segment], d_attended: &[f32], s: &mut Scratch) {
        let dim = self.shape.head_dim;
        let count = segments.last().map_or(0, |segment| segment.queries.end);
        let (queries, d_out) = (sized(&mut s.queries, count * dim), sized(&mut s.d_out, count * dim));
        self.each_query(segments, |index, row, column| {
            let query = &self.turned[row * self.shape.width() + column..][..dim];
            queries[index * dim..][..dim].copy_from_slice(query);
            let active = self.first_active + row - self.active.start;
            let d = &d_attended[active * self.shape.queries + column..][..dim];
            d_out[index * dim..][..dim].copy_from_slice(d);
        });
    }

    /// Scores become weights, and the weights' gradients those of the scores.
    fn weigh(&self, segments: &[Segment], prefix: usize, columns: usize, s: &mut Scratch) {
        let factor = 1.0 / (self.shape.head_dim as f32).sqrt();
        self.each_query(segments, |index, row, _| {
            let segment = segments.iter().find(|segment| segment.rows.contains(&row));
            let seen = segment.map_or(0, |segment| {
                row - segment.rows.start + 1 + if segment.is_prefix { 0 } else { prefix }
            });
            let (seen_weights, unseen) = s.weights[index * columns..][..columns].split_at_mut(seen);
            let total = softmax_in_place(seen_weights, factor);
            scale(seen_weights, 1.0 / total);
            unseen.fill(0.0);
            let (d_seen, d_unseen) = s.d_scores[index * columns..][..columns].split_at_mut(seen);
            softmax_back(seen_weights, factor, d_seen);
            d_unseen.fill(0.0);
        });
    }

    fn scatter(&self, segments: &[Segment], s: &Scratch, d_turned: &mut [f32]) {
        let dim = self.shape.head_dim;
        self.each_query(segments, |index, row, column| {
            let out = &mut d_turned[row * self.shape.width() + column..][..dim];
            out.copy_from_slice(&s.d_queries[index * dim..][..dim]);
        });
    }

    /// Where this head's keys or values start in a row.
    fn offset(&self, values: bool) -> usize {
        self.shape.queries + if values { self.shape.keys } else { 0 } + self.head * self.shape.head_dim
    }

    /// Keys or values of some rows.
    fn rows(&self, rows: &Range<usize>, values: bool) -> Rows<'_> {
        let stride = self.shape.width();
        Rows { data: &self.turned[rows.start * stride + self.offset(values)..], stride, count: rows.len() }
    }
}

/// Keys, the query rows that they serve, and their first column: the prefix for all rows, then each continuation.
fn parts(segments: &[Segment], prefix: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>, usize)> {
    let all = 0..segments.last().map_or(0, |segment| segment.queries.end);
    segments.iter().map(move |segment| match segment.is_prefix {
        true => (segment.rows.clone(), all.clone(), 0),
        false => (segment.rows.clone(), segment.queries.clone(), prefix),
    })
}
