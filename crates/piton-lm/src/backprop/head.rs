//! The output head: from the residual stream to log-probabilities, and back. Logits exist for some rows at a time.

use rayon::prelude::*;

use super::layer::norm_back;
use super::layout::{Chunk, Target};
use super::tape::{Shape, Tape};
use super::weights::{self, Contribution, Transposed};
use crate::cpu::kernels::{add, norm_rows};
use crate::cpu::log_prob::Normalizer;
use crate::cpu::model::Model;
use crate::cpu::sized;

/// Rows whose logits one thread holds at a time.
const ROWS: usize = 64;

/// Logits held at a time by all threads, in numbers: 256 MiB. More blocks wait for the next round.
const IN_FLIGHT: usize = 1 << 26;

/// Up to [`ROWS`] needed rows of one chunk.
#[derive(Debug, Default)]
pub(super) struct Block {
    chunk: usize,
    first: usize,
    count: usize,
    normed: Vec<f32>,
    /// `[rows, V]` logits; then the gradient of the logits.
    logits: Vec<f32>,
    exponentials: Vec<f32>,
    d_normed: Vec<f32>,
    contribution: Contribution,
}

/// Log-probabilities of all `count` targets, in their order.
pub(super) fn log_probs(
    shape: &Shape,
    model: &Model,
    chunks: &[Chunk],
    tapes: &[Tape],
    count: usize,
    blocks: &mut Vec<Block>,
) -> Vec<f32> {
    plan(chunks, blocks);
    let found: Vec<Vec<(usize, f32)>> = blocks
        .par_iter_mut()
        .map(|block| {
            block.run(shape, model, &tapes[block.chunk]);
            let mut normalizers = Vec::with_capacity(block.count);
            for logits in block.logits.chunks_exact(shape.vocab) {
                normalizers.push(Normalizer::new(logits, sized(&mut block.exponentials, shape.vocab)));
            }
            let log_prob = |target: &Target| {
                let row = target.row - block.first;
                let logit = block.logits[row * shape.vocab + target.token as usize];
                (target.index, normalizers[row].log_prob(logit))
            };
            let found = block.targets(&chunks[block.chunk]).iter().map(log_prob).collect();
            block.forget(shape);
            found
        })
        .collect();
    let mut log_probs = vec![0.0; count];
    for (index, log_prob) in found.into_iter().flatten() {
        log_probs[index] = log_prob;
    }
    log_probs
}

/// From the gradient of the log-probabilities to that of the residual stream after the last layer, one `[needed, H]` a
/// chunk; adds to the gradients of the head and the final norm.
#[expect(clippy::too_many_arguments, reason = "a head, forward and back")]
pub(super) fn back(
    shape: &Shape,
    model: &Model,
    chunks: &[Chunk],
    tapes: &[Tape],
    d_log_probs: &[f32],
    transposed: &mut Transposed,
    blocks: &mut Vec<Block>,
    (d_head, d_norm): (&mut [f32], &mut [f32]),
) -> Vec<Vec<f32>> {
    plan(chunks, blocks);
    transposed.load(&model.head);
    let transposed = &*transposed;
    let mut d_streams: Vec<Vec<f32>> =
        chunks.iter().map(|chunk| Vec::with_capacity(chunk.needed.len() * shape.hidden)).collect();
    let at_once = (IN_FLIGHT / (ROWS * shape.vocab)).max(rayon::current_num_threads());
    for blocks in blocks.chunks_mut(at_once) {
        blocks.par_iter_mut().for_each(|block| {
            let chunk = &chunks[block.chunk];
            block.run(shape, model, &tapes[block.chunk]);
            block.d_logits(shape, chunk, d_log_probs);
            transposed.apply(&block.logits, sized(&mut block.d_normed, block.count * shape.hidden));
            block.contribution.set(&block.normed, &block.logits, (shape.hidden, shape.vocab));
        });
        let tasks = weights::tasks(d_head, shape.hidden, blocks.iter().map(|block| &block.contribution));
        weights::run(tasks.collect());
        for block in blocks {
            let rows = &tapes[block.chunk].output[block.first * shape.hidden..][..block.count * shape.hidden];
            let d_stream = &mut d_streams[block.chunk];
            let start = d_stream.len();
            d_stream.resize(start + rows.len(), 0.0);
            let mut d_weight = Vec::new();
            norm_back(rows, &model.norm, shape.eps, &block.d_normed, &mut d_stream[start..], &mut d_weight);
            add(d_norm, &d_weight);
            block.forget(shape);
        }
    }
    d_streams
}

/// Cuts the needed rows of all chunks into blocks, whose memory is used again.
fn plan(chunks: &[Chunk], blocks: &mut Vec<Block>) {
    let mut count = 0;
    for (index, chunk) in chunks.iter().enumerate() {
        for first in (0..chunk.needed.len()).step_by(ROWS) {
            if count == blocks.len() {
                blocks.push(Block::default());
            }
            let block = &mut blocks[count];
            (block.chunk, block.first) = (index, first);
            block.count = ROWS.min(chunk.needed.len() - first);
            count += 1;
        }
    }
    blocks.truncate(count);
}

impl Block {
    /// Computes the logits.
    fn run(&mut self, shape: &Shape, model: &Model, tape: &Tape) {
        let hidden = shape.hidden;
        let rows = &tape.output[self.first * hidden..][..self.count * hidden];
        norm_rows(rows, &model.norm, shape.eps, sized(&mut self.normed, rows.len()));
        model.head.apply(&self.normed, sized(&mut self.logits, self.count * shape.vocab));
    }

    /// Turns the logits into their gradients: for each target d (onehot - softmax).
    fn d_logits(&mut self, shape: &Shape, chunk: &Chunk, d_log_probs: &[f32]) {
        let mut targets = self.targets(chunk).iter().peekable();
        for (row, logits) in (self.first..).zip(self.logits.chunks_exact_mut(shape.vocab)) {
            let exponentials = sized(&mut self.exponentials, shape.vocab);
            let normalizer = Normalizer::new(logits, exponentials);
            let mut ones = Vec::new();
            while let Some(target) = targets.next_if(|target| target.row == row) {
                ones.push((target.token as usize, d_log_probs[target.index]));
            }
            let all: f32 = ones.iter().map(|(_, d)| d).sum();
            let factor = -all / normalizer.total;
            for (d, exponential) in logits.iter_mut().zip(exponentials) {
                *d = factor * *exponential;
            }
            for (token, d) in ones {
                logits[token] += d;
            }
        }
    }

    fn targets<'c>(&self, chunk: &'c Chunk) -> &'c [Target] {
        let from = chunk.targets.partition_point(|target| target.row < self.first);
        let to = chunk.targets.partition_point(|target| target.row < self.first + self.count);
        &chunk.targets[from..to]
    }

    /// Gives the memory of large vocabularies back.
    fn forget(&mut self, shape: &Shape) {
        if shape.vocab * ROWS > IN_FLIGHT / 64 {
            self.logits = Vec::new();
            self.contribution = Contribution::default();
        }
    }
}
