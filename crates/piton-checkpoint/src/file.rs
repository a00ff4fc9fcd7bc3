//! An open file.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::buffer::{PAGE_BYTES, Pool};
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

    /// Writes all of `bytes` at `offset`, past the page cache where file system and alignment allow.
    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64, pool: &Pool) -> Result<(), Error> {
        let mut done = 0;
        let mut direct = pool.tries_direct() && self.set_direct(true, pool)?;
        while done < bytes.len() {
            let left = &bytes[done..];
            let aligned = left.len() - left.len() % PAGE_BYTES;
            if direct && (aligned == 0 || done % PAGE_BYTES != 0) {
                direct = !self.set_direct(false, pool)?;
            }
            let now = if direct { aligned } else { left.len() };
            let at = offset + done as u64;
            let written = syscall::make_sized(&self.hook, Op::Write, &self.path, now, |most| {
                rustix::io::pwrite(&self.fd, &left[..most], at)
            });
            match written {
                Ok(0) => return Err(Error::call(Op::Write, &self.path, Errno::IO)),
                Ok(count) => done += count,
                // the file system took the flag and not the write, or the write was cut short at an odd place
                Err(error) if direct && error.is(Errno::INVAL) => direct = !self.set_direct(false, pool)?,
                Err(error) => return Err(syscall::explain(error, self.fd.as_fd(), left.len() as u64)),
            }
        }
        if direct {
            self.set_direct(false, pool)?;
        }
        Ok(())
    }

    /// Switches direct writing; says whether it is as wished. A file system that has none is remembered.
    fn set_direct(&self, on: bool, pool: &Pool) -> Result<bool, Error> {
        let flags = if on { OFlags::DIRECT } else { OFlags::empty() };
        match syscall::make(&self.hook, Op::Direct, &self.path, || rustix::fs::fcntl_setfl(&self.fd, flags)) {
            Ok(()) => Ok(true),
            Err(error) if on && error.is(Errno::INVAL) => {
                pool.direct_is_refused();
                Ok(false)
            }
            Err(error) => Err(error),
        }
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
