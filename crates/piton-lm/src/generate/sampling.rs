//! From one row of logits to one token.

use std::cmp::Ordering;

use super::SamplingParams;
use crate::cpu::kernels::exp_sum;
use crate::cpu::log_prob::Normalizer;

/// A chosen token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampled {
    pub(crate) token: u32,
    /// Log-softmax of the raw logits at `token`.
    pub(crate) log_prob: f32,
}

/// All that decides which token a row of logits gives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) params: &'a SamplingParams,
    /// Tokens not to be chosen at this position.
    pub(crate) banned: &'a [u32],
    /// In [0, 1).
    pub(crate) uniform: f64,
}

impl Choice<'_> {
    /// Chooses a token; `None` when the logits hold a NaN or an infinity.
    ///
    /// Sampling inverts the distribution function over the kept tokens in order of id.
    pub(crate) fn pick(&self, logits: &[f32], scratch: &mut Vec<f32>) -> Option<Sampled> {
        scratch.resize(logits.len(), 0.0);
        let normalizer = Normalizer::new(logits, scratch);
        if !logits.iter().all(|x| x.is_finite()) {
            return None;
        }
        let index = if self.params.is_greedy() {
            self.greedy(logits)
        } else {
            exp_sum(logits, normalizer.largest, 1.0 / self.params.temperature, scratch);
            self.sample(logits, scratch)
        };
        #[expect(clippy::cast_possible_truncation, reason = "ids fit 31 bits")]
        Some(Sampled { token: index as u32, log_prob: normalizer.log_prob(logits[index]) })
    }

    /// Index of the largest allowed logit, the first of equals.
    fn greedy(&self, logits: &[f32]) -> usize {
        let mut best = None;
        for (index, &logit) in logits.iter().enumerate() {
            if best.is_none_or(|(_, largest)| logit > largest) && self.allows(index) {
                best = Some((index, logit));
            }
        }
        best.map_or(0, |(index, _)| index)
    }

    /// Index drawn in proportion to `weights`, among those that the filters keep.
    fn sample(&self, logits: &[f32], weights: &mut [f32]) -> usize {
        for &id in self.banned {
            if let Some(weight) = weights.get_mut(id as usize) {
                *weight = 0.0;
            }
        }
        if self.params.top_k == 0 && self.params.top_p >= 1.0 {
            return invert(self.uniform, weights.iter().copied().enumerate());
        }
        let kept = self.filter(logits, weights);
        invert(self.uniform, kept.into_iter().map(|index| (index, weights[index])))
    }

    /// Indices that top-k and then top-p keep, in order.
    fn filter(&self, logits: &[f32], weights: &[f32]) -> Vec<usize> {
        let likelier = |a: &usize, b: &usize| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b));
        let mut indices: Vec<usize> = (0..logits.len()).filter(|&index| self.allows(index)).collect();
        if self.params.top_k > 0 {
            keep_first(&mut indices, self.params.top_k, likelier);
        }
        if self.params.top_p < 1.0 {
            let total: f64 = indices.iter().map(|&index| f64::from(weights[index])).sum();
            let wanted = f64::from(self.params.top_p) * total;
            // sorting a whole vocabulary for a few likely tokens is slow: take more only while they do not suffice
            let mut tried = 256;
            indices = loop {
                let mut head = indices.clone();
                keep_first(&mut head, tried, likelier);
                head.sort_unstable_by(likelier);
                let mut reached = 0.0;
                let count = head.iter().position(|&index| {
                    reached += f64::from(weights[index]);
                    reached >= wanted
                });
                match count {
                    Some(last) => {
                        head.truncate(last + 1);
                        break head;
                    }
                    None if tried >= indices.len() => break head,
                    None => tried *= 8,
                }
            };
        }
        indices.sort_unstable();
        indices
    }

    fn allows(&self, index: usize) -> bool {
        !self.banned.iter().any(|&id| id as usize == index)
    }
}

/// Keeps the first `count` in the order given, themselves in any order.
fn keep_first(indices: &mut Vec<usize>, count: usize, order: impl Fn(&usize, &usize) -> Ordering) {
    if count < indices.len() {
        indices.select_nth_unstable_by(count, order);
        indices.truncate(count);
    }
}

/// The first index at which the running sum of weights exceeds `uniform` of the whole.
fn invert(uniform: f64, weights: impl Iterator<Item = (usize, f32)> + Clone) -> usize {
    let total: f64 = weights.clone().map(|(_, weight)| f64::from(weight)).sum();
    let wanted = uniform * total;
    let mut reached = 0.0;
    let mut last = 0;
    for (index, weight) in weights {
        if weight > 0.0 {
            reached += f64::from(weight);
            last = index;
            if reached > wanted {
                break;
            }
        }
    }
    last
}
