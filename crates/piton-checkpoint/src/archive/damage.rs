//! What can be wrong with a pair, as values.

use std::fmt;
use std::path::PathBuf;

/// A pair that cannot be used. It is reported and left where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedPair {
    /// The zip.
    pub path: PathBuf,
    /// Why it was not taken.
    pub reason: PairDamage,
}

/// Why a pair was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PairDamage {
    /// The zip has no JSON beside it, so nothing vouches for it.
    NoJson,
    /// A link, a directory or a device has the name of one of the two.
    NotAFile,
    /// One of the two could not be read; the number is the system's.
    Unreadable(i32),
    /// The JSON is no object with a `model_sha256` of 64 hex digits.
    Malformed(String),
    /// The JSON does not match its own `metadata_sha256`.
    JsonChecksum,
    /// A later version of this crate wrote the pair.
    Version {
        /// The format it says.
        found: u64,
    },
    /// The zip is shorter or longer than the JSON says.
    Size {
        /// Bytes in the JSON.
        expected: u64,
        /// Bytes on disk.
        found: u64,
    },
    /// The zip's bytes are not those that the JSON vouches for.
    Checksum {
        /// SHA-256 in the JSON.
        expected: String,
        /// SHA-256 of the bytes on disk.
        found: String,
    },
}

impl fmt::Display for RejectedPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path.display(), self.reason)
    }
}

impl fmt::Display for PairDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoJson => f.write_str("has no .json beside it"),
            Self::NotAFile => f.write_str("or its .json is not a regular file"),
            Self::Unreadable(errno) => write!(f, "or its .json cannot be read (errno {errno})"),
            Self::Malformed(what) => write!(f, "has a malformed .json: {what}"),
            Self::JsonChecksum => f.write_str("has a .json that does not match its own checksum"),
            Self::Version { found } => write!(f, "has pair_format {found}, newer than this program reads"),
            Self::Size { expected, found } => write!(f, "has {found} bytes, its .json says {expected}"),
            Self::Checksum { expected, found } => {
                write!(f, "has sha256 {found}, its .json says {expected}")
            }
        }
    }
}
