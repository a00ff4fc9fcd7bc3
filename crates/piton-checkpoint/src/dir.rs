//! An open directory: all work on a store happens relative to one of these, never through links.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::file::FileHandle;
use crate::hook::{FileHook, Op};
use crate::syscall::{self, Hook};

/// A directory held open, with the path to show in messages.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
    hook: Hook,
}

/// What a directory entry is, links not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Dir,
    Other,
}

impl Kind {
    fn of(stat: &rustix::fs::Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Dir,
            _ => Self::Other,
        }
    }
}

/// An entry of a directory tree.
#[derive(Debug)]
pub(crate) struct Found {
    /// From the directory that was asked.
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    /// In bytes.
    pub(crate) size: u64,
    /// Type and permissions.
    pub(crate) mode: u32,
}

const DIR_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Dir {
    /// Opens the directory at `path`; a link there is followed, since the user named it.
    pub(crate) fn open(path: &Path, hook: Option<Arc<dyn FileHook>>) -> Result<Self, Error> {
        let fd =
            syscall::make(&hook, Op::OpenDir, path, || rustix::fs::open(path, DIR_FLAGS, Mode::empty()))?;
        Ok(Self { fd, path: path.to_owned(), hook })
    }

    /// The same open directory under the name it was given since.
    pub(crate) fn renamed(self, path: PathBuf) -> Self {
        Self { path, ..self }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a directory inside; a link there is refused.
    pub(crate) fn child(&self, name: impl AsRef<OsStr>) -> Result<Self, Error> {
        let name = name.as_ref();
        let path = self.path.join(name);
        let flags = DIR_FLAGS | OFlags::NOFOLLOW;
        let fd =
            self.make(Op::OpenDir, &path, || rustix::fs::openat(&self.fd, name, flags, Mode::empty()))?;
        Ok(Self { fd, path, hook: self.hook.clone() })
    }

    /// The directory that this one is in now.
    pub(crate) fn parent(&self) -> Result<Self, Error> {
        self.child("..")
    }

    /// Another handle on the same directory.
    pub(crate) fn again(&self) -> Result<Self, Error> {
        let fd = self
            .make(Op::OpenDir, &self.path, || rustix::fs::openat(&self.fd, ".", DIR_FLAGS, Mode::empty()))?;
        Ok(Self { fd, path: self.path.clone(), hook: self.hook.clone() })
    }

    /// Opens a file for reading at a checked relative path, no component of which may be a link.
    pub(crate) fn open_file(&self, rel: &str) -> Result<FileHandle, Error> {
        match rel.split_once('/') {
            Some((first, rest)) => self.child(first)?.open_file(rest),
            None => {
                let path = self.path.join(rel);
                // NONBLOCK: a FIFO planted under a known name must not hang the reader.
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
                let fd =
                    self.make(Op::Open, &path, || rustix::fs::openat(&self.fd, rel, flags, Mode::empty()))?;
                Ok(FileHandle::new(fd, path, self.hook.clone()))
            }
        }
    }

    /// Creates a file that is not there yet, with the directories on the way; the mode follows the umask.
    pub(crate) fn create_file(&self, rel: &str) -> Result<FileHandle, Error> {
        match rel.split_once('/') {
            Some((first, rest)) => match self.make_dir(first) {
                Err(error) if !error.is(Errno::EXIST) => Err(error),
                _ => self.child(first)?.create_file(rest),
            },
            None => self.create_with(rel, OFlags::EXCL | OFlags::WRONLY),
        }
    }

    /// Gives the file at `rel` in `source` the same path here, making the directories on the way; no component may be a
    /// link. `false` where the file system cannot.
    pub(crate) fn link(&self, rel: &str, source: &Self) -> Result<bool, Error> {
        if let Some((first, rest)) = rel.split_once('/') {
            return match self.make_dir(first) {
                Err(error) if !error.is(Errno::EXIST) => Err(error),
                _ => self.child(first)?.link(rest, &source.child(first)?),
            };
        }
        let path = self.path.join(rel);
        let link = || rustix::fs::linkat(&source.fd, rel, &self.fd, rel, AtFlags::empty());
        match self.make(Op::Link, &path, link) {
            Ok(()) => Ok(true),
            Err(error)
                if [Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS, Errno::MLINK, Errno::XDEV]
                    .iter()
                    .any(|errno| error.is(*errno)) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens a file for reading and writing, creating it if need be.
    pub(crate) fn open_or_create(&self, name: &str) -> Result<FileHandle, Error> {
        self.create_with(name, OFlags::RDWR)
    }

    fn create_with(&self, name: &str, flags: OFlags) -> Result<FileHandle, Error> {
        let path = self.path.join(name);
        let flags = flags | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let fd = self.make(Op::Create, &path, || rustix::fs::openat(&self.fd, name, flags, mode))?;
        Ok(FileHandle::new(fd, path, self.hook.clone()))
    }

    /// Makes a directory; the mode follows the umask.
    pub(crate) fn make_dir(&self, name: impl AsRef<OsStr>) -> Result<(), Error> {
        let name = name.as_ref();
        let mode = Mode::from_raw_mode(0o777);
        self.make(Op::MakeDir, &self.path.join(name), || rustix::fs::mkdirat(&self.fd, name, mode))
    }

    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.make(Op::SyncDir, &self.path, || rustix::fs::fsync(&self.fd))
    }

    /// Type and permissions of this directory.
    pub(crate) fn mode(&self) -> Result<u32, Error> {
        Ok(self.make(Op::Stat, &self.path, || rustix::fs::fstat(&self.fd))?.st_mode)
    }

    /// All names, in the order the kernel gives them.
    pub(crate) fn list(&self) -> Result<Vec<OsString>, Error> {
        self.make(Op::List, &self.path, || {
            let mut names = Vec::new();
            for entry in rustix::fs::Dir::read_from(&self.fd)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if name != b"." && name != b".." {
                    names.push(OsStr::from_bytes(name).to_owned());
                }
            }
            Ok(names)
        })
    }

    /// What `name` is; `None` when there is no such entry.
    pub(crate) fn kind(&self, name: impl AsRef<OsStr>) -> Result<Option<Kind>, Error> {
        Ok(self.stat(name.as_ref())?.map(|stat| Kind::of(&stat)))
    }

    fn stat(&self, name: &OsStr) -> Result<Option<rustix::fs::Stat>, Error> {
        self.make(Op::Stat, &self.path.join(name), || {
            match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => Ok(None),
                other => other.map(Some),
            }
        })
    }

    /// Everything below: each directory before what it holds, siblings by name, links not followed.
    pub(crate) fn tree(&self) -> Result<Vec<Found>, Error> {
        let mut found = Vec::new();
        self.add_tree(Path::new(""), &mut found)?;
        Ok(found)
    }

    fn add_tree(&self, inside: &Path, found: &mut Vec<Found>) -> Result<(), Error> {
        let mut names = self.list()?;
        names.sort_unstable();
        for name in names {
            let Some(stat) = self.stat(&name)? else { continue };
            let (path, kind) = (inside.join(&name), Kind::of(&stat));
            found.push(Found {
                path: path.clone(),
                kind,
                size: stat.st_size.unsigned_abs(),
                mode: stat.st_mode,
            });
            if kind == Kind::Dir {
                self.child(&name)?.add_tree(&path, found)?;
            }
        }
        Ok(())
    }

    /// Renames `from` to `to` (in `target`), which must not exist.
    pub(crate) fn rename_to(&self, from: &OsStr, target: &Self, to: &OsStr) -> Result<(), Error> {
        let path = self.path.join(from);
        let renamed = self.make(Op::Rename, &path, || {
            rustix::fs::renameat_with(&self.fd, from, &target.fd, to, RenameFlags::NOREPLACE)
        });
        match renamed {
            // A file system without the flag: the lock is ours, so looking first is as good.
            Err(error) if error.is(Errno::INVAL) || error.is(Errno::NOSYS) => {
                self.make(Op::Rename, &path, || {
                    match rustix::fs::statat(&target.fd, to, AtFlags::SYMLINK_NOFOLLOW) {
                        Err(Errno::NOENT) => rustix::fs::renameat(&self.fd, from, &target.fd, to),
                        Ok(_) => Err(Errno::EXIST),
                        Err(errno) => Err(errno),
                    }
                })
            }
            other => other,
        }
    }

    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), Error> {
        self.rename_to(from, self, to)
    }

    /// As [`rename_to`](Self::rename_to), for a directory that is held open. An error is believed only if `to` is not
    /// that directory afterwards: a network disk may lose the reply to a rename it made.
    pub(crate) fn rename_held(
        &self,
        from: &OsStr,
        target: &Self,
        to: &OsStr,
        held: &Self,
    ) -> Result<(), Error> {
        match self.rename_to(from, target, to) {
            Err(_) if target.has(to, held) => Ok(()),
            other => other,
        }
    }

    /// True when `name` in here is the directory `held`, and not another one that took its name.
    pub(crate) fn has(&self, name: &OsStr, held: &Self) -> bool {
        let here = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        match (here, rustix::fs::fstat(&held.fd)) {
            (Ok(here), Ok(held)) => (here.st_dev, here.st_ino) == (held.st_dev, held.st_ino),
            _ => false,
        }
    }

    /// Writes a small file, in place of an older one or none, by way of `temporary`: whole or not at all.
    pub(crate) fn put(&self, name: &str, temporary: &str, bytes: &[u8]) -> Result<(), Error> {
        let file = self.create_file(temporary)?;
        let written =
            file.write_all(bytes).and_then(|()| file.sync()).and_then(|()| self.replace(temporary, name));
        match written {
            Ok(()) => self.sync(),
            Err(error) => {
                // What stays is swept like a stage.
                drop(self.remove_file(temporary.as_ref()));
                Err(error)
            }
        }
    }

    /// Renames a file over whatever file has the name `to`.
    pub(crate) fn replace(&self, from: &str, to: &str) -> Result<(), Error> {
        let rename = || rustix::fs::renameat(&self.fd, from, &self.fd, to);
        self.make(Op::Replace, &self.path.join(from), rename)
    }

    pub(crate) fn remove_file(&self, name: &OsStr) -> Result<(), Error> {
        self.make(Op::Unlink, &self.path.join(name), || {
            rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())
        })
    }

    pub(crate) fn remove_dir(&self, name: &OsStr) -> Result<(), Error> {
        self.make(Op::RemoveDir, &self.path.join(name), || {
            rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)
        })
    }

    /// Who owns it, for people: `uid 1000, gid 1000, mode 0755`.
    pub(crate) fn owner(&self) -> String {
        match rustix::fs::fstat(&self.fd) {
            Ok(stat) => {
                format!("uid {}, gid {}, mode {:04o}", stat.st_uid, stat.st_gid, stat.st_mode & 0o7777)
            }
            Err(errno) => format!("an owner that cannot be told ({errno})"),
        }
    }

    /// Swaps two names in one step.
    pub(crate) fn exchange(&self, a: &OsStr, b: &OsStr) -> Result<(), Error> {
        self.make(Op::Exchange, &self.path.join(b), || {
            rustix::fs::renameat_with(&self.fd, a, &self.fd, b, RenameFlags::EXCHANGE)
        })
    }

    /// Removes `name` and all below it, never following a link. What cannot be removed (an `.nfs` file that somebody has
    /// open) does not keep the rest; the first error is returned.
    pub(crate) fn remove_tree(&self, name: &OsStr) -> Result<(), Error> {
        let gone = match self.kind(name)? {
            None => return Ok(()),
            Some(Kind::File | Kind::Other) => self.remove_file(name),
            Some(Kind::Dir) => {
                let emptied = self.child(name).and_then(|child| {
                    let removed = child.list()?.into_iter().map(|inner| child.remove_tree(&inner));
                    removed.fold(Ok(()), Result::and)
                });
                emptied.and_then(|()| self.remove_dir(name))
            }
        };
        match gone {
            // Somebody else was faster.
            Err(error) if error.is(Errno::NOENT) => Ok(()),
            other => other,
        }
    }

    /// Bytes an unprivileged writer may still use.
    pub(crate) fn free_bytes(&self) -> Result<u64, Error> {
        self.make(Op::Space, &self.path, || syscall::free(self.fd.as_fd()))
    }

    /// Takes a lock on the directory itself; `false` when somebody holds one that excludes it.
    pub(crate) fn try_lock(&self, exclusive: bool) -> Result<bool, Error> {
        syscall::try_lock(&self.hook, self.fd.as_fd(), &self.path, exclusive)
    }

    pub(crate) fn unlock(&self) {
        syscall::unlock(self.fd.as_fd());
    }

    fn make<T>(&self, op: Op, path: &Path, call: impl FnMut() -> rustix::io::Result<T>) -> Result<T, Error> {
        syscall::make(&self.hook, op, path, call).map_err(|error| syscall::explain(error, self.fd.as_fd(), 0))
    }
}
