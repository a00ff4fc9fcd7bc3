//! The seam in the file layer: every system call of the store can be watched, failed or cut short.

use std::fmt;
use std::path::Path;

/// Looks at each system call the store is about to make. For tests; a store without a hook skips it.
pub trait FileHook: fmt::Debug + Send + Sync {
    /// Called before the call is made; the answer decides what happens instead.
    fn before(&self, op: Op, path: &Path) -> Verdict;
}

/// What a [`FileHook`] wants done with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Make the call.
    Go,
    /// Do not make it; it fails with this `errno`.
    Fail(i32),
    /// Make it, and say that it failed with this `errno`: the lost reply of a network disk.
    FailAfter(i32),
    /// Let a write take at most this many bytes; any other call goes ahead.
    Short(usize),
}

/// One kind of system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Opening a directory.
    OpenDir,
    /// Listing a directory.
    List,
    /// Making a directory.
    MakeDir,
    /// Taking a file lock.
    Lock,
    /// Creating a file.
    Create,
    /// Writing to a file.
    Write,
    /// Switching a file to or from writing past the page cache.
    Direct,
    /// Giving a file of an earlier checkpoint a second name.
    Link,
    /// Cutting a file to a length.
    Truncate,
    /// Setting a file's mode.
    Chmod,
    /// Syncing a file.
    Sync,
    /// Syncing a directory.
    SyncDir,
    /// Renaming to a name that is free.
    Rename,
    /// Renaming over a name that may be taken.
    Replace,
    /// Swapping two names.
    Exchange,
    /// Opening a file to read.
    Open,
    /// Reading from a file.
    Read,
    /// Asking for size and type.
    Stat,
    /// Removing a file.
    Unlink,
    /// Removing a directory.
    RemoveDir,
    /// Asking for free space.
    Space,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenDir => "open directory",
            Self::List => "list directory",
            Self::MakeDir => "make directory",
            Self::Lock => "lock",
            Self::Create => "create",
            Self::Write => "write",
            Self::Direct => "switch direct writing of",
            Self::Link => "link",
            Self::Truncate => "truncate",
            Self::Chmod => "set mode of",
            Self::Sync => "fsync",
            Self::SyncDir => "fsync directory",
            Self::Rename | Self::Replace => "rename",
            Self::Exchange => "exchange",
            Self::Open => "open",
            Self::Read => "read",
            Self::Stat => "stat",
            Self::Unlink => "remove",
            Self::RemoveDir => "remove directory",
            Self::Space => "ask free space of",
        })
    }
}
