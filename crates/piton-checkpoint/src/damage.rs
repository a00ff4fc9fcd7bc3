//! What can be wrong with a checkpoint, as values.

use std::fmt;
use std::path::PathBuf;

/// A directory with a checkpoint's name that cannot be used. It is reported and left where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The step in its name.
    pub step: u64,
    /// Where it is.
    pub path: PathBuf,
    /// Why it was not taken.
    pub reason: Reason,
}

/// Why a checkpoint was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A file or a symbolic link has the name.
    NotADirectory,
    /// The manifest cannot be trusted, so nothing else was looked at.
    Manifest(ManifestDamage),
    /// The manifest is whole and these files are not.
    Files(Vec<BadFile>),
}

/// What is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ManifestDamage {
    /// There is none: the directory was never committed, or was copied in part.
    Missing,
    /// It is a link, a directory or a device.
    NotAFile,
    /// It is larger than any real manifest.
    TooLarge {
        /// Its size in bytes.
        size: u64,
    },
    /// It could not be read; the number is the system's.
    Unreadable(i32),
    /// Its own checksum does not match, or its last lines are not the checksum.
    Checksum,
    /// Its checksum is right but it breaks a rule of the format.
    Malformed(String),
    /// A later version of this crate wrote it.
    Version {
        /// The format it says.
        found: u64,
    },
    /// It belongs to another step: the directory was renamed.
    Step {
        /// The step it says.
        found: u64,
    },
}

/// A damaged file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFile {
    /// Its path in the checkpoint.
    pub path: String,
    /// What is wrong with it.
    pub damage: Damage,
}

/// What is wrong with one file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// It is gone.
    Missing,
    /// A link, a directory or a device stands in its place.
    NotAFile,
    /// It is shorter or longer.
    Size {
        /// Bytes in the manifest.
        expected: u64,
        /// Bytes on disk.
        found: u64,
    },
    /// Its bytes changed.
    Checksum {
        /// Offset in bytes of the first chunk (4 MiB) that differs.
        offset: u64,
    },
    /// It could not be read; the number is the system's.
    Unreadable(i32),
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotADirectory => f.write_str("is not a directory"),
            Self::Manifest(damage) => write!(f, "MANIFEST.json {damage}"),
            Self::Files(bad) => {
                let all: Vec<String> = bad.iter().map(ToString::to_string).collect();
                f.write_str(&all.join(", "))
            }
        }
    }
}

impl fmt::Display for ManifestDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::NotAFile => f.write_str("is not a regular file"),
            Self::TooLarge { size } => write!(f, "has {size} bytes, more than any manifest"),
            Self::Unreadable(errno) => write!(f, "cannot be read (errno {errno})"),
            Self::Checksum => f.write_str("does not match its own checksum"),
            Self::Malformed(what) => write!(f, "is malformed: {what}"),
            Self::Version { found } => write!(f, "has format {found}, newer than this program reads"),
            Self::Step { found } => write!(f, "says step {found}, unlike the directory's name"),
        }
    }
}

impl fmt::Display for BadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.damage)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::NotAFile => f.write_str("is not a regular file"),
            Self::Size { expected, found } => write!(f, "has {found} bytes, expected {expected}"),
            Self::Checksum { offset } => write!(f, "has the wrong checksum from byte {offset} on"),
            Self::Unreadable(errno) => write!(f, "cannot be read (errno {errno})"),
        }
    }
}
