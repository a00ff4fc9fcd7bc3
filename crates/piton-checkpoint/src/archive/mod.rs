//! Archives in pairs: a zip and the JSON that vouches for it.

mod damage;
mod name;
mod prune;
mod reader;
mod replace;
mod sidecar;
mod sink;
mod writer;
mod zip;

pub use damage::{PairDamage, RejectedPair};
pub use name::PairId;
pub use prune::prune_archives;
pub use reader::{Archive, ArchiveReader, FoundArchive};
pub use sink::ArchiveFile;
pub use writer::{ArchiveOptions, Archives};
pub use zip::StoredZip;
