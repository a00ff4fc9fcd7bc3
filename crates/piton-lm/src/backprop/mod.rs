//! Log-probabilities with gradients on the CPU, by the kernels that generate.
//!
//! ```text
//! prefix 0 ─┬─ continuation: a b c         log p(a | prefix 0), log p(b | .. a), log p(c | .. b)
//!           └─ continuation: d e           ..
//! prefix 1 ─── continuation: f
//! ```
//!
//! A token's log-probability has the same bits as the one that [`generate`](crate::generate) reported when it sampled
//! the token from the same weights: whatever else is in the batch, on any number of threads. So data of the current
//! policy is *exactly* on-policy. Gradients, too, are the same on any number of threads.
//!
//! ```
//! use piton_lm::backprop::{Backprop, Continuation, Gradients};
//! use piton_lm::{ModelConfig, init};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = ModelConfig::from_json(
//!     r#"{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 50, "hidden_size": 16, "intermediate_size": 32,
//!         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}"#,
//! )?;
//! let weights = init(&config, piton_rng::Seed(7), tch::Device::Cpu)?;
//! let mut backprop = Backprop::new(&config, &weights, 2)?;
//! let tokens = [8, 9, 10];
//! let continuation = Continuation { prefix: 0, tokens: &tokens, wanted: &[true, false, true] };
//! let log_probs = backprop.log_probs(&[&[5, 6, 7]], &[continuation])?;
//! assert_eq!(log_probs.len(), 2);
//! let mut gradients = Gradients::zeros(&config);
//! backprop.backward(&[-0.5, -0.5], &mut gradients)?; // of the mean negative log-likelihood
//! assert!(gradients.norm() > 0.0);
//! # Ok(())
//! # }
//! ```
//!
//! It keeps the activations of a call; a batch that does not fit into memory is cut by the caller, and gradients add up
//! over calls. Weights are copied in by [`Backprop::load`] after each update.

mod attention;
mod gradients;
mod head;
mod layer;
mod layout;
mod tape;
mod weights;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

pub use self::gradients::Gradients;
use self::layer::{TransposedLayer, Work, matrix_tasks};
use self::layout::{Chunk, layout};
use self::tape::{Shape, Tape};
use self::weights::Transposed;
use crate::cpu::model::Model;
use crate::cpu::rope::Rope;
use crate::{Error, ModelConfig, Result, Weights};

/// Tokens after a prefix.
#[derive(Clone, Copy, Debug)]
pub struct Continuation<'a> {
    /// Index of the prefix.
    pub prefix: usize,
    /// The tokens.
    pub tokens: &'a [u32],
    /// Whose log-probabilities are asked for; as many as `tokens`.
    pub wanted: &'a [bool],
}

impl Continuation<'_> {
    fn wanted(&self) -> usize {
        self.wanted.iter().filter(|wanted| **wanted).count()
    }
}

/// A model ready to compute log-probabilities and their gradients.
#[derive(Debug)]
pub struct Backprop {
    config: ModelConfig,
    shape: Shape,
    pool: ThreadPool,
    model: Model,
    rope: Rope,
    /// The batch of the last forward, with `targets` targets.
    chunks: Vec<Chunk>,
    targets: usize,
    tapes: Vec<Tape>,
    work: Vec<Work>,
    blocks: Vec<head::Block>,
    layer: TransposedLayer,
    head: Transposed,
}

impl Backprop {
    /// Copies `weights`; computes on `threads` threads.
    ///
    /// # Errors
    /// When the threads cannot be started.
    pub fn new(config: &ModelConfig, weights: &Weights, threads: usize) -> Result<Self> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("backprop-{index}"))
            .build()
            .map_err(|error| Error::Input(format!("cannot start {threads} threads: {error}")))?;
        let mut model = Model::zeros(config);
        model.load(weights)?;
        Ok(Self {
            config: config.clone(),
            shape: Shape::new(config),
            pool,
            model,
            rope: Rope::new(config),
            chunks: Vec::new(),
            targets: 0,
            tapes: Vec::new(),
            work: Vec::new(),
            blocks: Vec::new(),
            layer: TransposedLayer::default(),
            head: Transposed::default(),
        })
    }

    /// Copies new weights.
    ///
    /// # Errors
    /// When libtorch refuses to give them.
    pub fn load(&mut self, weights: &Weights) -> Result<()> {
        self.targets = 0;
        self.chunks.clear();
        self.model.load(weights)
    }

    /// Log-probability of each wanted token, continuation by continuation, from the prefix and the tokens before it.
    ///
    /// # Errors
    /// When a prefix is empty, an index or a token is out of range, or a sequence is longer than the model allows: the
    /// first such is named.
    pub fn log_probs(&mut self, prefixes: &[&[u32]], continuations: &[Continuation<'_>]) -> Result<Vec<f32>> {
        (self.chunks, self.targets) = layout(&self.config, prefixes, continuations)?;
        self.rope
            .reserve(self.chunks.iter().flat_map(|chunk| &chunk.positions).max().map_or(0, |last| last + 1));
        self.tapes.resize_with(self.chunks.len().max(self.tapes.len()), Tape::default);
        let Self { shape, pool, model, rope, chunks, tapes, blocks, targets, .. } = self;
        Ok(pool.install(|| {
            chunks
                .par_iter()
                .zip(&mut *tapes)
                .with_max_len(1)
                .for_each(|(chunk, tape)| tape.record(shape, model, rope, chunk));
            head::log_probs(shape, model, chunks, tapes, *targets, blocks)
        }))
    }

    /// Adds to `gradients` those of the sum of `d_log_probs` times the log-probabilities of the last call.
    ///
    /// # Errors
    /// When `d_log_probs` has another length than those.
    pub fn backward(&mut self, d_log_probs: &[f32], gradients: &mut Gradients) -> Result<()> {
        if d_log_probs.len() != self.targets {
            return Err(Error::Input(format!(
                "{} gradients were given for {} log-probabilities",
                d_log_probs.len(),
                self.targets
            )));
        }
        let Self { shape, pool, model, rope, chunks, tapes, work, blocks, layer: transposed, head, .. } =
            self;
        let (shape, model, rope, chunks, tapes) = (&*shape, &*model, &*rope, &*chunks, &*tapes);
        work.resize_with(chunks.len().max(work.len()), Work::default);
        let work = &mut work[..chunks.len()];
        pool.install(|| {
            let mut d_norm = std::mem::take(&mut gradients.norm);
            let d_head = gradients.head_mut();
            let d_streams =
                head::back(shape, model, chunks, tapes, d_log_probs, head, blocks, (d_head, &mut d_norm));
            gradients.norm = d_norm;
            for (work, d_stream) in work.iter_mut().zip(d_streams) {
                work.d_stream = d_stream;
            }
            for (index, layer) in model.layers.iter().enumerate().rev() {
                let last = index + 1 == model.layers.len();
                transposed.load(layer);
                let transposed = &*transposed;
                chunks.par_iter().zip(tapes).zip(&mut *work).with_max_len(1).for_each(
                    |((chunk, tape), work)| {
                        work.back(shape, layer, transposed, rope, chunk, last, &tape.layers[index]);
                    },
                );
                let gradients = &mut gradients.layers[index];
                work.iter().for_each(|work| work.add_vectors(gradients));
                weights::run(matrix_tasks(shape, gradients, work));
            }
            for (chunk, work) in chunks.iter().zip(&*work) {
                for (&token, d) in chunk.tokens.iter().zip(work.d_stream.chunks_exact(shape.hidden)) {
                    let row = &mut gradients.embedding[token as usize * shape.hidden..][..shape.hidden];
                    crate::cpu::kernels::add(row, d);
                }
            }
        });
        Ok(())
    }
}
