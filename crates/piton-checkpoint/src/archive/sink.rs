//! The zip on its way to the disk: hashed here, written by a thread of its own.

use std::io::Write;
use std::sync::Arc;

use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::sidecar::hex;
use crate::buffer::{Buffer, Pool};
use crate::error::Error;
use crate::file::FileHandle;
use crate::hook::Op;
use crate::pipe::Pipe;

/// The bytes of a zip being saved; see [`Archives::save`](crate::Archives::save). Written in order, from the start.
#[derive(Debug)]
pub struct ArchiveFile {
    file: Arc<FileHandle>,
    pool: Arc<Pool>,
    pipe: Option<Pipe>,
    chunk: Option<Buffer>,
    hasher: Sha256,
    sent: u64,
    failed: Option<Error>,
}

/// Up to this size a file goes through the page cache, and needs no thread.
const SMALL_BYTES: usize = 1024 * 1024;

impl ArchiveFile {
    pub(crate) fn new(file: FileHandle, pool: &Arc<Pool>) -> Self {
        Self {
            file: Arc::new(file),
            pool: Arc::clone(pool),
            pipe: None,
            chunk: None,
            hasher: Sha256::new(),
            sent: 0,
            failed: None,
        }
    }

    /// The first error of any write, even if the caller did not look at it.
    pub(crate) fn take_failed(&mut self) -> Option<Error> {
        self.failed.take()
    }

    /// Writes the rest and syncs; gives SHA-256 and size in bytes.
    pub(crate) fn finish(mut self) -> Result<(String, u64), Error> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        let mut size = self.sent;
        if let Some(chunk) = self.chunk.take() {
            size += chunk.bytes().len() as u64;
            if self.sent == 0 && chunk.bytes().len() <= SMALL_BYTES {
                self.hasher.update(chunk.bytes());
                let written = self.file.write_all(chunk.bytes());
                self.pool.give(chunk);
                written?;
            } else {
                self.send(chunk)?;
            }
        }
        if let Some(pipe) = &mut self.pipe {
            pipe.drain()?;
        }
        self.file.sync()?;
        Ok((hex(self.hasher.finalize()), size))
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let mut chunk = self.chunk.take().unwrap_or_else(|| self.pool.take());
            bytes = chunk.append(bytes);
            match chunk.is_full() {
                true => self.send(chunk)?,
                false => self.chunk = Some(chunk),
            }
        }
        Ok(())
    }

    fn send(&mut self, chunk: Buffer) -> Result<(), Error> {
        if self.pipe.is_none() {
            let started = Pipe::start(Arc::clone(&self.pool));
            let failed = |source| Error::Io { op: Op::Write, path: self.file.path().to_owned(), source };
            self.pipe = Some(started.map_err(failed)?);
        }
        let offset = self.sent;
        self.sent += chunk.bytes().len() as u64;
        // one hash costs about as much as the disk, so the writing runs beside it
        self.hasher.update(chunk.bytes());
        let pipe = self.pipe.as_mut().ok_or(Error::WriterPanicked)?;
        pipe.send(&self.file, offset, chunk)
    }
}

impl Write for ArchiveFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = if self.failed.is_some() { Ok(()) } else { self.put(bytes) };
        if let Err(error) = written {
            self.failed = Some(error);
        }
        match &self.failed {
            Some(error) => {
                let errno = error.errno().unwrap_or(Errno::IO.raw_os_error());
                Err(std::io::Error::from_raw_os_error(errno))
            }
            None => Ok(bytes.len()),
        }
    }

    /// Does nothing: handing over to the kernel and syncing are the save's part.
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
