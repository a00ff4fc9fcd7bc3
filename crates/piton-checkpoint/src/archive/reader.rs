//! The reader's side of archive pairs.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::damage::{PairDamage, RejectedPair};
use super::name::{self, Base, Numbered, PairId};
use super::sidecar::{self, Sidecar, hex};
use crate::dir::Dir;
use crate::error::Error;
use crate::file::FileHandle;

/// Reads the pairs of one name in one directory. Takes no lock and changes nothing; a writer may be at work.
#[derive(Debug)]
pub struct ArchiveReader {
    pub(crate) dir: Arc<Dir>,
    pub(crate) base: Base,
}

/// A whole pair, held open: it stays readable when it is pruned or replaced.
#[derive(Debug)]
pub struct Archive {
    number: Option<u64>,
    path: PathBuf,
    file: FileHandle,
    size: u64,
    sidecar: Sidecar,
    /// The JSON is the one kept aside while the pair is being replaced.
    pub(crate) by_former: bool,
}

/// What is in a directory.
#[derive(Debug)]
pub struct FoundArchive {
    /// The newest valid numbered pair.
    pub archive: Option<Archive>,
    /// The damaged pairs above it, newest first.
    pub rejected: Vec<RejectedPair>,
}

/// How often a pair that does not fit together is looked at again, since it may be in the middle of being replaced.
const ATTEMPTS: usize = 5;

impl ArchiveReader {
    /// Numbers of the pairs whose zip is there, ascending, unchecked.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn list(&self) -> Result<Vec<u64>, Error> {
        let numbers: BTreeSet<u64> = self.zips()?.into_iter().map(|pair| pair.number).collect();
        Ok(numbers.into_iter().collect())
    }

    /// The newest valid numbered pair; `None` when there is no numbered pair at all.
    ///
    /// # Errors
    /// [`Error::NoValidArchive`] when there are pairs and none is whole.
    pub fn latest(&self) -> Result<Option<Archive>, Error> {
        match self.discover()? {
            FoundArchive { archive: None, rejected } if !rejected.is_empty() => Err(Error::NoValidArchive {
                dir: self.dir.path().to_owned(),
                name: self.base.as_str().to_owned(),
                rejected,
            }),
            FoundArchive { archive, .. } => Ok(archive),
        }
    }

    /// Looks at numbered pairs from the newest down until one is valid, reading its every byte.
    ///
    /// # Errors
    /// What the system said, where it does not tell a pair's state.
    pub fn discover(&self) -> Result<FoundArchive, Error> {
        let mut rejected = Vec::new();
        for pair in self.zips()?.into_iter().rev() {
            match examine(&self.dir, &pair.stem, Some(pair.number))? {
                Some(Ok(archive)) => return Ok(FoundArchive { archive: Some(archive), rejected }),
                Some(Err(damaged)) => rejected.push(damaged),
                // pruned meanwhile
                None => {}
            }
        }
        Ok(FoundArchive { archive: None, rejected })
    }

    /// Opens one pair after checking its every byte.
    ///
    /// # Errors
    /// [`Error::NoSuchArchive`], [`Error::ArchiveRejected`] with the reason, or what the system said.
    pub fn open(&self, id: PairId) -> Result<Archive, Error> {
        let number = match id {
            PairId::Number(number) => Some(number),
            PairId::Final => None,
        };
        let mut stem = self.base.stem(id);
        if let (Some(number), None) = (number, self.dir.kind(name::zip(&stem))?)
            && let Some(other) = self.zips()?.into_iter().find(|pair| pair.number == number)
        {
            stem = other.stem;
        }
        match examine(&self.dir, &stem, number)? {
            Some(Ok(archive)) => Ok(archive),
            Some(Err(rejected)) => Err(Error::ArchiveRejected { rejected: Box::new(rejected) }),
            None => {
                let path = self.dir.path().join(name::zip(&stem));
                Err(Error::NoSuchArchive { path, there: self.list()? })
            }
        }
    }

    /// Numbered pairs by their zips, ascending.
    pub(crate) fn zips(&self) -> Result<Vec<Numbered>, Error> {
        let names = self.dir.list()?;
        let mut zips: Vec<_> = names.iter().filter_map(|name| self.base.parse(name, ".zip")).collect();
        zips.sort();
        Ok(zips)
    }
}

impl Archive {
    /// The number in its name; `None` for the final pair.
    pub fn number(&self) -> Option<u64> {
        self.number
    }

    /// The zip.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The JSON beside it.
    pub fn metadata(&self) -> &Map<String, Value> {
        &self.sidecar.metadata
    }

    /// SHA-256 of the zip, 64 lower-case hex digits.
    pub fn sha256(&self) -> &str {
        &self.sidecar.sha256
    }

    /// Size of the zip in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes of the zip, checked once more.
    ///
    /// # Errors
    /// [`Error::ArchiveRejected`] when they changed since the pair was opened, or what the system said.
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        self.file.rewind()?;
        let mut bytes = Vec::new();
        self.file.blocks(|block| bytes.extend_from_slice(block))?;
        let found = hex(Sha256::digest(&bytes));
        if found != self.sidecar.sha256 {
            let reason = PairDamage::Checksum { expected: self.sidecar.sha256.clone(), found };
            let rejected = Box::new(RejectedPair { path: self.path.clone(), reason });
            return Err(Error::ArchiveRejected { rejected });
        }
        Ok(bytes)
    }

    /// The open zip at its start, for a zip reader that seeks. It was checked when the pair was opened.
    ///
    /// # Errors
    /// What the system said.
    pub fn into_file(self) -> Result<File, Error> {
        self.file.rewind()?;
        Ok(self.file.into_file())
    }
}

/// Checks a pair; `None` when there is no zip.
pub(crate) fn examine(
    dir: &Dir,
    stem: &str,
    number: Option<u64>,
) -> Result<Option<Result<Archive, RejectedPair>>, Error> {
    let mut before = None;
    let mut attempt = 1;
    loop {
        let reason = match look(dir, stem, number)? {
            None => return Ok(None),
            Some(Ok(archive)) => return Ok(Some(Ok(archive))),
            Some(Err(reason)) => reason,
        };
        // The same twice is damage, and no writer at work.
        if before.as_ref() == Some(&reason) || attempt == ATTEMPTS {
            let path = dir.path().join(name::zip(stem));
            return Ok(Some(Err(RejectedPair { path, reason })));
        }
        before = Some(reason);
        attempt += 1;
    }
}

fn look(dir: &Dir, stem: &str, number: Option<u64>) -> Result<Option<Result<Archive, PairDamage>>, Error> {
    // The zip first: whoever holds one finds its JSON under one of two names until the replacement is durable.
    let file = match open(dir, &name::zip(stem))? {
        Opened::File(file, size) => (file, size),
        Opened::Missing => return Ok(None),
        Opened::Bad(reason) => return Ok(Some(Err(reason))),
    };
    let (file, size) = file;
    let json = vouched(dir, &name::json(stem))?;
    let former = vouched(dir, &name::former(stem))?;
    let fits = |sidecar: &Sidecar| sidecar.size.is_none_or(|said| said == size);
    let json = match json {
        Ok(sidecar) if !fits(&sidecar) => {
            Err(PairDamage::Size { expected: sidecar.size.unwrap_or_default(), found: size })
        }
        other => other,
    };
    let former = former.ok().filter(fits);
    if let (Err(reason), None) = (&json, &former) {
        return Ok(Some(Err(reason.clone())));
    }
    let mut hasher = Sha256::new();
    match file.blocks(|block| hasher.update(block)) {
        Ok(()) => {}
        Err(error) if error.is(Errno::IO) => {
            return Ok(Some(Err(PairDamage::Unreadable(Errno::IO.raw_os_error()))));
        }
        Err(error) => return Err(error),
    }
    let found = hex(hasher.finalize());
    let (sidecar, by_former) = match (json, former) {
        (Ok(sidecar), _) if sidecar.sha256 == found => (sidecar, false),
        (_, Some(sidecar)) if sidecar.sha256 == found => (sidecar, true),
        (Ok(Sidecar { sha256: expected, .. }), _) => {
            return Ok(Some(Err(PairDamage::Checksum { expected, found })));
        }
        (Err(reason), _) => return Ok(Some(Err(reason))),
    };
    let path = dir.path().join(name::zip(stem));
    Ok(Some(Ok(Archive { number, path, file, size, sidecar, by_former })))
}

enum Opened {
    File(FileHandle, u64),
    Missing,
    Bad(PairDamage),
}

fn open(dir: &Dir, name: &str) -> Result<Opened, Error> {
    let file = match dir.open_file(name) {
        Ok(file) => file,
        Err(error) if error.is(Errno::NOENT) => return Ok(Opened::Missing),
        Err(error) if error.is(Errno::LOOP) || error.is(Errno::NXIO) => {
            return Ok(Opened::Bad(PairDamage::NotAFile));
        }
        Err(error) => match error.errno() {
            Some(errno) if error.is(Errno::IO) || error.is(Errno::ACCESS) => {
                return Ok(Opened::Bad(PairDamage::Unreadable(errno)));
            }
            _ => return Err(error),
        },
    };
    Ok(match file.size()? {
        Some(size) => Opened::File(file, size),
        None => Opened::Bad(PairDamage::NotAFile),
    })
}

fn vouched(dir: &Dir, name: &str) -> Result<Result<Sidecar, PairDamage>, Error> {
    Ok(raw(dir, name)?.and_then(|bytes| sidecar::read(&bytes)))
}

/// The bytes of a JSON.
pub(crate) fn raw(dir: &Dir, name: &str) -> Result<Result<Vec<u8>, PairDamage>, Error> {
    let (file, size) = match open(dir, name)? {
        Opened::File(file, size) => (file, size),
        Opened::Missing => return Ok(Err(PairDamage::NoJson)),
        Opened::Bad(reason) => return Ok(Err(reason)),
    };
    if size > sidecar::MAX_BYTES {
        return Ok(Err(PairDamage::Malformed(format!("{size} bytes are more than any metadata"))));
    }
    let mut bytes = Vec::new();
    match file.blocks(|block| bytes.extend_from_slice(block)) {
        Err(error) if error.is(Errno::IO) => Ok(Err(PairDamage::Unreadable(Errno::IO.raw_os_error()))),
        read => read.map(|()| Ok(bytes)),
    }
}
