//! A disk that remembers every write and every flush: a file served through FUSE, to be put under a loop device.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, WriteFlags,
};

use super::image::{Event, Image, Write};

const TTL: Duration = Duration::from_secs(3600);
const DISK: INodeNo = INodeNo(2);
const MARK: INodeNo = INodeNo(3);

/// A mounted FUSE file system with the files `disk.img` and `mark`. What is written to `mark` stands in the log between
/// the writes to the disk.
#[derive(Debug)]
pub(super) struct Disk {
    dir: PathBuf,
    state: Arc<Mutex<State>>,
    session: Option<BackgroundSession>,
}

/// A disk as `under`, with `over` on top of it, which takes the writes.
#[derive(Debug, Default)]
struct State {
    bytes: u64,
    under: Image,
    over: Image,
    /// Kept while something is recorded.
    log: Option<Vec<Event>>,
}

impl Disk {
    /// A disk of so many bytes with this content, mounted on the directory `dir`.
    pub(super) fn mount(dir: &Path, bytes: u64, under: Image) -> Result<Self> {
        let state = Arc::new(Mutex::new(State { bytes, under, ..State::default() }));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("piton-prove".to_owned())];
        let session = fuser::spawn_mount(Served { state: Arc::clone(&state) }, dir, &config)
            .context("cannot mount a FUSE file system")?;
        Ok(Self { dir: dir.to_owned(), state, session: Some(session) })
    }

    pub(super) fn image(&self) -> PathBuf {
        self.dir.join("disk.img")
    }

    pub(super) fn mark(&self) -> PathBuf {
        self.dir.join("mark")
    }

    /// Begins to record.
    pub(super) fn record(&self) {
        lock(&self.state).log = Some(Vec::new());
    }

    /// Ends the recording and takes back what was written in it. From now on the disk is what [`Self::set_to`] makes it.
    pub(super) fn take_log(&self) -> Vec<Event> {
        let mut state = lock(&self.state);
        state.over.clear();
        state.log.take().unwrap_or_default()
    }

    /// Puts writes on the platter for good. The disk must not be in use.
    pub(super) fn settle<'a>(&self, writes: impl IntoIterator<Item = &'a Write>) {
        let nothing = Image::default();
        let mut state = lock(&self.state);
        for write in writes {
            state.under.write(&nothing, write.offset, &write.data);
        }
    }

    /// Makes the disk what was settled plus `writes`, forgetting everything else that was written to it meanwhile.
    pub(super) fn set_to<'a>(&self, writes: impl IntoIterator<Item = (u64, &'a [u8])>) {
        let mut state = lock(&self.state);
        let State { under, over, .. } = &mut *state;
        over.clear();
        for (offset, data) in writes {
            over.write(under, offset, data);
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            // A mount that is still busy goes with this process's mount namespace.
            let _ = session.umount_and_join();
        }
    }
}

struct Served {
    state: Arc<Mutex<State>>,
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let ino = match name.to_str() {
            Some("disk.img") => DISK,
            Some("mark") => MARK,
            _ => return reply.error(Errno::ENOENT),
        };
        reply.entry(&TTL, &self.attr(ino), Generation(0));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attr(ino));
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Without KEEP_CACHE an open drops the page cache, so that a disk that was set to something else is read anew.
        let flags = if ino == MARK { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() };
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let state = lock(&self.state);
        let left = if ino == DISK { state.bytes.saturating_sub(offset) } else { 0 };
        let mut bytes = vec![0; usize::try_from(left.min(size.into())).unwrap_or_default()];
        state.over.read(&state.under, offset, &mut bytes);
        reply.data(&bytes);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = lock(&self.state);
        let State { under, over, log, .. } = &mut *state;
        let event = if ino == DISK {
            over.write(under, offset, data);
            Event::Write(Write { offset, data: data.into() })
        } else {
            Event::Mark(String::from_utf8_lossy(data).into_owned())
        };
        if let Some(log) = log {
            log.push(event);
        }
        reply.written(u32::try_from(data.len()).unwrap_or_default());
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if let (DISK, Some(log)) = (ino, &mut lock(&self.state).log) {
            log.push(Event::Flush);
        }
        reply.ok();
    }
}

impl Served {
    fn attr(&self, ino: INodeNo) -> FileAttr {
        let bytes = lock(&self.state).bytes;
        let (kind, perm, size) = match ino {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0),
            DISK => (FileType::RegularFile, 0o600, bytes),
            _ => (FileType::RegularFile, 0o600, 0),
        };
        FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
