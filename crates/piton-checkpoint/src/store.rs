//! The writer's side of a store.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::buffer::Pool;
use crate::checkpoint::Checkpoint;
use crate::dir::Dir;
use crate::error::Error;
use crate::identity;
use crate::lock::{self, WriterLock};
use crate::name;
use crate::options::StoreOptions;
use crate::reader::{Discovery, Reader};

/// A store opened for writing. One at a time, over all processes: the kernel holds the lock and frees it with the
/// process, however it ends.
#[derive(Debug)]
pub struct Store {
    pub(crate) reader: Reader,
    pub(crate) options: StoreOptions,
    /// Steps this process saw become durable, or read in full.
    pub(crate) sure: BTreeSet<u64>,
    /// A step whose last sync failed; nothing is pruned while it is set.
    pub(crate) uncertain: Option<u64>,
    pub(crate) pool: Arc<Pool>,
    problems: Vec<Error>,
    serial: u64,
    _lock: WriterLock,
}

impl Store {
    /// Opens the store at `root`, making the directory if need be, and removes what an interrupted save left. Files that
    /// the store did not write are left alone, whatever directory this is.
    ///
    /// # Errors
    /// [`Error::Locked`] when another writer has it, [`Error::OtherRun`] when it belongs to another run,
    /// [`Error::NotWritable`] with owner and mode; otherwise what the system said.
    pub fn open(root: impl AsRef<Path>, options: StoreOptions) -> Result<Self, Error> {
        let root = lock::make_root(root.as_ref(), &options.hook)?;
        let _lock = WriterLock::take(&root, &options).map_err(|error| lock::explain_access(&root, error))?;
        let mut store = Self {
            reader: Reader::new(root),
            options,
            sure: BTreeSet::new(),
            uncertain: None,
            pool: Arc::default(),
            problems: Vec::new(),
            serial: 0,
            _lock,
        };
        let StoreOptions { run_id, adopt, .. } = store.options.clone();
        // A store that is refused is not changed, so this comes first.
        let says_nothing = identity::check(store.dir(), &run_id, adopt)?;
        store.sweep()?;
        let probed = store.with_temporary(|root, name| match says_nothing {
            true => identity::write(root, &run_id, name),
            false => lock::probe(root, name),
        });
        probed.map_err(|error| lock::explain_access(store.dir(), error))?;
        Ok(store)
    }

    /// Opens the store at `root` to read. Takes no lock and changes nothing.
    ///
    /// # Errors
    /// When `root` is not a directory that can be opened.
    pub fn open_read_only(root: impl AsRef<Path>) -> Result<Reader, Error> {
        Ok(Reader::new(Dir::open(root.as_ref(), None)?))
    }

    /// The store's directory.
    pub fn root(&self) -> &Path {
        self.reader.root()
    }

    /// The reading side.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The newest valid checkpoint; see [`Reader::latest`].
    ///
    /// # Errors
    /// See [`Reader::latest`].
    pub fn latest(&self) -> Result<Option<Checkpoint>, Error> {
        self.reader.latest()
    }

    /// The newest valid checkpoint and the damaged ones above it; see [`Reader::discover`].
    ///
    /// # Errors
    /// See [`Reader::discover`].
    pub fn discover(&self) -> Result<Discovery, Error> {
        self.reader.discover()
    }

    /// Takes what could not be removed since the last call. Harmless: it is tried again at the next save or open.
    pub fn take_problems(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.problems)
    }

    pub(crate) fn dir(&self) -> &Dir {
        self.reader.dir()
    }

    pub(crate) fn note(&mut self, result: Result<(), Error>) {
        self.problems.extend(result.err());
    }

    /// Names that no other save of any process has used: a stage's, and the one it is thrown away under.
    pub(crate) fn fresh_names(&mut self, step: u64) -> (String, String) {
        let (tag, pid, n) = self.fresh_tag();
        (name::stage_name(step, &tag, pid, n), name::trash_name(step, &tag, pid, n))
    }

    /// Calls `make` with a name for something short-lived; again if an earlier process with this id left one there.
    fn with_temporary(&mut self, make: impl Fn(&Dir, &str) -> Result<(), Error>) -> Result<(), Error> {
        loop {
            let (tag, pid, n) = self.fresh_tag();
            match make(self.dir(), &name::temporary_name(&tag, pid, n)) {
                Err(error) if error.is(Errno::EXIST) => {}
                other => return other,
            }
        }
    }

    fn fresh_tag(&mut self) -> (String, u32, u64) {
        self.serial += 1;
        let tag = blake3::hash(self.options.run_id.as_bytes()).to_hex().chars().take(8).collect();
        (tag, std::process::id(), self.serial)
    }

    /// Removes stages and trash. The lock proves that no live writer owns them.
    pub(crate) fn sweep(&mut self) -> Result<(), Error> {
        let names = self.dir().list()?;
        let leftovers: Vec<_> = names.into_iter().filter(|name| name::is_leftover(name)).collect();
        if leftovers.is_empty() {
            return Ok(());
        }
        // A name here may have been `ckpt-step-N` a moment ago. Until that rename is on disk a power cut can undo it,
        // and the old name must not come back over half a tree.
        if let Err(error) = self.dir().sync() {
            self.note(Err(error));
            return Ok(());
        }
        for name in leftovers {
            let removed = self.discard(&name);
            self.note(removed);
        }
        Ok(())
    }

    /// Removes a tree, unless a reader has it pinned: that one is left for a later sweep.
    pub(crate) fn discard(&self, name: &OsStr) -> Result<(), Error> {
        // A file or a link has no directory to be pinned by.
        match self.dir().child(name).ok() {
            Some(dir) if !dir.try_lock(true)? => Ok(()),
            _ => self.dir().remove_tree(name),
        }
    }
}

/// Free bytes for an unprivileged writer at `path`, or at its nearest parent that exists.
///
/// # Errors
/// When the file system does not say.
pub fn free_bytes(path: impl AsRef<Path>) -> Result<u64, Error> {
    let path = path.as_ref();
    let there = path.ancestors().find(|path| path.is_dir()).map_or(PathBuf::from("."), Path::to_owned);
    Dir::open(&there, None)?.free_bytes()
}
