//! Rows as prompt and answer tokens, in an order that a seed decides.

use piton_agent::label;
use piton_data::{Prompts, Tokenizer};
use piton_rng::Seed;
use piton_trainer::TrainSample;

use crate::{Error, Result};

/// An endless stream of examples: every epoch has all rows in an order of its own.
#[derive(Debug)]
pub(super) struct Examples {
    rows: Vec<TrainSample>,
    order: Vec<usize>,
    next: usize,
    epoch: u64,
    seed: Seed,
}

impl Examples {
    /// Tokenizes the answers; every response token carries loss.
    pub(super) fn new(prompts: &Prompts, tokenizer: &Tokenizer, seed: Seed) -> Result<Self> {
        let Some(&eos) = tokenizer.eos_ids().first() else {
            return Err(Error::Warmup("the tokenizer names no end-of-sequence token".to_owned()));
        };
        let example = |(at, prompt): (usize, &piton_data::Prompt)| -> Result<TrainSample> {
            let mut tokens = prompt.token_ids.clone();
            tokens.extend(tokenizer.encode(&label(&prompt.row))?);
            tokens.push(eos);
            let response_len = tokens.len() - prompt.token_ids.len();
            Ok(TrainSample {
                group_id: at as u64,
                rollout_id: at as u64,
                tokens,
                prompt_len: prompt.token_ids.len(),
                loss_mask: vec![true; response_len],
                advantages: vec![1.0; response_len],
                rollout_log_probs: vec![0.0; response_len],
            })
        };
        let rows = prompts.as_slice().iter().enumerate().map(example).collect::<Result<_>>()?;
        Ok(Self { rows, order: Vec::new(), next: 0, epoch: 0, seed })
    }

    /// The next `size` examples; at the end of an epoch goes on with the next one.
    pub(super) fn batch(&mut self, size: usize) -> Vec<TrainSample> {
        (0..size)
            .map(|_| {
                if self.next == self.order.len() {
                    self.order =
                        self.seed.stream("warmup/order", [self.epoch, 0, 0]).permutation(self.rows.len());
                    self.epoch += 1;
                    self.next = 0;
                }
                self.next += 1;
                self.rows[self.order[self.next - 1]].clone()
            })
            .collect()
    }
}
