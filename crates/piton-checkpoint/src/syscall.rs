//! One place where a system call is made: the hook is asked, EINTR is retried, errors get their names.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::error::Error;
use crate::hook::{FileHook, Op, Verdict};

pub(crate) type Hook = Option<Arc<dyn FileHook>>;

/// Makes a call, unless the hook fails it.
pub(crate) fn make<T>(
    hook: &Hook,
    op: Op,
    path: &Path,
    mut call: impl FnMut() -> rustix::io::Result<T>,
) -> Result<T, Error> {
    make_sized(hook, op, path, usize::MAX, |_| call())
}

/// As [`make`], for a call that may be told to handle at most so many bytes.
pub(crate) fn make_sized<T>(
    hook: &Hook,
    op: Op,
    path: &Path,
    size: usize,
    mut call: impl FnMut(usize) -> rustix::io::Result<T>,
) -> Result<T, Error> {
    loop {
        let result = match hook.as_ref().map_or(Verdict::Go, |hook| hook.before(op, path)) {
            Verdict::Go => call(size),
            Verdict::Short(most) => call(size.min(most)),
            Verdict::Fail(errno) => Err(Errno::from_raw_os_error(errno)),
            Verdict::FailAfter(errno) => call(size).and(Err(Errno::from_raw_os_error(errno))),
        };
        match result {
            Err(Errno::INTR) => {}
            other => return other.map_err(|errno| Error::call(op, path, errno)),
        }
    }
}

/// Turns a full disk into [`Error::NoSpace`], with what is free now.
pub(crate) fn explain(error: Error, fd: BorrowedFd<'_>, needed: u64) -> Error {
    match error {
        Error::Io { op, path, source } if source.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) => {
            Error::NoSpace { op, path, needed, free: free(fd).unwrap_or(0) }
        }
        other => other,
    }
}

pub(crate) fn free(fd: BorrowedFd<'_>) -> rustix::io::Result<u64> {
    let stat = rustix::fs::fstatvfs(fd)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Takes a `flock`; `false` when it is held elsewhere in a way that excludes this one.
pub(crate) fn try_lock(hook: &Hook, fd: BorrowedFd<'_>, path: &Path, exclusive: bool) -> Result<bool, Error> {
    let how = match exclusive {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    make(hook, Op::Lock, path, || match rustix::fs::flock(fd, how) {
        Err(Errno::WOULDBLOCK) => Ok(false),
        other => other.map(|()| true),
    })
}

/// Gives a `flock` up at once. Closing the descriptor is not enough: a child forked by another thread shares it until
/// its `exec`.
pub(crate) fn unlock(fd: BorrowedFd<'_>) {
    // Nothing can be done about a failure, and the close that follows frees the lock as well.
    let _ = rustix::fs::flock(fd, FlockOperation::Unlock);
}
