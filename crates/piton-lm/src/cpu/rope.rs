//! Rotary angles by position.

use crate::ModelConfig;
use crate::rope_scaling::frequencies;

/// Cosines and sines of every position so far asked for.
#[derive(Debug)]
pub(crate) struct Rope {
    /// Radians per position, one for each pair of dimensions.
    frequencies: Vec<f32>,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl Rope {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let frequencies = frequencies(config);
        Self { frequencies, cos: Vec::new(), sin: Vec::new() }
    }

    /// Makes the table reach `positions` positions.
    ///
    /// The angle is rounded to f32 as in transformers; its cosine is taken in f64, so that it does not depend on the
    /// system's single-precision functions.
    pub(crate) fn reserve(&mut self, positions: usize) {
        for position in self.cos.len() / self.frequencies.len()..positions {
            for frequency in &self.frequencies {
                let angle = f64::from(position as f32 * frequency);
                self.cos.push(single(angle.cos()));
                self.sin.push(single(angle.sin()));
            }
        }
    }

    /// Cosines and sines of `position`, which was reserved; half a head each.
    pub(crate) fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let half = self.frequencies.len();
        (&self.cos[position * half..][..half], &self.sin[position * half..][..half])
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest single")]
fn single(x: f64) -> f32 {
    x as f32
}
