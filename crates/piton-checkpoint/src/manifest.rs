//! `MANIFEST.json`: what a checkpoint holds, with a checksum over itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::damage::ManifestDamage;
use crate::hash::{CHUNK_BYTES, Digest};
use crate::name;

/// The format this version writes, and the newest it reads.
pub const FORMAT: u64 = 2;
/// A manifest larger than this is not read.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 64 * 1024 * 1024;

/// The record that makes a directory a checkpoint; written last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the on-disk format.
    pub format: u64,
    /// The run that wrote it.
    pub run_id: String,
    /// The step it stands at; equals the number in the directory's name.
    pub step: u64,
    /// The newest valid step in the store when it was written; `None` for the first.
    pub parent_step: Option<u64>,
    /// Digest of the run's configuration, as given by the caller.
    pub config_digest: String,
    /// When it was written, in milliseconds since 1970 UTC. For people; nothing sorts by it.
    pub created_unix_ms: u64,
    /// What exact resumption depends on, as given by the caller: libtorch, CPU level, threads.
    pub environment: BTreeMap<String, String>,
    /// Figures by which checkpoints are compared, as given with [`Stage::metric`](crate::Stage::metric).
    #[serde(default)]
    pub metrics: BTreeMap<String, f64>,
    /// The files, ascending by path.
    pub files: Vec<FileEntry>,
}

/// One file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Path in the checkpoint, `/`-separated.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// BLAKE3 of the whole file, 64 lower-case hex digits (what `b3sum` prints).
    pub blake3: String,
    /// For a file over 4 MiB one value for each 4 MiB, the last one shorter: since format 2 the chaining value of that
    /// subtree of the file's BLAKE3, in format 1 the BLAKE3 of those bytes by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<String>,
}

impl FileEntry {
    pub(crate) fn new(path: String, digest: Digest) -> Self {
        Self { path, size: digest.size, blake3: digest.whole, chunks: digest.chunks }
    }

    /// Offset of the first chunk whose value differs from `found`; 0 when no chunk tells.
    pub(crate) fn first_difference(&self, found: &[String]) -> u64 {
        let differing = self.chunks.iter().zip(found).position(|(a, b)| a != b);
        differing.unwrap_or(0) as u64 * CHUNK_BYTES
    }
}

impl Manifest {
    /// The file at `path`, if the checkpoint has it.
    pub fn file(&self, path: &str) -> Option<&FileEntry> {
        let at = self.files.binary_search_by(|entry| entry.path.as_str().cmp(path)).ok()?;
        self.files.get(at)
    }

    /// The file's text: pretty JSON whose last member is the BLAKE3 of every byte before its line.
    pub(crate) fn encode(&self) -> Result<String, serde_json::Error> {
        let json = serde_json::to_string_pretty(self)?;
        let body = format!("{},\n", json.strip_suffix("\n}").unwrap_or(&json));
        Ok(format!("{body}{}", tail(&body)))
    }

    /// Reads a manifest's bytes, trusting nothing in them before the checksum.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ManifestDamage> {
        let text = std::str::from_utf8(bytes).map_err(|_| ManifestDamage::Checksum)?;
        let at = text.rfind("  \"self_blake3\"").ok_or(ManifestDamage::Checksum)?;
        let (body, end) = text.split_at(at);
        if end != tail(body) {
            return Err(ManifestDamage::Checksum);
        }
        let malformed = |error: serde_json::Error| ManifestDamage::Malformed(error.to_string());
        let Version { format } = serde_json::from_str(text).map_err(malformed)?;
        if format > FORMAT {
            return Err(ManifestDamage::Version { found: format });
        }
        let manifest: Self = serde_json::from_str(text).map_err(malformed)?;
        manifest.check().map_err(ManifestDamage::Malformed)?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        if self.format == 0 {
            return Err("format is 0, the first is 1".to_owned());
        }
        if let Some(pair) = self.files.windows(2).find(|pair| pair[0].path >= pair[1].path) {
            return Err(format!("{:?} does not sort after {:?}", pair[1].path, pair[0].path));
        }
        for FileEntry { path, size, blake3, chunks } in &self.files {
            name::check_path(path).map_err(|reason| format!("path {path:?}: {reason}"))?;
            let expected = if *size > CHUNK_BYTES { size.div_ceil(CHUNK_BYTES) } else { 0 };
            if chunks.len() as u64 != expected {
                return Err(format!("{path} has {} chunk digests, expected {expected}", chunks.len()));
            }
            if !chunks.iter().chain([blake3]).all(|digest| is_digest(digest)) {
                return Err(format!("{path} has a digest that is not 64 lower-case hex digits"));
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Version {
    format: u64,
}

fn tail(body: &str) -> String {
    format!("  \"self_blake3\": \"{}\"\n}}\n", blake3::hash(body.as_bytes()).to_hex())
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
