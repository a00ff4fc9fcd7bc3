//! One stream: a key, an index, and how far it has been read.

use serde::{Deserialize, Serialize};

use crate::philox4x64_10;
use crate::state::{State, StateError};

/// A stream of random words, and a plain value: saved and loaded, it goes on exactly where it stood.
///
/// Saved as `{version, key, index, position}`, the key in hexadecimal. It is deliberately not `Copy`: two copies would
/// draw the same numbers. After 2^64 words a stream starts over.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "State", try_from = "State")]
pub struct Rng {
    pub(crate) key: [u64; 2],
    pub(crate) index: [u64; 3],
    /// Words drawn so far.
    pub(crate) position: u64,
    /// The block that `position` lies in, unless `position` is at its start: then it is not made yet.
    block: [u64; 4],
}

impl Rng {
    #[inline]
    pub(crate) fn new(key: [u64; 2], index: [u64; 3]) -> Self {
        Self { key, index, position: 0, block: [0; 4] }
    }

    /// Counts the 64-bit words drawn so far.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Draws 64 uniform bits: one word.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let word = usize::from(self.position.to_le_bytes()[0] & 3);
        if word == 0 {
            self.block = self.block_at_position();
        }
        self.position = self.position.wrapping_add(1);
        self.block[word]
    }

    fn block_at_position(&self) -> [u64; 4] {
        let [i0, i1, i2] = self.index;
        philox4x64_10([self.position / 4, i0, i1, i2], self.key)
    }
}

/// Equal streams draw equal numbers from here on.
impl PartialEq for Rng {
    fn eq(&self, other: &Self) -> bool {
        (self.key, self.index, self.position) == (other.key, other.index, other.position)
    }
}

impl Eq for Rng {}

impl From<Rng> for State {
    fn from(rng: Rng) -> Self {
        Self::new(rng.key, rng.index, rng.position)
    }
}

impl TryFrom<State> for Rng {
    type Error = StateError;

    fn try_from(state: State) -> Result<Self, StateError> {
        let key = state.key()?;
        let mut rng = Self { position: state.position, ..Self::new(key, state.index) };
        rng.block = rng.block_at_position();
        Ok(rng)
    }
}
