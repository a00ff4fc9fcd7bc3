//! Keys and values of one sequence (or of one shared prompt), in blocks that are taken from and returned to a pool.
//!
//! ```text
//! block = 64 positions:  keys   [layer][kv head][head dim][position]    scores of 16 positions are one register
//!                        values [layer][kv head][position][head dim]    a weighted sum adds whole rows
//! ```

use crate::ModelConfig;

/// Positions in a block.
pub(crate) const BLOCK: usize = 64;

/// How a block is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheShape {
    layers: usize,
    /// Key and value heads.
    pub(crate) heads: usize,
    /// Width of a head.
    pub(crate) head_dim: usize,
}

impl CacheShape {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        Self {
            layers: config.num_hidden_layers,
            heads: config.num_key_value_heads,
            head_dim: config.head_dim,
        }
    }

    /// Blocks of a single layer, which is layer 0.
    pub(crate) fn of_one_layer(config: &ModelConfig) -> Self {
        Self { layers: 1, ..Self::new(config) }
    }

    /// `[head_dim][BLOCK]` keys of one layer and head.
    #[inline(always)]
    pub(crate) fn keys<'b>(&self, block: &'b [f32], layer: usize, head: usize) -> &'b [f32] {
        let size = self.head_dim * BLOCK;
        &block[(layer * self.heads + head) * size..][..size]
    }

    /// `[BLOCK][head_dim]` values of one layer and head.
    #[inline(always)]
    pub(crate) fn values<'b>(&self, block: &'b [f32], layer: usize, head: usize) -> &'b [f32] {
        let size = self.head_dim * BLOCK;
        &block[((self.layers + layer) * self.heads + head) * size..][..size]
    }

    fn block_len(&self) -> usize {
        2 * self.layers * self.heads * self.head_dim * BLOCK
    }
}

/// Keys and values of consecutive positions; how many are complete, the owner knows.
#[derive(Debug, Default)]
pub(crate) struct KvCache {
    blocks: Vec<Box<[f32]>>,
}

impl KvCache {
    /// Makes room for `count` positions after the first `cached`.
    pub(crate) fn reserve(&mut self, cached: usize, count: usize, pool: &mut BlockPool) {
        while self.blocks.len() * BLOCK < cached + count {
            self.blocks.push(pool.take());
        }
    }

    /// Writes `[heads * head_dim]` keys and values at `position`, for which room was reserved.
    pub(crate) fn write(
        &mut self,
        shape: &CacheShape,
        layer: usize,
        position: usize,
        keys: &[f32],
        values: &[f32],
    ) {
        let block = &mut self.blocks[position / BLOCK];
        let at = position % BLOCK;
        let (dim, size) = (shape.head_dim, shape.head_dim * BLOCK);
        let (all_keys, all_values) = block.split_at_mut(shape.layers * shape.heads * size);
        for head in 0..shape.heads {
            let start = (layer * shape.heads + head) * size;
            let slots = all_keys[start + at..start + size].iter_mut().step_by(BLOCK);
            for (slot, key) in slots.zip(&keys[head * dim..]) {
                *slot = *key;
            }
            all_values[start + at * dim..][..dim].copy_from_slice(&values[head * dim..][..dim]);
        }
    }

    /// The first `positions` positions, block by block: the block and how many of its positions count.
    #[inline(always)]
    pub(crate) fn blocks(&self, positions: usize) -> impl Iterator<Item = (&[f32], usize)> {
        self.blocks.iter().enumerate().map_while(move |(index, block)| {
            match positions.saturating_sub(index * BLOCK) {
                0 => None,
                left => Some((&**block, left.min(BLOCK))),
            }
        })
    }
}

/// Blocks that no sequence holds now.
#[derive(Debug, Default)]
pub(crate) struct BlockPool {
    block_len: usize,
    free: Vec<Box<[f32]>>,
}

impl BlockPool {
    pub(crate) fn new(shape: &CacheShape) -> Self {
        Self { block_len: shape.block_len(), free: Vec::new() }
    }

    /// Makes it give blocks of this shape, before it gave any.
    pub(crate) fn shape(&mut self, shape: &CacheShape) {
        self.block_len = shape.block_len();
    }

    /// Takes back the blocks of a cache; what is in them is overwritten before it is read.
    pub(crate) fn give_back(&mut self, cache: KvCache) {
        self.free.extend(cache.blocks);
    }

    fn take(&mut self) -> Box<[f32]> {
        self.free.pop().unwrap_or_else(|| vec![0.0; self.block_len].into_boxed_slice())
    }
}
