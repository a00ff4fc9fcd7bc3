//! Hashing a file once, as a whole and in chunks.

/// Bytes covered by one entry of a file's chunk list: 4 MiB.
pub const CHUNK_BYTES: u64 = 4 * 1024 * 1024;

/// Size and digests of a file. `chunks` is empty when the file fits one chunk, since then `whole` says it all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) size: u64,
    pub(crate) whole: String,
    pub(crate) chunks: Vec<String>,
}

/// The digest so far, as 64 lower-case hex digits.
pub(crate) fn hex(hasher: &blake3::Hasher) -> String {
    hasher.finalize().to_hex().to_string()
}

/// Takes a file's bytes in order.
#[derive(Debug, Default)]
pub(crate) struct Digester {
    whole: blake3::Hasher,
    chunk: blake3::Hasher,
    chunks: Vec<String>,
    size: u64,
}

impl Digester {
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = usize::try_from(CHUNK_BYTES - self.size % CHUNK_BYTES).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.whole.update(now);
            // The first chunk is a prefix of the file: `whole` stands for it, and small files are hashed once.
            if self.size >= CHUNK_BYTES {
                self.chunk.update(now);
            }
            self.size += now.len() as u64;
            if self.size.is_multiple_of(CHUNK_BYTES) {
                self.close_chunk();
            }
            bytes = later;
        }
    }

    pub(crate) fn finish(mut self) -> Digest {
        if !self.size.is_multiple_of(CHUNK_BYTES) {
            self.close_chunk();
        }
        if self.chunks.len() == 1 {
            self.chunks.clear();
        }
        Digest { size: self.size, whole: hex(&self.whole), chunks: self.chunks }
    }

    fn close_chunk(&mut self) {
        let digest = if self.chunks.is_empty() { hex(&self.whole) } else { hex(&self.chunk) };
        self.chunks.push(digest);
        self.chunk.reset();
    }
}
