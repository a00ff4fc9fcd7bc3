//! Any device's arithmetic through libtorch: the packed rows of `decode`, attention over padded slots.
//!
//! Keys and values live in slots of equal capacity, one for each sequence or shared prompt:
//!
//! ```text
//! keys, values of a layer: [slot, kv head, capacity, head dim]
//! ```
//!
//! Responses under way attend together, padded to the longest; a prompt attends by itself. Shapes: U units, T rows of
//! each, P prompt and S own positions, A query heads, K key/value heads, D head width.

use std::cell::Cell;

use rayon::ThreadPool;
use tch::{Device, Kind, Tensor};

use super::backend::{Backend, Unit};
use crate::decoder::{Attention, Heads, decode, linear};
use crate::{ModelConfig, Result, Weights};

/// Slots are added by this many, and grow by this many positions.
const SLOTS: i64 = 16;
const POSITIONS: i64 = 64;

/// A place in the cache tensors.
#[derive(Debug)]
pub(crate) struct Slot(i64);

/// Weights and slots on a device.
#[derive(Debug)]
pub(crate) struct TorchBackend {
    config: ModelConfig,
    device: Device,
    weights: Weights,
    /// Of each layer.
    caches: Vec<LayerCache>,
    free: Vec<Slot>,
}

/// `[slot, K, capacity, D]` of one layer.
#[derive(Debug)]
struct LayerCache {
    keys: Tensor,
    values: Tensor,
}

impl TorchBackend {
    /// Copies `weights` to `device`.
    pub(crate) fn new(config: &ModelConfig, weights: &Weights, device: Device) -> Result<Self> {
        let mut tensors = weights.snapshot()?.into_tensors();
        for tensor in tensors.values_mut() {
            *tensor = tensor.f_to_device(device)?;
        }
        let weights = Weights::new(config, tensors, "weights of the engine")?;
        let empty = || -> Result<Tensor> {
            let shape = [0, dim(config.num_key_value_heads), POSITIONS, dim(config.head_dim)];
            Ok(Tensor::f_zeros(shape, (Kind::Float, device))?)
        };
        let caches = (0..config.num_hidden_layers)
            .map(|_| Ok(LayerCache { keys: empty()?, values: empty()? }))
            .collect::<Result<_>>()?;
        Ok(Self { config: config.clone(), device, weights, caches, free: Vec::new() })
    }

    /// Extends every cache along `axis` by `count` zeros.
    fn grow(&mut self, axis: usize, count: i64) -> Result<()> {
        for cache in &mut self.caches {
            for tensor in [&mut cache.keys, &mut cache.values] {
                let mut shape = tensor.size();
                shape[axis] = count;
                let more = Tensor::f_zeros(&shape[..], (Kind::Float, self.device))?;
                *tensor = Tensor::f_cat(&[&*tensor, &more], dim(axis))?;
            }
        }
        Ok(())
    }

    /// Slots and their capacity.
    fn extent(&self) -> (i64, i64) {
        self.caches.first().map_or((0, i64::MAX), |cache| {
            let shape = cache.keys.size();
            (shape[0], shape[2])
        })
    }

    fn tensor(&self, values: &[i64]) -> Result<Tensor> {
        Ok(Tensor::f_from_slice(values)?.f_to_device(self.device)?)
    }

    /// One padded attention: of every unit the rows from its `skip`th on, which are equally many.
    fn block(&self, units: &[&Unit<'_, Slot>], skip: impl Fn(&Unit<'_, Slot>) -> usize) -> Result<Block> {
        let rows = units.first().map_or(0, |unit| unit.tokens.len() - skip(unit));
        let own: Vec<i64> = units.iter().map(|unit| unit.cache.0).collect();
        let seen: Vec<i64> = units
            .iter()
            .flat_map(|unit| (skip(unit)..unit.tokens.len()).map(|row| dim(unit.cached + row + 1)))
            .collect();
        let prompt: Vec<i64> = units.iter().map(|unit| unit.prompt.map_or(0, |(slot, _)| slot.0)).collect();
        let prompt_seen: Vec<i64> =
            units.iter().map(|unit| unit.prompt.map_or(0, |(_, length)| dim(length))).collect();
        let own_length = seen.iter().copied().max().unwrap_or(0);
        let prompt_length = prompt_seen.iter().copied().max().unwrap_or(0);
        let (u, t) = (dim(units.len()), dim(rows));
        let visible = |length: i64, seen: &[i64], rows: i64| -> Result<Tensor> {
            let positions = Tensor::f_arange(length, (Kind::Int64, self.device))?;
            let seen = self.tensor(seen)?.f_view([u, 1, rows, 1])?;
            Ok(positions.f_lt_tensor(&seen)?.f_expand([u, 1, t, length], false)?)
        };
        let mask =
            Tensor::f_cat(&[visible(prompt_length, &prompt_seen, 1)?, visible(own_length, &seen, t)?], -1)?;
        Ok(Block {
            own: self.tensor(&own)?,
            own_length,
            prompt: self.tensor(&prompt)?,
            prompt_length,
            rows: t,
            mask,
        })
    }
}

impl Backend for TorchBackend {
    type Cache = Slot;

    fn empty_cache(&mut self) -> Result<Slot> {
        if self.free.is_empty() {
            let (slots, _) = self.extent();
            self.grow(0, SLOTS)?;
            self.free.extend((slots..slots + SLOTS).rev().map(Slot));
        }
        Ok(self.free.pop().expect("slots were just added"))
    }

    fn give_back(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    fn load(&mut self, weights: &Weights) -> Result<()> {
        self.weights.copy_from(weights)
    }

    fn forward(&mut self, _: &ThreadPool, units: &mut [Unit<'_, Slot>]) -> Result<()> {
        let _guard = tch::no_grad_guard();
        // responses under way first: their rows, one each, are then one run
        units.sort_by_key(|unit| unit.tokens.len() > 1);
        let longest = units.iter().map(|unit| dim(unit.cached + unit.tokens.len())).max().unwrap_or(0);
        let (_, capacity) = self.extent();
        if longest > capacity {
            let more = (longest - capacity).max(capacity);
            self.grow(2, (more + POSITIONS - 1) / POSITIONS * POSITIONS)?;
        }

        let (mut ids, mut positions, mut slots, mut places, mut last) =
            (vec![], vec![], vec![], vec![], vec![]);
        for unit in &*units {
            for (row, &token) in unit.tokens.iter().enumerate() {
                ids.push(i64::from(token));
                positions.push(dim(unit.position() + row));
                slots.push(unit.cache.0);
                places.push(dim(unit.cached + row));
            }
            if unit.head.wants_logits() {
                last.push(dim(ids.len() - 1));
            }
        }
        let all: Vec<&Unit<'_, Slot>> = units.iter().collect();
        let (single, several) = all.split_at(all.partition_point(|unit| unit.tokens.len() == 1));
        let mut blocks = Vec::new();
        if !single.is_empty() {
            blocks.push(self.block(single, |_| 0)?);
        }
        for unit in several {
            blocks.push(self.block(&[*unit], |_| 0)?);
        }
        let wanted: Vec<&Unit<'_, Slot>> = all.into_iter().filter(|unit| unit.head.wants_logits()).collect();
        let cached = CachedAttention {
            caches: &self.caches,
            layer: Cell::new(0),
            slots: self.tensor(&slots)?,
            places: self.tensor(&places)?,
            blocks,
            needed: self.tensor(&last)?,
            last_rows: self.block(&wanted, |unit| unit.tokens.len() - 1)?,
        };
        let hidden =
            decode(&self.config, &self.weights, &self.tensor(&ids)?, &self.tensor(&positions)?, &cached)?;
        if last.is_empty() {
            return Ok(());
        }
        let logits = linear(&hidden, self.weights.lm_head())?;
        let mut numbers = vec![0.0_f32; logits.numel()];
        logits.f_copy_data(&mut numbers, logits.numel())?;
        let mut scratch = Vec::new();
        let wanted = units.iter_mut().filter(|unit| unit.head.wants_logits());
        for (unit, logits) in wanted.zip(numbers.chunks_exact(self.config.vocab_size)) {
            unit.head.take(logits, &mut scratch);
        }
        Ok(())
    }
}

/// Queries of equally many rows of each unit, and what they see.
struct Block {
    /// `[U]` slots
    own: Tensor,
    own_length: i64,
    /// `[U]` slots
    prompt: Tensor,
    prompt_length: i64,
    /// T
    rows: i64,
    /// `[U, 1, T, P + S]` true where a row may look
    mask: Tensor,
}

impl Block {
    /// `q [U * T, A, D]` to `[U * T, A * D]`.
    fn attend(&self, q: &Tensor, cache: &LayerCache) -> Result<Tensor> {
        let q = q.f_unflatten(0, [-1, self.rows])?.f_transpose(1, 2)?;
        let (k, v) = (self.gather(&cache.keys)?, self.gather(&cache.values)?);
        let grouped = q.size()[1] != k.size()[1];
        let out =
            Tensor::f_scaled_dot_product_attention(&q, &k, &v, Some(&self.mask), 0.0, false, 1.0, grouped)?;
        Ok(out.f_transpose(1, 2)?.f_flatten(0, 1)?.f_flatten(1, 2)?)
    }

    /// `[U, K, P + S, D]`
    fn gather(&self, cache: &Tensor) -> Result<Tensor> {
        let part = |slots: &Tensor, length| -> Result<Tensor> {
            Ok(cache.f_narrow(2, 0, length)?.f_index_select(0, slots)?)
        };
        Ok(Tensor::f_cat(&[part(&self.prompt, self.prompt_length)?, part(&self.own, self.own_length)?], 2)?)
    }
}

/// The rows of one forward write to their slots and attend over them.
struct CachedAttention<'a> {
    caches: &'a [LayerCache],
    /// The layer that comes next.
    layer: Cell<usize>,
    /// `[rows]`
    slots: Tensor,
    /// `[rows]` positions within the slots
    places: Tensor,
    /// In the order of the rows.
    blocks: Vec<Block>,
    needed: Tensor,
    /// The rows of `needed`.
    last_rows: Block,
}

impl CachedAttention<'_> {
    /// Stores this layer's keys and values.
    fn write(&self, heads: &Heads) -> Result<&LayerCache> {
        let cache = &self.caches[self.layer.get()];
        self.layer.set(self.layer.get() + 1);
        for (cache, new) in [(&cache.keys, &heads.k), (&cache.values, &heads.v)] {
            let index = [Some(&self.slots), None, Some(&self.places)];
            let _same_storage = cache.shallow_clone().f_index_put_(&index, new, false)?;
        }
        Ok(cache)
    }
}

impl Attention for CachedAttention<'_> {
    fn needed(&self) -> Option<&Tensor> {
        Some(&self.needed)
    }

    fn every_row(&self, heads: &Heads) -> Result<Tensor> {
        let cache = self.write(heads)?;
        let mut first = 0;
        let mut parts = Vec::new();
        for block in &self.blocks {
            let rows = block.own.size()[0] * block.rows;
            parts.push(block.attend(&heads.q.f_narrow(0, first, rows)?, cache)?);
            first += rows;
        }
        Ok(Tensor::f_cat(&parts, 0)?)
    }

    fn needed_rows(&self, heads: &Heads) -> Result<Tensor> {
        let cache = self.write(heads)?;
        if self.needed.numel() == 0 {
            return Ok(heads.q.f_flatten(1, 2)?);
        }
        self.last_rows.attend(&heads.q, cache)
    }
}

fn dim(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
