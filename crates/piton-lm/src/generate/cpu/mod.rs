//! The CPU's arithmetic: our own kernels over slices, one chunk of sequences a thread.
//!
//! A chunk runs through all layers on one thread without meeting the others, so there is nothing to wait for between
//! operations, and which chunk a sequence falls in changes no bit of it.

mod forward;

use rayon::ThreadPool;
use rayon::prelude::*;

use self::forward::{Workspace, forward};
use super::backend::{Backend, Unit};
use crate::cpu::kv_cache::{BlockPool, CacheShape, KvCache};
use crate::cpu::model::Model;
use crate::cpu::rope::Rope;
use crate::{ModelConfig, Result, Weights};

/// Rows of a chunk when there are plenty: its activations then stay in the second-level cache.
const CHUNK_ROWS: usize = 64;

/// Weights, angles and free cache blocks.
#[derive(Debug)]
pub(crate) struct CpuBackend {
    config: ModelConfig,
    shape: CacheShape,
    model: Model,
    rope: Rope,
    blocks: BlockPool,
    workspaces: Vec<Workspace>,
}

impl CpuBackend {
    /// Copies `weights`.
    pub(crate) fn new(config: &ModelConfig, weights: &Weights) -> Result<Self> {
        let shape = CacheShape::new(config);
        let mut model = Model::zeros(config);
        model.load(weights)?;
        Ok(Self {
            config: config.clone(),
            shape,
            model,
            rope: Rope::new(config),
            blocks: BlockPool::new(&shape),
            workspaces: Vec::new(),
        })
    }
}

impl Backend for CpuBackend {
    type Cache = KvCache;

    fn empty_cache(&mut self) -> Result<KvCache> {
        Ok(KvCache::default())
    }

    fn give_back(&mut self, cache: KvCache) {
        self.blocks.give_back(cache);
    }

    fn load(&mut self, weights: &Weights) -> Result<()> {
        self.model.load(weights)
    }

    fn forward(&mut self, pool: &ThreadPool, units: &mut [Unit<'_, KvCache>]) -> Result<()> {
        let mut rows = 0;
        for unit in &mut *units {
            unit.cache.reserve(unit.cached, unit.tokens.len(), &mut self.blocks);
            self.rope.reserve(unit.position() + unit.tokens.len());
            rows += unit.tokens.len();
        }
        let share = rows.div_ceil(pool.current_num_threads()).next_multiple_of(8);
        let chunks = split(units, share.min(CHUNK_ROWS));
        self.workspaces.resize_with(chunks.len().max(self.workspaces.len()), Workspace::default);
        let (config, shape, model, rope) = (&self.config, &self.shape, &self.model, &self.rope);
        let run = |(chunk, workspace): (&mut [Unit<'_, KvCache>], &mut Workspace)| {
            forward(config, shape, model, rope, chunk, workspace);
        };
        let workspaces = &mut self.workspaces;
        pool.install(|| chunks.into_par_iter().zip(workspaces).for_each(run));
        Ok(())
    }
}

/// Cuts `units` into runs of about `rows` rows; a unit is never cut.
fn split<'u, 'a>(mut units: &'u mut [Unit<'a, KvCache>], rows: usize) -> Vec<&'u mut [Unit<'a, KvCache>]> {
    let mut chunks = Vec::new();
    while !units.is_empty() {
        let mut held = 0;
        let enough = units.iter().position(|unit| {
            held += unit.tokens.len();
            held >= rows
        });
        let (chunk, rest) = units.split_at_mut(enough.map_or(units.len(), |last| last + 1));
        chunks.push(chunk);
        units = rest;
    }
    chunks
}
