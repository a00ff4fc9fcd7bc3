//! Every draw against numpy, blake3 and Python: `fixtures/golden/rng.py`.
#![expect(clippy::unwrap_used, reason = "a helper of tests: a panic is the failure")]

use std::num::NonZeroU64;

use piton_rng::{Rng, Seed, philox4x64_10};
use serde_json::Value;

#[derive(serde::Deserialize)]
struct Golden {
    philox: Vec<Block>,
    streams: Vec<Stream>,
}

#[derive(serde::Deserialize)]
struct Block {
    counter: [u64; 4],
    key: [u64; 2],
    words: [u64; 4],
}

#[derive(serde::Deserialize)]
struct Stream {
    seed: Seed,
    domain: String,
    index: [u64; 3],
    key: String,
    u64: Vec<u64>,
    u32: Vec<u32>,
    f64: Vec<f64>,
    f32: Vec<f32>,
    standard_normal: Vec<f64>,
    /// `[n, value, words used]`
    below: Vec<[u64; 3]>,
}

impl Stream {
    fn rng(&self) -> Rng {
        self.seed.stream(&self.domain, self.index)
    }

    fn draw<T>(&self, count: usize, draw: impl Fn(&mut Rng) -> T) -> Vec<T> {
        let mut rng = self.rng();
        (0..count).map(|_| draw(&mut rng)).collect()
    }
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../../../fixtures/golden/rng/streams.json")).unwrap()
}

#[test]
fn blocks_equal_numpys_philox() {
    for Block { counter, key, words } in golden().philox {
        assert_eq!(philox4x64_10(counter, key), words, "counter {counter:?}, key {key:?}");
    }
}

#[test]
fn keys_equal_blake3_of_seed_and_name() {
    for stream in golden().streams {
        let state: Value = serde_json::to_value(stream.rng()).unwrap();
        assert_eq!(state["key"], stream.key);
    }
}

#[test]
fn words_and_fractions_equal_numpys_to_the_bit() {
    for stream in golden().streams {
        let count = stream.u64.len();
        assert_eq!(stream.draw(count, Rng::next_u64), stream.u64);
        assert_eq!(stream.draw(count, Rng::next_u32), stream.u32);
        assert_eq!(stream.draw(count, Rng::next_f64), stream.f64);
        assert_eq!(stream.draw(count, Rng::next_f32), stream.f32);
    }
}

/// Tolerance 4e-16 times (1 + |x|): Python's logarithm and cosine may differ from ours in the last bit.
#[test]
fn normals_equal_box_and_mullers() {
    for stream in golden().streams {
        let normals = stream.draw(stream.standard_normal.len(), Rng::standard_normal);
        for (ours, expected) in normals.iter().zip(&stream.standard_normal) {
            assert!((ours - expected).abs() <= 4e-16 * (1.0 + expected.abs()), "{ours} against {expected}");
        }
    }
}

#[test]
fn bounded_integers_equal_lemires_method_on_unbounded_ones() {
    for stream in golden().streams {
        for [n, value, words] in &stream.below {
            let mut rng = stream.rng();
            assert_eq!(rng.below(NonZeroU64::new(*n).unwrap()), *value, "below {n}");
            assert_eq!(rng.position(), *words, "words used by below {n}");
        }
    }
}
