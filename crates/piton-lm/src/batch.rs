//! Sequences that share prefixes, laid out so that each prefix is computed once.
//!
//! ```text
//! prefixes      p0 p0 p0 | p1 p1 | ..          sequences    (p0: a a a) (p0: b) (p1: c c) ..
//! packed rows   p0 p0 p0  p1 p1  a a  c ..     the last token of a sequence is predicted, never read
//! output rows   ^ last of p0, then the rows of a: predict a a a; last of p0: predicts b; ..
//! ```
//!
//! Linear layers and norms run on the packed rows, without padding. Attention runs on buckets of similar
//! lengths, each padded to its own rectangle; a row that is already in place is not moved.

use std::collections::BTreeMap;
use std::ops::Range;

use tch::{Device, Tensor};

use crate::fused_attention::SHORT;
use crate::{Error, ModelConfig, Result};

/// Prefixes and the token sequences that continue them, ready for [`CausalLm::token_logits`](crate::CausalLm::token_logits).
#[derive(Debug)]
pub struct SharedPrefixBatch {
    /// `[T]` token ids of the packed rows.
    pub(crate) ids: Tensor,
    /// `[T]` position of each packed row in its sequence.
    pub(crate) positions: Tensor,
    /// Number of packed rows that belong to prefixes; the rest belong to sequences.
    pub(crate) prefix_rows: i64,
    /// `[P + T - prefix_rows]` the rows whose output is read: the last of each prefix, then all of the sequences.
    pub(crate) needed: Tensor,
    /// `[N]` where each predicted token's row lies among `needed`.
    pub(crate) outputs: Tensor,
    /// Prefixes of similar length.
    pub(crate) prefix_buckets: Vec<PrefixBucket>,
    /// Groups of sequences of similar length and number.
    pub(crate) sequence_buckets: Vec<SequenceBucket>,
    num_targets: usize,
    longest: usize,
    largest_id: u32,
}

/// P' prefixes padded to L tokens.
#[derive(Debug)]
pub(crate) struct PrefixBucket {
    pub(crate) count: i64,
    pub(crate) length: i64,
    /// Which prefix rows fill the rectangle.
    pub(crate) rows: Pad,
    /// `[P', 1, L]`: true where a key is padding.
    pub(crate) beyond: Tensor,
}

/// G groups of M sequences of L tokens each, over prefixes padded to C tokens.
#[derive(Debug)]
pub(crate) struct SequenceBucket {
    pub(crate) groups: i64,
    pub(crate) members: i64,
    pub(crate) length: i64,
    pub(crate) context: i64,
    /// Which sequence rows fill the rectangle `[G, M, L]`.
    pub(crate) rows: Pad,
    /// `[G*C]` rows of the prefixes.
    pub(crate) prefix_rows: Tensor,
    /// `[G, 1, 1, 1, L, C + L]`: true where a token must not look.
    pub(crate) hidden: Tensor,
    /// `[G, 1, L, C + L]`: minus infinity where `hidden`, else 0; present where sequences are long.
    pub(crate) mask: Option<Tensor>,
}

/// How a run of packed rows becomes a padded rectangle and returns.
#[derive(Debug)]
pub(crate) struct Pad {
    /// The packed rows of this bucket.
    pub(crate) packed: Range<i64>,
    /// `(into, back)`: rows of `packed` for each cell of the rectangle (padding takes row 0), and the cell of
    /// each packed row. `None` when the rectangle is full and in order.
    pub(crate) moves: Option<(Tensor, Tensor)>,
}

impl SharedPrefixBatch {
    /// Lays out `sequences`, each a prefix's index and the tokens after it.
    ///
    /// A sequence without tokens predicts nothing and is allowed; a prefix without sequences is computed in vain.
    ///
    /// # Errors
    /// When there is no token to predict, a prefix is empty, or an index is out of range: the first such is named.
    pub fn new(prefixes: &[&[u32]], sequences: &[(usize, &[u32])], device: Device) -> Result<Self> {
        check(prefixes, sequences)?;
        let mut packed = Packed::default();
        let mut last_row = vec![0; prefixes.len()];
        let mut first_row = vec![0; prefixes.len()];
        let mut prefix_buckets = Vec::new();
        // the order of prefixes among the needed rows, and each one's place in it
        let mut needed = Vec::new();
        let mut place = vec![0; prefixes.len()];
        for bucket in prefix_plan(prefixes) {
            let start = packed.rows();
            let mut cells = Cells::new(bucket.len(), longest(bucket.iter().map(|&index| prefixes[index])));
            for (slot, &index) in bucket.iter().enumerate() {
                first_row[index] = packed.rows();
                cells.fill(slot, prefixes[index].len());
                packed.push(prefixes[index], 0);
                last_row[index] = packed.rows() - 1;
                place[index] = int(needed.len());
                needed.push(last_row[index]);
            }
            let lengths: Vec<i64> = bucket.iter().map(|&index| int(prefixes[index].len())).collect();
            prefix_buckets.push(PrefixBucket {
                count: int(bucket.len()),
                length: int(cells.length),
                beyond: beyond(&lengths, cells.length, device)?,
                rows: cells.pad(start..packed.rows(), device)?,
            });
        }
        let prefix_rows = packed.rows();

        let mut sequence_start = vec![0; sequences.len()];
        let mut sequence_buckets = Vec::new();
        for bucket in sequence_plan(sequences) {
            let start = packed.rows();
            let members = bucket.iter().map(|(_, members)| members.len()).max().unwrap_or(0);
            let inputs = |index: usize| &sequences[index].1[..sequences[index].1.len() - 1];
            let length = longest(bucket.iter().flat_map(|(_, members)| members).map(|&index| inputs(index)));
            let context = longest(bucket.iter().map(|&(prefix, _)| prefixes[prefix]));
            let mut cells = Cells::new(bucket.len() * members, length);
            let mut context_rows = Vec::with_capacity(bucket.len() * context);
            for (slot, (prefix, indices)) in bucket.iter().enumerate() {
                let rows = first_row[*prefix]..=last_row[*prefix];
                context_rows.extend(rows.chain(std::iter::repeat(0)).take(context));
                for (member, &index) in indices.iter().enumerate() {
                    sequence_start[index] = packed.rows();
                    cells.fill(slot * members + member, inputs(index).len());
                    packed.push(inputs(index), int(prefixes[*prefix].len()));
                }
            }
            let lengths: Vec<i64> = bucket.iter().map(|&(prefix, _)| int(prefixes[prefix].len())).collect();
            let hidden = hidden(&lengths, context, length, device)?;
            let mask = (length > SHORT).then(|| mask(&hidden)).transpose()?;
            sequence_buckets.push(SequenceBucket {
                groups: int(bucket.len()),
                members: int(members),
                length: int(length),
                context: int(context),
                prefix_rows: tensor(&context_rows, device)?,
                hidden,
                mask,
                rows: cells.pad(start - prefix_rows..packed.rows() - prefix_rows, device)?,
            });
        }
        needed.extend(prefix_rows..packed.rows());

        let mut outputs = Vec::new();
        for (index, (prefix, tokens)) in sequences.iter().enumerate() {
            let start = sequence_start[index] - prefix_rows + int(prefixes.len());
            let inner = int(tokens.len()) - 1;
            outputs.extend((!tokens.is_empty()).then_some(place[*prefix]));
            outputs.extend((0..inner).map(|offset| start + offset));
        }
        Ok(Self {
            ids: tensor(&packed.ids, device)?,
            positions: tensor(&packed.positions, device)?,
            prefix_rows,
            needed: tensor(&needed, device)?,
            num_targets: outputs.len(),
            outputs: tensor(&outputs, device)?,
            prefix_buckets,
            sequence_buckets,
            longest: sequences
                .iter()
                .map(|(prefix, tokens)| prefixes[*prefix].len() + tokens.len())
                .max()
                .unwrap_or(0),
            largest_id: prefixes
                .iter()
                .copied()
                .chain(sequences.iter().map(|(_, tokens)| *tokens))
                .flatten()
                .copied()
                .max()
                .unwrap_or(0),
        })
    }

    /// N: number of predicted tokens, the sum of the sequences' lengths.
    pub fn num_targets(&self) -> usize {
        self.num_targets
    }

    /// Number of rows that the linear layers work on.
    pub fn num_rows(&self) -> usize {
        self.ids.numel()
    }

    /// Whether a model of this configuration can run it.
    pub(crate) fn check(&self, config: &ModelConfig) -> Result<()> {
        if self.longest > config.max_position_embeddings {
            return Err(Error::Input(format!(
                "a sequence has {} tokens with its prefix, the model's max_position_embeddings is {}",
                self.longest, config.max_position_embeddings
            )));
        }
        if self.largest_id as usize >= config.vocab_size {
            return Err(Error::Input(format!(
                "token id {} has no row: the model's vocab_size is {}",
                self.largest_id, config.vocab_size
            )));
        }
        Ok(())
    }
}

fn check(prefixes: &[&[u32]], sequences: &[(usize, &[u32])]) -> Result<()> {
    if let Some(index) = prefixes.iter().position(|prefix| prefix.is_empty()) {
        return Err(Error::Input(format!(
            "prefix {index} is empty: the first token needs something to follow"
        )));
    }
    if let Some((index, (prefix, _))) =
        sequences.iter().enumerate().find(|(_, (prefix, _))| *prefix >= prefixes.len())
    {
        return Err(Error::Input(format!(
            "sequence {index} names prefix {prefix}, but there are {}",
            prefixes.len()
        )));
    }
    if sequences.iter().all(|(_, tokens)| tokens.is_empty()) {
        return Err(Error::Input("no sequence holds a token to predict".to_owned()));
    }
    Ok(())
}

/// Prefixes by length class, shortest first: padding less than doubles a bucket.
fn prefix_plan(prefixes: &[&[u32]]) -> Vec<Vec<usize>> {
    let mut classes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, prefix) in prefixes.iter().enumerate() {
        classes.entry(prefix.len().next_power_of_two().max(32)).or_default().push(index);
    }
    classes.into_values().collect()
}

/// One bucket: each group's prefix and its sequences.
type Groups = Vec<(usize, Vec<usize>)>;

/// Sequences that have an input, by length class and then by prefix; a bucket's groups differ less than twofold in number.
fn sequence_plan(sequences: &[(usize, &[u32])]) -> Vec<Groups> {
    let mut classes: BTreeMap<usize, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    for (index, (prefix, tokens)) in sequences.iter().enumerate().filter(|(_, (_, tokens))| tokens.len() > 1)
    {
        let class = (tokens.len() - 1).next_power_of_two().max(16);
        classes.entry(class).or_default().entry(*prefix).or_default().push(index);
    }
    let mut buckets: Vec<Groups> = Vec::new();
    for groups in classes.into_values() {
        let mut groups: Groups = groups.into_iter().collect();
        groups.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
        let mut bucket: Groups = Vec::new();
        for group in groups {
            if bucket.first().is_some_and(|(_, largest)| group.1.len() * 2 <= largest.len()) {
                buckets.push(std::mem::take(&mut bucket));
            }
            bucket.push(group);
        }
        buckets.push(bucket);
    }
    buckets
}

#[derive(Default)]
struct Packed {
    ids: Vec<i64>,
    positions: Vec<i64>,
}

impl Packed {
    fn rows(&self) -> i64 {
        int(self.ids.len())
    }

    fn push(&mut self, tokens: &[u32], first_position: i64) {
        self.ids.extend(tokens.iter().map(|&id| i64::from(id)));
        self.positions.extend(first_position..first_position + int(tokens.len()));
    }
}

/// A rectangle being filled with consecutive packed rows.
struct Cells {
    length: usize,
    into: Vec<i64>,
    back: Vec<i64>,
}

impl Cells {
    fn new(lines: usize, length: usize) -> Self {
        Self { length, into: vec![0; lines * length], back: Vec::new() }
    }

    /// The next `count` packed rows go to the start of `line`.
    fn fill(&mut self, line: usize, count: usize) {
        for cell in line * self.length..line * self.length + count {
            self.into[cell] = int(self.back.len());
            self.back.push(int(cell));
        }
    }

    fn pad(self, packed: Range<i64>, device: Device) -> Result<Pad> {
        let full = self.back.len() == self.into.len();
        let moves =
            if full { None } else { Some((tensor(&self.into, device)?, tensor(&self.back, device)?)) };
        Ok(Pad { packed, moves })
    }
}

/// `[P, 1, L]`: true for keys at or beyond each length.
fn beyond(lengths: &[i64], longest: usize, device: Device) -> Result<Tensor> {
    let keys = Tensor::f_arange(int(longest), (tch::Kind::Int64, device))?;
    Ok(keys.f_ge_tensor(&tensor(lengths, device)?.f_view([-1, 1, 1])?)?)
}

/// `[G, 1, 1, 1, L, C + L]`: true for padding of the prefix and for later tokens of the own sequence.
fn hidden(lengths: &[i64], context: usize, length: usize, device: Device) -> Result<Tensor> {
    let (groups, context, length) = (int(lengths.len()), int(context), int(length));
    let keys = Tensor::f_arange(context, (tch::Kind::Int64, device))?;
    let prefix = keys.f_ge_tensor(&tensor(lengths, device)?.f_view([-1, 1, 1, 1, 1, 1])?)?;
    let own = Tensor::f_ones([length, length], (tch::Kind::Bool, device))?.f_triu(1)?;
    let parts = [
        prefix.f_expand([groups, 1, 1, 1, length, context], false)?,
        own.f_expand([groups, 1, 1, 1, length, length], false)?,
    ];
    Ok(Tensor::f_cat(&parts, -1)?)
}

/// `hidden [G, 1, 1, 1, L, C + L]` as what is added to scores: `[G, 1, L, C + L]`.
fn mask(hidden: &Tensor) -> Result<Tensor> {
    let hidden = hidden.f_squeeze_dims([1, 2])?;
    let zeros = hidden.f_zeros_like()?.f_to_kind(tch::Kind::Float)?;
    Ok(zeros.f_masked_fill(&hidden, f64::NEG_INFINITY)?)
}

fn longest<'a>(tokens: impl Iterator<Item = &'a [u32]>) -> usize {
    tokens.map(<[u32]>::len).max().unwrap_or(0)
}

fn tensor(values: &[i64], device: Device) -> Result<Tensor> {
    Ok(Tensor::f_from_slice(values)?.f_to_device(device)?)
}

fn int(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
