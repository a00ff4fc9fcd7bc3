//! What a word is turned into: fractions, normals, bounded integers, orders.

use std::f64::consts::TAU;
use std::num::NonZeroU64;

use crate::Rng;

impl Rng {
    /// Draws 32 uniform bits: the upper half of one word.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        let [.., a, b, c, d] = self.next_u64().to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    /// Draws from [0, 1) in steps of 2^-53: one word, as `numpy.random.Generator.random` does.
    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Draws from [0, 1) in steps of 2^-24: one word.
    #[inline]
    pub fn next_f32(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 * (1.0 / (1_u32 << 24) as f32)
    }

    /// Draws from the normal distribution of mean 0 and variance 1: always two words.
    ///
    /// Box and Muller's cosine half. The other half is dropped, so that a stream's place never depends on a value kept
    /// aside. Logarithm and cosine come from the `libm` crate, not from the system, so every machine gives the same bits.
    pub fn standard_normal(&mut self) -> f64 {
        let above_zero = 1.0 - self.next_f64();
        let turn = self.next_f64();
        (-2.0 * libm::log(above_zero)).sqrt() * libm::cos(TAU * turn)
    }

    /// Draws from `0..n`, every value equally likely: one word, more with probability below `n` / 2^64.
    ///
    /// Lemire, "Fast random integer generation in an interval", 2019.
    #[inline]
    pub fn below(&mut self, n: NonZeroU64) -> u64 {
        let n = n.get();
        let (mut low, mut high) = self.next_u64().carrying_mul(n, 0);
        if low < n {
            let uneven = n.wrapping_neg() % n;
            while low < uneven {
                (low, high) = self.next_u64().carrying_mul(n, 0);
            }
        }
        high
    }

    /// Puts `items` into an order, every order equally likely (Fisher and Yates, from the end).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            #[expect(clippy::cast_possible_truncation, reason = "drawn below a usize")]
            let other = self.below(NonZeroU64::MIN.saturating_add(last as u64)) as usize;
            items.swap(last, other);
        }
    }

    /// Gives the numbers `0..n` in a random order.
    #[must_use]
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        self.shuffle(&mut order);
        order
    }
}
