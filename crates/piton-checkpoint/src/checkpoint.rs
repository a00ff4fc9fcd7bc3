//! A committed checkpoint, open for reading.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use serde::de::DeserializeOwned;

use crate::damage::{Damage, ManifestDamage, Reason, Rejected};
use crate::dir::Dir;
use crate::error::Error;
use crate::file::FileHandle;
use crate::hook::Op;
use crate::manifest::{FileEntry, MAX_MANIFEST_BYTES, Manifest};
use crate::name::{self, MANIFEST};
use crate::reader::steps_in;
use crate::verify;

/// A checkpoint whose manifest is whole. Cheap to clone; holds its directory open.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    dir: Arc<Dir>,
    manifest: Arc<Manifest>,
}

/// A promise that the checkpoint is not pruned while this lives, in any process.
#[derive(Debug)]
pub struct Pin {
    dir: Dir,
    pid: u32,
}

impl Drop for Pin {
    fn drop(&mut self) {
        // A forked child shares the lock and must not give it up for its parent.
        if self.pid == std::process::id() {
            self.dir.unlock();
        }
    }
}

impl Checkpoint {
    /// The step it stands at.
    pub fn step(&self) -> u64 {
        self.manifest.step
    }

    /// Its directory, for code that reads files itself; see [`verified_path`](Self::verified_path).
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The paths of its files, ascending.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.manifest.files.iter().map(|entry| entry.path.as_str())
    }

    /// The bytes of a file, checked against the manifest before they are returned.
    ///
    /// # Errors
    /// [`Error::NoSuchFile`], or [`Error::Corrupt`] when size or hash differ.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let entry = self.entry(path)?;
        let size = usize::try_from(entry.size).unwrap_or(usize::MAX);
        self.checked(entry, |file| {
            // The file really has this size, but memory may not.
            let reserved = bytes.try_reserve_exact(size);
            reserved.map_err(|_| Error::call(Op::Read, file.path(), Errno::NOMEM))?;
            verify::check_bytes(file, self.manifest.format, entry, |block| bytes.extend_from_slice(block))
        })?;
        Ok(bytes)
    }

    /// A file's JSON value; the bytes are checked first.
    ///
    /// # Errors
    /// As [`read`](Self::read), or [`Error::Json`] when the value does not fit `T`.
    pub fn read_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let bytes = self.read(path)?;
        let name = || self.dir.path().join(path).display().to_string();
        serde_json::from_slice(&bytes).map_err(|source| Error::Json { name: name(), source })
    }

    /// A file open at its start, after all of it was checked.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn open_verified(&self, path: &str) -> Result<File, Error> {
        let entry = self.entry(path)?;
        let file =
            self.checked(entry, |file| verify::check_bytes(file, self.manifest.format, entry, |_| ()))?;
        file.rewind()?;
        Ok(file.into_file())
    }

    /// The path of a file, after all of it was checked: for libraries that open files by name.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn verified_path(&self, path: &str) -> Result<PathBuf, Error> {
        self.open_verified(path)?;
        Ok(self.dir.path().join(path))
    }

    /// Keeps [`Store::prune`](crate::Store::prune) of every process away while the pin lives. It dies with its holder.
    ///
    /// # Errors
    /// [`Error::NoSuchStep`] when the checkpoint is being removed at this moment.
    pub fn pin(&self) -> Result<Pin, Error> {
        let dir = self.dir.again()?;
        // The pruner lets go of a directory once it is deleted, and a lock on that one protects nothing.
        let is_there = |dir: &Dir| dir.parent().is_ok_and(|root| root.has(self.name().as_ref(), dir));
        if dir.try_lock(false)? && is_there(&dir) {
            return Ok(Pin { dir, pid: std::process::id() });
        }
        let root = self.path().parent().unwrap_or(Path::new("")).to_owned();
        let there = self.dir.parent().and_then(|root| steps_in(&root)).unwrap_or_default();
        Err(Error::NoSuchStep { step: self.step(), root, there })
    }

    /// Opens the checkpoint in `dir`, whatever that is named: a copy, or one that was set aside. Its manifest is whole;
    /// the files are checked when they are read.
    ///
    /// # Errors
    /// [`Error::Rejected`] when the manifest cannot be trusted; otherwise what the system said.
    pub fn open_dir(dir: impl AsRef<Path>) -> Result<Self, Error> {
        let dir = Dir::open(dir.as_ref(), None)?;
        match read_manifest(&dir)? {
            Ok(manifest) => Ok(Self::from_parts(dir, manifest)),
            Err(damage) => {
                let step = dir.path().file_name().and_then(name::parse_checkpoint_name).unwrap_or(0);
                let (path, reason) = (dir.path().to_owned(), Reason::Manifest(damage));
                Err(Error::Rejected { rejected: Box::new(Rejected { step, path, reason }) })
            }
        }
    }

    pub(crate) fn from_parts(dir: Dir, manifest: Manifest) -> Self {
        Self { dir: Arc::new(dir), manifest: Arc::new(manifest) }
    }

    /// Opens `ckpt-step-<step>` in `root` and reads its manifest. The outer error is the machine's, the inner one the
    /// checkpoint's.
    pub(crate) fn open(root: &Dir, step: u64) -> Result<Result<Self, Rejected>, Error> {
        let reject =
            |reason| Ok(Err(Rejected { step, path: root.path().join(name::checkpoint_name(step)), reason }));
        let dir = match root.child(name::checkpoint_name(step)) {
            Ok(dir) => dir,
            Err(error) if error.is(Errno::NOTDIR) || error.is(Errno::LOOP) => {
                return reject(Reason::NotADirectory);
            }
            Err(error) => return Err(error),
        };
        match read_manifest(&dir)? {
            Ok(manifest) if manifest.step == step => Ok(Ok(Self::from_parts(dir, manifest))),
            Ok(manifest) => reject(Reason::Manifest(ManifestDamage::Step { found: manifest.step })),
            Err(damage) => reject(Reason::Manifest(damage)),
        }
    }

    /// A file open at its start, and what the manifest says of it; only its size is checked.
    pub(crate) fn open_listed(&self, path: &str) -> Result<(FileHandle, &FileEntry), Error> {
        let entry = self.entry(path)?;
        Ok((self.checked(entry, |_| Ok(None))?, entry))
    }

    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    fn name(&self) -> String {
        name::checkpoint_name(self.step())
    }

    fn entry(&self, path: &str) -> Result<&FileEntry, Error> {
        self.manifest.file(path).ok_or_else(|| Error::NoSuchFile {
            path: self.path().to_owned(),
            name: path.to_owned(),
            there: self.files().map(str::to_owned).collect(),
        })
    }

    /// Opens a file and gives it back if `check` finds no damage.
    fn checked(
        &self,
        entry: &FileEntry,
        check: impl FnOnce(&FileHandle) -> Result<Option<Damage>, Error>,
    ) -> Result<FileHandle, Error> {
        let damage = match verify::open_sized(&self.dir, entry)? {
            Ok(file) => match check(&file)? {
                None => return Ok(file),
                Some(damage) => damage,
            },
            Err(damage) => damage,
        };
        Err(Error::Corrupt { step: self.step(), path: self.path().join(&entry.path), damage })
    }
}

fn read_manifest(dir: &Dir) -> Result<Result<Manifest, ManifestDamage>, Error> {
    let file = match dir.open_file(MANIFEST) {
        Ok(file) => file,
        Err(error) if error.is(Errno::NOENT) => return Ok(Err(ManifestDamage::Missing)),
        Err(error) if error.is(Errno::LOOP) || error.is(Errno::NXIO) => {
            return Ok(Err(ManifestDamage::NotAFile));
        }
        Err(error) => return Err(error),
    };
    match file.size()? {
        None => return Ok(Err(ManifestDamage::NotAFile)),
        Some(size) if size > MAX_MANIFEST_BYTES => return Ok(Err(ManifestDamage::TooLarge { size })),
        Some(_) => {}
    }
    let mut bytes = Vec::new();
    match file.blocks(|block| bytes.extend_from_slice(block)) {
        Ok(()) => Ok(Manifest::decode(&bytes)),
        Err(error) if error.is(Errno::IO) => Ok(Err(ManifestDamage::Unreadable(Errno::IO.raw_os_error()))),
        Err(error) => Err(error),
    }
}
