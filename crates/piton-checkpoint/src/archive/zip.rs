//! A zip whose members are stored as they are.

use std::collections::BTreeSet;
use std::io::{self, Write};

/// Writes a zip without compression: weights do not compress, and readers can seek in a stored member.
///
/// The bytes are a function of the members alone (the time stamp is 1980-01-01), and up to 2 GB those that Python's
/// `zipfile` writes for the same members. Sizes and counts beyond the first zip format get zip64 records.
///
/// ```
/// use piton_checkpoint::StoredZip;
///
/// # fn main() -> std::io::Result<()> {
/// let mut zip = StoredZip::new(Vec::new());
/// zip.add("data", b"{}")?;
/// zip.add("state/step", b"64")?;
/// let bytes = zip.finish()?;
/// assert!(bytes.starts_with(b"PK\x03\x04"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StoredZip<W> {
    out: W,
    at: u64,
    count: u64,
    names: BTreeSet<String>,
    /// The central directory so far.
    directory: Vec<u8>,
}

const VERSION: u16 = 20;
const VERSION_ZIP64: u16 = 45;
/// Month and day 1, year 1980.
const DATE: u16 = 0x21;
/// The name is UTF-8.
const UTF8: u16 = 0x800;
const UNIX: u8 = 3;
const MODE: u32 = 0o600 << 16;
const FULL: u32 = u32::MAX;

impl<W: Write> StoredZip<W> {
    /// Starts a zip at the beginning of `out`.
    pub fn new(out: W) -> Self {
        Self { out, at: 0, count: 0, names: BTreeSet::new(), directory: Vec::new() }
    }

    /// Adds a member.
    ///
    /// # Errors
    /// A name that is empty, absolute, longer than 65,535 bytes or already there; otherwise what `out` says.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let refuse = |reason| {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("zip member {name:?}: {reason}")))
        };
        let Ok(name_len) = u16::try_from(name.len()) else { return refuse("name longer than 65535 bytes") };
        if name.is_empty() || name.starts_with('/') {
            return refuse("empty or absolute name");
        }
        if !self.names.insert(name.to_owned()) {
            return refuse("added twice");
        }
        let (offset, size) = (self.at, bytes.len() as u64);
        let crc = crc32fast::hash(bytes);
        let flags = if name.is_ascii() { 0 } else { UTF8 };
        let small = u32::try_from(size).ok().filter(|size| *size != FULL);

        let mut local = Vec::new();
        local.extend(b"PK\x03\x04");
        u16s(&mut local, &[if small.is_some() { VERSION } else { VERSION_ZIP64 }, flags, 0, 0, DATE]);
        u32s(&mut local, &[crc, small.unwrap_or(FULL), small.unwrap_or(FULL)]);
        u16s(&mut local, &[name_len, if small.is_some() { 0 } else { 20 }]);
        local.extend(name.as_bytes());
        if small.is_none() {
            u16s(&mut local, &[1, 16]);
            u64s(&mut local, &[size, size]);
        }
        self.out.write_all(&local)?;
        self.out.write_all(bytes)?;
        self.at += local.len() as u64 + size;
        self.count += 1;

        let near = u32::try_from(offset).ok().filter(|offset| *offset != FULL);
        let mut wide = Vec::new();
        if small.is_none() {
            u64s(&mut wide, &[size, size]);
        }
        if near.is_none() {
            u64s(&mut wide, &[offset]);
        }
        let version = if wide.is_empty() { VERSION } else { VERSION_ZIP64 };
        let wide_len: u16 = match (small, near) {
            (Some(_), Some(_)) => 0,
            (Some(_), None) => 8,
            (None, Some(_)) => 16,
            (None, None) => 24,
        };
        let directory = &mut self.directory;
        directory.extend(b"PK\x01\x02");
        directory.extend([version.to_le_bytes()[0], UNIX]);
        u16s(directory, &[version, flags, 0, 0, DATE]);
        u32s(directory, &[crc, small.unwrap_or(FULL), small.unwrap_or(FULL)]);
        u16s(directory, &[name_len, if wide_len == 0 { 0 } else { wide_len + 4 }, 0, 0, 0]);
        u32s(directory, &[MODE, near.unwrap_or(FULL)]);
        directory.extend(name.as_bytes());
        if wide_len > 0 {
            u16s(directory, &[1, wide_len]);
            directory.extend(wide);
        }
        Ok(())
    }

    /// Writes the central directory and gives `out` back.
    ///
    /// # Errors
    /// What `out` says.
    pub fn finish(mut self) -> io::Result<W> {
        let (start, size, count) = (self.at, self.directory.len() as u64, self.count);
        let mut end = self.directory;
        let narrow = |value: u64| u32::try_from(value).unwrap_or(FULL);
        if count > u64::from(u16::MAX) || start >= u64::from(FULL) || size >= u64::from(FULL) {
            end.extend(b"PK\x06\x06");
            u64s(&mut end, &[44]);
            u16s(&mut end, &[VERSION_ZIP64, VERSION_ZIP64]);
            u32s(&mut end, &[0, 0]);
            u64s(&mut end, &[count, count, size, start]);
            end.extend(b"PK\x06\x07");
            u32s(&mut end, &[0]);
            u64s(&mut end, &[start + size]);
            u32s(&mut end, &[1]);
        }
        let few = u16::try_from(count).unwrap_or(u16::MAX);
        end.extend(b"PK\x05\x06");
        u16s(&mut end, &[0, 0, few, few]);
        u32s(&mut end, &[narrow(size), narrow(start)]);
        u16s(&mut end, &[0]);
        self.out.write_all(&end)?;
        Ok(self.out)
    }
}

fn u16s(out: &mut Vec<u8>, values: &[u16]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn u32s(out: &mut Vec<u8>, values: &[u32]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn u64s(out: &mut Vec<u8>, values: &[u64]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}
