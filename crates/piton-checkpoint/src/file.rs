//! An open file.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode};
use rustix::io::Errno;

use crate::error::Error;
use crate::hash::{Digest, Digester};
use crate::hook::Op;
use crate::syscall::{self, Hook};

/// Bytes moved by one read or write.
pub(crate) const BLOCK_BYTES: usize = 1024 * 1024;

/// A file held open, with the path to show in messages.
#[derive(Debug)]
pub(crate) struct FileHandle {
    fd: OwnedFd,
    path: PathBuf,
    hook: Hook,
}

impl FileHandle {
    pub(crate) fn new(fd: OwnedFd, path: PathBuf, hook: Hook) -> Self {
        Self { fd, path, hook }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn into_file(self) -> File {
        File::from(self.fd)
    }

    pub(crate) fn write_all(&self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let now = bytes.len().min(BLOCK_BYTES);
            let written = syscall::make_sized(&self.hook, Op::Write, &self.path, now, |most| {
                rustix::io::write(&self.fd, &bytes[..most])
            })
            .map_err(|error| syscall::explain(error, self.fd.as_fd(), bytes.len() as u64))?;
            if written == 0 {
                return Err(Error::call(Op::Write, &self.path, Errno::IO));
            }
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Reads into `buffer`; 0 at the end.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let size = buffer.len();
        syscall::make_sized(&self.hook, Op::Read, &self.path, size, |most| {
            rustix::io::read(&self.fd, &mut buffer[..most])
        })
    }

    /// Reads from here to the end in blocks.
    pub(crate) fn blocks(&self, mut take: impl FnMut(&[u8])) -> Result<(), Error> {
        let mut buffer = vec![0; BLOCK_BYTES];
        loop {
            match self.read(&mut buffer)? {
                0 => return Ok(()),
                count => take(&buffer[..count]),
            }
        }
    }

    /// Size and digests of what is from here to the end.
    pub(crate) fn digest(&self) -> Result<Digest, Error> {
        let mut digester = Digester::default();
        self.blocks(|block| digester.update(block))?;
        Ok(digester.finish())
    }

    /// Goes back to the start.
    pub(crate) fn rewind(&self) -> Result<(), Error> {
        let start = rustix::fs::SeekFrom::Start(0);
        syscall::make(&self.hook, Op::Read, &self.path, || rustix::fs::seek(&self.fd, start)).map(drop)
    }

    pub(crate) fn sync(&self) -> Result<(), Error> {
        syscall::make(&self.hook, Op::Sync, &self.path, || rustix::fs::fsync(&self.fd))
            .map_err(|error| syscall::explain(error, self.fd.as_fd(), 0))
    }

    /// Size in bytes; `None` when this is not a regular file.
    pub(crate) fn size(&self) -> Result<Option<u64>, Error> {
        let stat = syscall::make(&self.hook, Op::Stat, &self.path, || rustix::fs::fstat(&self.fd))?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Ok(if is_file { u64::try_from(stat.st_size).ok() } else { None })
    }

    pub(crate) fn set_mode(&self, mode: u32) -> Result<(), Error> {
        let mode = Mode::from_raw_mode(mode);
        syscall::make(&self.hook, Op::Chmod, &self.path, || rustix::fs::fchmod(&self.fd, mode))
    }

    /// Empties the file.
    pub(crate) fn truncate(&self) -> Result<(), Error> {
        syscall::make(&self.hook, Op::Truncate, &self.path, || rustix::fs::ftruncate(&self.fd, 0))
    }

    /// Takes a lock; `false` when somebody holds one that excludes it.
    pub(crate) fn try_lock(&self, exclusive: bool) -> Result<bool, Error> {
        syscall::try_lock(&self.hook, self.fd.as_fd(), &self.path, exclusive)
    }

    pub(crate) fn unlock(&self) {
        syscall::unlock(self.fd.as_fd());
    }
}
