//! Hashing a file once, as a whole and in chunks.
//!
//! BLAKE3 is a tree over 1 KiB leaves. The 4 MiB chunks are whole subtrees of it: one pass gives the value of each, and
//! from those the root, which is the plain BLAKE3 of the file.

use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// Bytes covered by one entry of a file's chunk list: 4 MiB.
pub const CHUNK_BYTES: u64 = 4 * 1024 * 1024;

/// A hash, or the value of a subtree, in binary.
type Value = [u8; 32];

/// Size and digests of a file. `chunks` is empty when the file fits one chunk, since then `whole` says it all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) size: u64,
    pub(crate) whole: String,
    pub(crate) chunks: Vec<String>,
}

/// Takes a file's bytes in order.
#[derive(Debug, Default)]
pub(crate) struct Digester {
    /// Bytes of the chunk being read.
    hasher: blake3::Hasher,
    chunks: Vec<Value>,
    /// Digest of the first chunk as if it were the whole file.
    alone: Option<blake3::Hash>,
    size: u64,
}

impl Digester {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let Self { hasher, chunks, alone, size } = self;
        feed(hasher, size, bytes, |hasher| close_chunk(hasher, chunks, alone));
    }

    pub(crate) fn finish(mut self) -> Digest {
        if self.chunks.is_empty() {
            return Digest { size: self.size, whole: hex(self.hasher.finalize()), chunks: Vec::new() };
        }
        if !self.size.is_multiple_of(CHUNK_BYTES) {
            close_chunk(&mut self.hasher, &mut self.chunks, &mut self.alone);
        }
        match self.alone.filter(|_| self.chunks.len() == 1) {
            Some(alone) => Digest { size: self.size, whole: hex(alone), chunks: Vec::new() },
            None => {
                let (left, right) = halves(&self.chunks);
                let whole = merge_subtrees_root(&subtree(left), &subtree(right), Mode::Hash);
                let chunks = self.chunks.iter().map(|value| hex(blake3::Hash::from_bytes(*value))).collect();
                Digest { size: self.size, whole: hex(whole), chunks }
            }
        }
    }
}

/// Hashes `bytes`, the next of a file, and closes each chunk that they fill.
fn feed(
    hasher: &mut blake3::Hasher,
    size: &mut u64,
    mut bytes: &[u8],
    mut close: impl FnMut(&mut blake3::Hasher),
) {
    while !bytes.is_empty() {
        let room = usize::try_from(CHUNK_BYTES - *size % CHUNK_BYTES).unwrap_or(usize::MAX);
        let (now, later) = bytes.split_at(bytes.len().min(room));
        hasher.update(now);
        *size += now.len() as u64;
        if size.is_multiple_of(CHUNK_BYTES) {
            close(hasher);
        }
        bytes = later;
    }
}

/// Notes the value of a chunk and goes on with the next one.
fn close_chunk(hasher: &mut blake3::Hasher, chunks: &mut Vec<Value>, alone: &mut Option<blake3::Hash>) {
    if chunks.is_empty() {
        *alone = Some(hasher.finalize());
    }
    chunks.push(hasher.finalize_non_root());
    *hasher = blake3::Hasher::new();
    hasher.set_input_offset(chunks.len() as u64 * CHUNK_BYTES);
}

/// Value of the subtree over some consecutive chunks.
fn subtree(chunks: &[Value]) -> Value {
    match chunks {
        [value] => *value,
        _ => {
            let (left, right) = halves(chunks);
            merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash)
        }
    }
}

/// As BLAKE3 cuts its tree: the left part is the largest power of two that leaves something.
fn halves(chunks: &[Value]) -> (&[Value], &[Value]) {
    chunks.split_at(chunks.len().next_power_of_two() / 2)
}

fn hex(hash: blake3::Hash) -> String {
    hash.to_hex().to_string()
}

/// Digests of the chunks of a file in format 1: each by itself. Takes the file's bytes in order.
#[derive(Debug, Default)]
pub(crate) struct ChunksV1 {
    hasher: blake3::Hasher,
    size: u64,
    chunks: Vec<String>,
}

impl ChunksV1 {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        feed(&mut self.hasher, &mut self.size, bytes, |hasher| close_alone(hasher, &mut self.chunks));
    }

    pub(crate) fn finish(mut self) -> Vec<String> {
        if !self.size.is_multiple_of(CHUNK_BYTES) {
            close_alone(&mut self.hasher, &mut self.chunks);
        }
        self.chunks
    }
}

fn close_alone(hasher: &mut blake3::Hasher, chunks: &mut Vec<String>) {
    chunks.push(hex(hasher.finalize()));
    hasher.reset();
}
