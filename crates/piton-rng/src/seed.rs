//! From a run's seed to the key of a named domain.

use serde::{Deserialize, Serialize};

use crate::Rng;

/// The one number that a run's randomness hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

/// A seed and a name, hashed to a key: every stream of one purpose comes from one of these.
///
/// Making one costs a hash; a stream from it costs nothing until its first draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Domain {
    key: [u64; 2],
}

/// Separates these keys from every other use of blake3. A change here changes every run's numbers.
const CONTEXT: &str = "piton-rng 2026-11-30 stream key v1";

impl Seed {
    /// Names a purpose, such as `"sample"` or `"shuffle"`; two names share no numbers.
    #[must_use]
    pub fn domain(self, name: &str) -> Domain {
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        hasher.update(&self.0.to_le_bytes());
        hasher.update(name.as_bytes());
        let mut bytes = [0; 16];
        hasher.finalize_xof().fill(&mut bytes);
        let key = u128::from_le_bytes(bytes);
        #[expect(clippy::cast_possible_truncation, reason = "the low half first, then the high half")]
        let key = [key as u64, (key >> 64) as u64];
        Domain { key }
    }

    /// Gives the stream of `domain` at `index`, from its start. In a loop, hoist [`Seed::domain`].
    #[must_use]
    pub fn stream(self, domain: &str, index: [u64; 3]) -> Rng {
        self.domain(domain).stream(index)
    }
}

impl Domain {
    /// Gives the stream at `index`, from its start; indices are ids, such as `[group, sample, position]`.
    #[inline]
    #[must_use]
    pub fn stream(&self, index: [u64; 3]) -> Rng {
        Rng::new(self.key, index)
    }
}
