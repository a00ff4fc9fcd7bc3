//! A sparse disk in memory, and the log of what was written to it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

/// Bytes of a block.
const BLOCK: usize = 4096;

/// What a disk can lose a write in: a write tears at multiples of this many bytes.
pub(super) const SECTOR: usize = 512;

/// A disk's content; what was never written reads as zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    blocks: BTreeMap<u64, Box<[u8]>>,
}

/// What happened to a disk, in order.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// Bytes were handed to the disk, which may keep them in its cache.
    Write(Write),
    /// Whatever was written before is on the platter.
    Flush,
    /// The writer said so; not the disk's business.
    Mark(String),
}

/// Bytes handed to a disk.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub offset: u64,
    pub data: Arc<[u8]>,
}

impl Image {
    /// Reads a file.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let (mut image, mut offset, mut buffer) = (Self::default(), 0, vec![0; 1 << 20]);
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                return Ok(image);
            }
            for (at, bytes) in buffer[..read].chunks(BLOCK).enumerate() {
                if bytes.iter().any(|byte| *byte != 0) {
                    image.write(&Self::default(), offset + (at * BLOCK) as u64, bytes);
                }
            }
            offset += read as u64;
        }
    }

    pub(super) fn read(&self, under: &Self, offset: u64, into: &mut [u8]) {
        each_block(offset, into.len(), |block, within, range| {
            let found = self.blocks.get(&block).or_else(|| under.blocks.get(&block));
            match found {
                Some(bytes) => into[range.clone()].copy_from_slice(&bytes[within..within + range.len()]),
                None => into[range].fill(0),
            }
        });
    }

    /// Writes; a block that is written in part is first copied from `under`.
    pub(super) fn write(&mut self, under: &Self, offset: u64, data: &[u8]) {
        each_block(offset, data.len(), |block, within, range| {
            let bytes = self.blocks.entry(block).or_insert_with(|| match under.blocks.get(&block) {
                Some(bytes) => bytes.clone(),
                None => vec![0; BLOCK].into(),
            });
            bytes[within..within + range.len()].copy_from_slice(&data[range]);
        });
    }

    pub(super) fn clear(&mut self) {
        self.blocks.clear();
    }
}

/// Cuts a range at block borders: the block, the offset in it, and the part of the range.
fn each_block(offset: u64, len: usize, mut each: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let within = usize::try_from(at % BLOCK as u64).unwrap_or_default();
        let now = (BLOCK - within).min(len - done);
        each(at / BLOCK as u64, within, done..done + now);
        done += now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_above_hides_what_is_below_and_leaves_it_as_it_was() {
        let (mut below, nothing) = (Image::default(), Image::default());
        below.write(&nothing, 4090, b"abcdefghijkl");
        let mut above = Image::default();
        above.write(&below, 4095, b"XY");
        let mut read = [9; 14];
        above.read(&below, 4089, &mut read);
        assert_eq!(&read, b"\0abcdeXYhijkl\0");
        below.read(&nothing, 4089, &mut read);
        assert_eq!(&read, b"\0abcdefghijkl\0");
    }
}
