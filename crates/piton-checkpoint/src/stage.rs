//! A save in progress: a directory beside its final place.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use serde::Serialize;

use crate::buffer::{BUFFER_BYTES, Buffer, Pool};
use crate::checkpoint::Checkpoint;
use crate::dir::Dir;
use crate::error::Error;
use crate::file::FileHandle;
use crate::hash::{Digest, Digester};
use crate::hook::Op;
use crate::manifest::FORMAT;
use crate::name;
use crate::pipe::Pipe;
use crate::verify;

/// Where a save puts its files. Dropped without a commit, it removes what it wrote.
#[derive(Debug)]
pub struct Stage {
    root: Arc<Dir>,
    name: OsString,
    trash: OsString,
    dir: Option<Dir>,
    path: PathBuf,
    pub(crate) written: BTreeMap<String, Digest>,
    pub(crate) metrics: BTreeMap<String, f64>,
    pub(crate) unsynced: Vec<Arc<FileHandle>>,
    pub(crate) unfinished: BTreeSet<String>,
    pub(crate) failed: Option<Error>,
    pool: Arc<Pool>,
    /// The thread that writes large files, once there was one.
    pipe: Option<Pipe>,
    /// Files that are kept in memory until [`release`](Self::release); `None` when files are written at once.
    held: Option<BTreeMap<String, Held>>,
}

/// A file being written to a [`Stage`]; hashed on the way. Call [`finish`](Self::finish) at the end.
#[derive(Debug)]
pub struct StageFile<'a> {
    stage: &'a mut Stage,
    name: String,
    target: Target,
    /// The file as long as it is small.
    small: Vec<u8>,
    /// The chunk that is being filled, once it is not.
    chunk: Option<Buffer>,
}

/// Where a file's bytes go.
#[derive(Debug)]
enum Target {
    Disk { file: Arc<FileHandle>, digester: Box<Digester>, sent: u64 },
    Memory { chunks: Vec<Buffer> },
}

/// A whole file in memory.
#[derive(Debug)]
struct Held {
    chunks: Vec<Buffer>,
    /// What comes after the chunks; the whole file, if it is small.
    rest: Vec<u8>,
}

/// Room that the last buffer of a held file may leave unused; with more, the file's end moves to memory of its size.
const MAX_UNUSED_BYTES: usize = BUFFER_BYTES / 8;

/// Files up to this size are written through the page cache, and need no thread.
const SMALL_BYTES: usize = 1024 * 1024;

/// Files kept open for one round of fsyncs at the end; the first fsync then pays for most of the others.
const MAX_UNSYNCED: usize = 128;

impl Stage {
    /// Writes a whole file.
    ///
    /// # Errors
    /// [`Error::InvalidPath`], or when the file exists or cannot be written.
    pub fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        let mut file = self.create(path)?;
        file.put(bytes)?;
        file.finish()
    }

    /// Writes a value as indented JSON with a newline at the end.
    ///
    /// The bytes are a function of the value as long as its maps are sorted (`BTreeMap`, not `HashMap`).
    ///
    /// # Errors
    /// As [`write`](Self::write), or [`Error::Json`].
    pub fn write_json(&mut self, path: &str, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        let json = serde_json::to_vec_pretty(value);
        let mut bytes = json.map_err(|source| Error::Json { name: path.to_owned(), source })?;
        bytes.push(b'\n');
        self.write(path, &bytes)
    }

    /// Starts a file that is written in pieces. The directories on the way are made.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn create(&mut self, path: &str) -> Result<StageFile<'_>, Error> {
        let invalid = |reason| Error::InvalidPath { name: path.to_owned(), reason };
        name::check_path(path).map_err(invalid)?;
        let target = match &self.held {
            Some(held) if held.contains_key(path) => {
                return Err(Error::call(Op::Create, &self.path.join(path), Errno::EXIST));
            }
            Some(_) => Target::Memory { chunks: Vec::new() },
            None => {
                let file = Arc::new(self.opened()?.create_file(path)?);
                Target::Disk { file, digester: Box::default(), sent: 0 }
            }
        };
        self.unfinished.insert(path.to_owned());
        Ok(StageFile { stage: self, name: path.to_owned(), target, small: Vec::new(), chunk: None })
    }

    /// Takes over a file of an earlier checkpoint of the same store that has not changed since: a sealed segment of a
    /// replay buffer. It gets a second name and takes no room, or is copied where the file system has no hard links.
    ///
    /// A linked file's bytes are checked at the next load, like all others; those of a copy while they are copied.
    ///
    /// # Errors
    /// [`Error::NoSuchFile`], [`Error::Corrupt`] when its size is wrong or damage is found while copying, or as
    /// [`create`](Self::create).
    pub fn link_from(&mut self, checkpoint: &Checkpoint, path: &str) -> Result<(), Error> {
        let (file, entry) = checkpoint.open_listed(path)?;
        // values of chunks meant something else in format 1
        let same_format = entry.chunks.is_empty() || checkpoint.manifest().format == FORMAT;
        if same_format && self.opened()?.link(path, checkpoint.dir())? {
            let digest =
                Digest { size: entry.size, whole: entry.blake3.clone(), chunks: entry.chunks.clone() };
            self.written.insert(path.to_owned(), digest);
            self.unsynced.push(Arc::new(file));
            return Ok(());
        }
        // A copy gets a hash of its own, which would vouch for damage from now on: check what is copied.
        let mut copy = self.create(path)?;
        let mut result = Ok(());
        let damage = verify::check_bytes(&file, checkpoint.manifest().format, entry, |block| {
            if result.is_ok() {
                result = copy.put(block);
            }
        })?;
        result?;
        if let Some(damage) = damage {
            return Err(Error::Corrupt { step: checkpoint.step(), path: file.path().to_owned(), damage });
        }
        copy.finish()
    }

    /// Puts a number into the manifest, for [`Keep::Best`](crate::Keep::Best) and for people. Given twice, the later value
    /// counts.
    ///
    /// # Errors
    /// [`Error::Metric`] for a value that is not finite, which could neither be written nor ranked, and for a name that is
    /// empty, longer than 255 bytes, or has a space, a comma or a control character, which no policy could spell.
    pub fn metric(&mut self, name: &str, value: f64) -> Result<(), Error> {
        let refuse = |reason| Err(Error::Metric { name: name.to_owned(), value, reason });
        if !value.is_finite() {
            return refuse("it is not a finite number");
        }
        if name.is_empty()
            || name.len() > 255
            || name.contains(|c: char| c == ',' || c.is_whitespace() || c.is_control())
        {
            return refuse("its name is empty, longer than 255 bytes or has a space or a comma");
        }
        self.metrics.insert(name.to_owned(), value);
        Ok(())
    }

    /// The stage's directory, for code that writes files itself: they are found, hashed and synced when the save ends.
    ///
    /// Such code must have closed its files by then, and must leave the files written through the stage alone.
    pub fn dir(&self) -> &Path {
        &self.path
    }

    /// Fails at once if fewer than `bytes` and a twentieth more are free. Advice: the disk may still fill up later.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub fn expect_bytes(&self, bytes: u64) -> Result<(), Error> {
        let needed = bytes.saturating_add(bytes / 20);
        let free = self.opened()?.free_bytes()?;
        if free < needed {
            return Err(Error::NoSpace { op: Op::Create, path: self.path.clone(), needed, free });
        }
        Ok(())
    }

    /// Makes the stage `name` in `root`; `None` when the name is taken.
    pub(crate) fn begin(
        root: &Arc<Dir>,
        pool: &Arc<Pool>,
        name: String,
        trash: String,
    ) -> Result<Option<Self>, Error> {
        match root.make_dir(&name) {
            Err(error) if error.is(Errno::EXIST) => return Ok(None),
            made => made?,
        }
        let mut stage = Self {
            root: Arc::clone(root),
            path: root.path().join(&name),
            name: name.into(),
            trash: trash.into(),
            dir: None,
            written: BTreeMap::new(),
            metrics: BTreeMap::new(),
            unsynced: Vec::new(),
            unfinished: BTreeSet::new(),
            failed: None,
            pool: Arc::clone(pool),
            pipe: None,
            held: None,
        };
        stage.dir = Some(root.child(&stage.name)?);
        Ok(Some(stage))
    }

    pub(crate) fn opened(&self) -> Result<&Dir, Error> {
        self.dir.as_ref().ok_or_else(|| Error::call(Op::OpenDir, &self.path, Errno::BADF))
    }

    pub(crate) fn name(&self) -> &OsString {
        &self.name
    }

    pub(crate) fn trash(&self) -> &OsString {
        &self.trash
    }

    /// Gives the directory away: it now has the name `path`, and the stage no longer removes it.
    pub(crate) fn take_dir(&mut self, path: PathBuf) -> Result<Dir, Error> {
        let dir = self.dir.take().map(|dir| dir.renamed(path));
        dir.ok_or_else(|| Error::call(Op::OpenDir, &self.path, Errno::BADF))
    }

    pub(crate) fn sync_files(&mut self) -> Result<(), Error> {
        // A file whose fsync failed is never synced again: all handles are given up with the first error.
        std::mem::take(&mut self.unsynced).iter().try_for_each(|file| file.sync())
    }

    /// From now on files are copied into memory, and written by [`release`](Self::release).
    pub(crate) fn hold(&mut self) {
        self.held = Some(BTreeMap::new());
    }

    /// Writes the files that were held.
    pub(crate) fn release(&mut self) -> Result<(), Error> {
        let held = self.held.take().unwrap_or_default();
        let bytes =
            held.values().map(|file| file.chunks.iter().map(|chunk| chunk.bytes().len() as u64).sum::<u64>());
        self.pool.keep(bytes.sum());
        for (name, Held { chunks, rest }) in held {
            let mut file = self.create(&name)?;
            chunks.into_iter().try_for_each(|chunk| file.put_chunk(chunk))?;
            file.put(&rest)?;
            file.finish()?;
        }
        Ok(())
    }

    fn pipe(&mut self) -> Result<&mut Pipe, Error> {
        if self.pipe.is_none() {
            let started = Pipe::start(Arc::clone(&self.pool));
            let failed = |source| Error::Io { op: Op::Write, path: self.path.clone(), source };
            self.pipe = Some(started.map_err(failed)?);
        }
        self.pipe.as_mut().ok_or(Error::WriterPanicked)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.pipe = None;
        self.unsynced.clear();
        for chunk in self.held.take().into_iter().flatten().flat_map(|(_, held)| held.chunks) {
            self.pool.give(chunk);
        }
        if self.dir.take().is_some() {
            // What cannot be removed now is removed by the sweep of the next save or open.
            let name = match self.root.rename(&self.name, &self.trash) {
                Ok(()) => &self.trash,
                Err(_) => &self.name,
            };
            drop(self.root.remove_tree(name));
        }
    }
}

impl StageFile<'_> {
    /// Ends the file. Without this call the save fails, so that a half-written file is never committed.
    ///
    /// # Errors
    /// The first error of any write, with its path, even if the caller did not look at it.
    pub fn finish(mut self) -> Result<(), Error> {
        if let Some(failed) = self.stage.failed.take() {
            return Err(failed);
        }
        if let Some(chunk) = self.chunk.take() {
            let unused = BUFFER_BYTES - chunk.bytes().len();
            if matches!(self.target, Target::Memory { .. }) && unused > MAX_UNUSED_BYTES {
                self.small = chunk.bytes().to_vec();
                self.stage.pool.give(chunk);
            } else {
                self.put_chunk(chunk)?;
            }
        }
        let Self { stage, name, target, small, .. } = self;
        match target {
            Target::Memory { chunks } => {
                stage.unfinished.remove(&name);
                if let Some(held) = &mut stage.held {
                    held.insert(name, Held { chunks, rest: small });
                }
                Ok(())
            }
            Target::Disk { file, mut digester, sent } => {
                if sent > 0 {
                    stage.pipe()?.drain()?;
                } else {
                    digester.update(&small);
                    file.write_all(&small)?;
                }
                stage.unfinished.remove(&name);
                stage.written.insert(name, digester.finish());
                stage.unsynced.push(file);
                if stage.unsynced.len() >= MAX_UNSYNCED { stage.sync_files() } else { Ok(()) }
            }
        }
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        if self.chunk.is_none() && self.is_small(bytes.len()) {
            self.small.extend_from_slice(bytes);
            return Ok(());
        }
        let small = std::mem::take(&mut self.small);
        let pool = Arc::clone(&self.stage.pool);
        let chunk = self.chunk.get_or_insert_with(|| pool.take());
        chunk.append(&small);
        while !bytes.is_empty() {
            let mut chunk = self.chunk.take().unwrap_or_else(|| pool.take());
            bytes = chunk.append(bytes);
            match chunk.is_full() {
                true => self.put_chunk(chunk)?,
                false => self.chunk = Some(chunk),
            }
        }
        Ok(())
    }

    /// Whether so many more bytes still make a small file.
    fn is_small(&self, more: usize) -> bool {
        let begun = match &self.target {
            Target::Disk { sent, .. } => *sent > 0,
            Target::Memory { chunks } => !chunks.is_empty(),
        };
        !begun && self.small.len() + more <= SMALL_BYTES
    }

    /// Takes the next chunk of a large file.
    fn put_chunk(&mut self, chunk: Buffer) -> Result<(), Error> {
        match &mut self.target {
            Target::Memory { chunks } => chunks.push(chunk),
            Target::Disk { file, digester, sent } => {
                digester.update(chunk.bytes());
                let (file, offset) = (Arc::clone(file), *sent);
                *sent += chunk.bytes().len() as u64;
                self.stage.pipe()?.send(&file, offset, chunk)?;
            }
        }
        Ok(())
    }

    fn remember(&mut self, result: Result<(), Error>) -> std::io::Result<()> {
        result.map_err(|error| {
            let errno = error.errno().unwrap_or(Errno::IO.raw_os_error());
            self.stage.failed.get_or_insert(error);
            std::io::Error::from_raw_os_error(errno)
        })
    }
}

impl Write for StageFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.put(bytes);
        self.remember(written)?;
        Ok(bytes.len())
    }

    /// Does nothing: handing over to the kernel and syncing are the store's part.
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
