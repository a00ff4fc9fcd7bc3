//! What a stream is on disk.

use serde::{Deserialize, Serialize};

/// Why a saved stream was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Written by a version of this crate that numbers its streams otherwise.
    #[error(
        "load random stream: found version {found}, expected {expected}; load it with the release that wrote it"
    )]
    Version {
        /// The version in the saved value.
        found: u32,
        /// The version this crate reads and writes.
        expected: u32,
    },
    /// The key is not 32 lower-case hexadecimal digits.
    #[error(
        "load random stream: key is {found:?}, expected 32 lower-case hexadecimal digits; the file is damaged"
    )]
    Key {
        /// The key in the saved value.
        found: String,
    },
}

const VERSION: u32 = 1;

/// The key is text because not every format and reader keeps 64-bit integers whole (TOML and JavaScript do not).
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    version: u32,
    key: String,
    pub(crate) index: [u64; 3],
    pub(crate) position: u64,
}

impl State {
    pub(crate) fn new(key: [u64; 2], index: [u64; 3], position: u64) -> Self {
        let [low, high] = key;
        Self { version: VERSION, key: format!("{high:016x}{low:016x}"), index, position }
    }

    pub(crate) fn key(&self) -> Result<[u64; 2], StateError> {
        if self.version != VERSION {
            return Err(StateError::Version { found: self.version, expected: VERSION });
        }
        let digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let half = |digits: Option<&str>| digits.and_then(|d| u64::from_str_radix(d, 16).ok());
        if self.key.len() == 32
            && self.key.bytes().all(digit)
            && let (Some(high), Some(low)) = (half(self.key.get(..16)), half(self.key.get(16..)))
        {
            return Ok([low, high]);
        }
        Err(StateError::Key { found: self.key.clone() })
    }
}
