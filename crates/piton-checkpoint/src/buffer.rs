//! Aligned memory for direct writes, used again and again: fresh memory costs more than the disk.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::hash::CHUNK_BYTES;

/// What addresses, offsets and lengths of direct writes are multiples of; no disk wants more.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Bytes of a buffer: one chunk of the file's hash.
#[expect(clippy::cast_possible_truncation, reason = "4 MiB")]
pub(crate) const BUFFER_BYTES: usize = CHUNK_BYTES as usize;

/// Up to one chunk of a file.
pub(crate) struct Buffer {
    memory: Vec<u8>,
    /// Where the aligned part begins.
    start: usize,
    len: usize,
}

impl Buffer {
    fn new() -> Self {
        let mut memory = vec![0; BUFFER_BYTES + PAGE_BYTES];
        // the kernel gives a page when it is first written: now, and not in the middle of a save
        memory.fill(0x5a);
        let start = memory.as_ptr().align_offset(PAGE_BYTES);
        Self { memory, start, len: 0 }
    }

    /// Copies as many of `bytes` as there is room for; gives the rest.
    pub(crate) fn append<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let (now, later) = bytes.split_at(bytes.len().min(BUFFER_BYTES - self.len));
        self.memory[self.start + self.len..][..now.len()].copy_from_slice(now);
        self.len += now.len();
        later
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == BUFFER_BYTES
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.len]
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}

/// The buffers of a store that are not in use, and what its file system was found to allow.
#[derive(Debug)]
pub(crate) struct Pool {
    free: Mutex<Vec<Buffer>>,
    /// Free buffers that are kept.
    keep: AtomicUsize,
    /// Set when the file system refused a direct write.
    buffered_only: AtomicBool,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            free: Mutex::default(),
            keep: AtomicUsize::new(crate::pipe::MAX_IN_FLIGHT + 1),
            buffered_only: AtomicBool::new(false),
        }
    }
}

impl Pool {
    pub(crate) fn take(&self) -> Buffer {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(Buffer::new)
    }

    pub(crate) fn give(&self, mut buffer: Buffer) {
        buffer.len = 0;
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < self.keep.load(Ordering::Relaxed) {
            free.push(buffer);
        }
    }

    /// Keeps enough for `bytes` from now on, if that is more than before.
    pub(crate) fn keep(&self, bytes: u64) {
        let buffers = usize::try_from(bytes.div_ceil(CHUNK_BYTES)).unwrap_or(usize::MAX);
        self.keep.fetch_max(buffers, Ordering::Relaxed);
    }

    /// Makes the buffers for `bytes` now.
    pub(crate) fn fill(&self, bytes: u64) {
        self.keep(bytes);
        let wanted = bytes.div_ceil(CHUNK_BYTES);
        loop {
            let there = self.free.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
            if there >= wanted {
                return;
            }
            self.give(Buffer::new());
        }
    }

    pub(crate) fn tries_direct(&self) -> bool {
        !self.buffered_only.load(Ordering::Relaxed)
    }

    pub(crate) fn direct_is_refused(&self) {
        self.buffered_only.store(true, Ordering::Relaxed);
    }
}
