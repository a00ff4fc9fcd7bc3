//! A save in progress: a directory beside its final place.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use serde::Serialize;

use crate::dir::Dir;
use crate::error::Error;
use crate::file::{BLOCK_BYTES, FileHandle};
use crate::hash::{Digest, Digester};
use crate::hook::Op;
use crate::name;

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
    pub(crate) unsynced: Vec<FileHandle>,
    pub(crate) unfinished: BTreeSet<String>,
    pub(crate) failed: Option<Error>,
}

/// A file being written to a [`Stage`]; hashed on the way. Call [`finish`](Self::finish) at the end.
#[derive(Debug)]
pub struct StageFile<'a> {
    stage: &'a mut Stage,
    name: String,
    file: FileHandle,
    digester: Digester,
    buffer: Vec<u8>,
}

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
        let file = self.opened()?.create_file(path)?;
        self.unfinished.insert(path.to_owned());
        let digester = Digester::default();
        Ok(StageFile { stage: self, name: path.to_owned(), file, digester, buffer: Vec::new() })
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
    pub(crate) fn begin(root: &Arc<Dir>, name: String, trash: String) -> Result<Option<Self>, Error> {
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
        std::mem::take(&mut self.unsynced).iter().try_for_each(FileHandle::sync)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.unsynced.clear();
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
        let rest = std::mem::take(&mut self.buffer);
        self.put_block(&rest)?;
        let Self { stage, name, file, digester, .. } = self;
        stage.unfinished.remove(&name);
        stage.written.insert(name, digester.finish());
        stage.unsynced.push(file);
        if stage.unsynced.len() >= MAX_UNSYNCED { stage.sync_files() } else { Ok(()) }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        bytes.chunks(BLOCK_BYTES).try_for_each(|block| self.put_block(block))
    }

    fn put_block(&mut self, block: &[u8]) -> Result<(), Error> {
        self.digester.update(block);
        self.file.write_all(block)
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
        if self.buffer.len() + bytes.len() < BLOCK_BYTES {
            self.buffer.extend_from_slice(bytes);
        } else {
            let waiting = std::mem::take(&mut self.buffer);
            let written = self.put_block(&waiting).and_then(|()| self.put(bytes));
            self.remember(written)?;
        }
        Ok(bytes.len())
    }

    /// Hands what is buffered to the kernel. Syncing is the store's part.
    fn flush(&mut self) -> std::io::Result<()> {
        let waiting = std::mem::take(&mut self.buffer);
        let written = self.put_block(&waiting);
        self.remember(written)
    }
}
