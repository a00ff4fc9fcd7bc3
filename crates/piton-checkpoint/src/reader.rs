//! Finding checkpoints. The directory is the only truth: there is no index to be lost or stale.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::checkpoint::Checkpoint;
use crate::damage::{BadFile, Reason, Rejected};
use crate::dir::{Dir, Kind};
use crate::error::Error;
use crate::name;
use crate::verify::Depth;

/// A store opened for reading: takes no lock, and changes nothing but the pins it is told to set.
#[derive(Clone, Debug)]
pub struct Reader {
    root: Arc<Dir>,
}

/// What a look at the store found.
#[derive(Debug)]
pub struct Discovery {
    /// The newest checkpoint whose every byte is as it was written.
    pub valid: Option<Checkpoint>,
    /// Newer ones that are damaged, newest first; all of them when none is valid.
    pub rejected: Vec<Rejected>,
}

/// How often a listing that changes underfoot is read again.
const ATTEMPTS: usize = 8;

impl Reader {
    pub(crate) fn new(root: Dir) -> Self {
        Self { root: Arc::new(root) }
    }

    /// The store's directory.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The steps that have a directory here, ascending, valid or not.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn steps(&self) -> Result<Vec<u64>, Error> {
        steps_in(&self.root)
    }

    /// Looks from the newest step down and reads every byte, until one checkpoint is whole.
    ///
    /// # Errors
    /// When the machine fails (no permission, too many open files). Damage is not an error here.
    pub fn discover(&self) -> Result<Discovery, Error> {
        let mut attempt = 1;
        loop {
            let steps = self.steps()?;
            let found = self.discover_among(&steps)?;
            // A writer may prune what is being read. If the names changed, the verdicts may be about a moment that
            // never was, so look again.
            if found.rejected.is_empty() && found.valid.is_none() == steps.is_empty() {
                return Ok(found);
            }
            if attempt == ATTEMPTS || self.steps()? == steps {
                return Ok(found);
            }
            attempt += 1;
        }
    }

    /// The newest valid checkpoint; `None` when there never was one.
    ///
    /// # Errors
    /// [`Error::NoValidCheckpoint`] when some exist and none is whole: never a silent fresh start.
    pub fn latest(&self) -> Result<Option<Checkpoint>, Error> {
        let Discovery { valid, rejected } = self.discover()?;
        match valid {
            None if !rejected.is_empty() => {
                Err(Error::NoValidCheckpoint { root: self.root().to_owned(), rejected })
            }
            valid => Ok(valid),
        }
    }

    /// Loads from the newest checkpoint that is whole, reading each byte once: `take` reads what it needs, every read is
    /// checked before it is returned, and a read that finds damage ([`Error::Corrupt`]) sends `take` to the next older
    /// checkpoint. Build fresh state in it and swap it in afterwards, so that nothing of a damaged one stays.
    ///
    /// `None` when there never was a checkpoint. [`latest`](Self::latest) reads everything before it gives anything; this is
    /// for states that should not be read twice. Files that `take` does not read are not checked.
    ///
    /// ```
    /// # use piton_checkpoint::{Error, Overwrite, Store, StoreOptions};
    /// # let temp = tempfile::tempdir().unwrap();
    /// # let mut store = Store::open(temp.path(), StoreOptions::new("run", "digest", || 0))?;
    /// # store.save(3, Overwrite::Refuse, |stage| stage.write("model.bin", &[7; 100])).map_err(Error::from)?;
    /// let loaded = store.reader().load(|checkpoint| Ok((checkpoint.step(), checkpoint.read("model.bin")?)))?;
    /// assert_eq!(loaded, Some((3, vec![7; 100])));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoValidCheckpoint`] when some exist and none is whole; any other error of `take`, at once.
    pub fn load<T>(&self, mut take: impl FnMut(&Checkpoint) -> Result<T, Error>) -> Result<Option<T>, Error> {
        let mut rejected = Vec::new();
        for step in self.steps()?.into_iter().rev() {
            let checkpoint = match self.examine(step, Depth::Sizes)? {
                Some(Ok(checkpoint)) => checkpoint,
                Some(Err(bad)) => {
                    rejected.push(bad);
                    continue;
                }
                None => continue,
            };
            match take(&checkpoint) {
                Ok(loaded) => return Ok(Some(loaded)),
                Err(Error::Corrupt { step: of, path, damage }) if of == step => {
                    let inside = path.strip_prefix(checkpoint.path()).unwrap_or(&path).display().to_string();
                    let reason = Reason::Files(vec![BadFile { path: inside, damage }]);
                    rejected.push(Rejected { step, path: checkpoint.path().to_owned(), reason });
                }
                Err(error) => return Err(error),
            }
        }
        match rejected.is_empty() {
            true => Ok(None),
            false => Err(Error::NoValidCheckpoint { root: self.root().to_owned(), rejected }),
        }
    }

    /// The checkpoint at exactly `step`, every byte checked; never another one.
    ///
    /// # Errors
    /// [`Error::NoSuchStep`], or [`Error::Rejected`] when it is damaged.
    pub fn at(&self, step: u64) -> Result<Checkpoint, Error> {
        match self.examine(step, Depth::Bytes)? {
            Some(Ok(checkpoint)) => Ok(checkpoint),
            Some(Err(rejected)) => Err(Error::Rejected { rejected: Box::new(rejected) }),
            None => Err(Error::NoSuchStep { step, root: self.root().to_owned(), there: self.steps()? }),
        }
    }

    /// Checkpoints that [`Store::set_aside_after`](crate::Store::set_aside_after) or a save over a damaged directory
    /// moved away, sorted by path. Nothing here deletes them.
    ///
    /// # Errors
    /// When a directory cannot be listed.
    pub fn abandoned(&self) -> Result<Vec<PathBuf>, Error> {
        let mut found = Vec::new();
        for holder in self.root.list()?.iter().filter(|name| name::is_abandoned(name)) {
            if self.root.kind(holder)? == Some(Kind::Dir) {
                let inside = self.root.child(holder)?;
                let checkpoints =
                    inside.list()?.into_iter().filter(|name| name::parse_checkpoint_name(name).is_some());
                found.extend(checkpoints.map(|name| inside.path().join(name)));
            }
        }
        found.sort();
        Ok(found)
    }

    pub(crate) fn dir(&self) -> &Arc<Dir> {
        &self.root
    }

    /// `None` when there is nothing under the step's name.
    pub(crate) fn examine(
        &self,
        step: u64,
        depth: Depth,
    ) -> Result<Option<Result<Checkpoint, Rejected>>, Error> {
        let checkpoint = match Checkpoint::open(&self.root, step) {
            Ok(Ok(checkpoint)) => checkpoint,
            Ok(Err(rejected)) => return Ok(Some(Err(rejected))),
            Err(error) if error.is(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error),
        };
        let bad = checkpoint.bad_files(depth)?;
        if bad.is_empty() {
            return Ok(Some(Ok(checkpoint)));
        }
        let path = checkpoint.path().to_owned();
        Ok(Some(Err(Rejected { step, path, reason: Reason::Files(bad) })))
    }

    fn discover_among(&self, ascending: &[u64]) -> Result<Discovery, Error> {
        let mut rejected = Vec::new();
        for &step in ascending.iter().rev() {
            match self.examine(step, Depth::Bytes)? {
                Some(Ok(valid)) => return Ok(Discovery { valid: Some(valid), rejected }),
                Some(Err(bad)) => rejected.push(bad),
                None => {}
            }
        }
        Ok(Discovery { valid: None, rejected })
    }
}

/// Steps with a checkpoint's name in `dir`, ascending by number.
pub(crate) fn steps_in(dir: &Dir) -> Result<Vec<u64>, Error> {
    let names = dir.list()?;
    let mut steps: Vec<u64> = names.iter().filter_map(|name| name::parse_checkpoint_name(name)).collect();
    steps.sort_unstable();
    Ok(steps)
}
