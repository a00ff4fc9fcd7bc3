//! Comparing a checkpoint's files with its manifest.

use rustix::io::Errno;

use crate::checkpoint::Checkpoint;
use crate::damage::{BadFile, Damage};
use crate::dir::{Dir, Kind};
use crate::error::Error;
use crate::file::FileHandle;
use crate::hash::{ChunksV1, Digester};
use crate::manifest::FileEntry;
use crate::name::MANIFEST;

/// The result of [`Checkpoint::verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Every file that is missing or differs, ascending by path.
    pub bad: Vec<BadFile>,
    /// Files that the manifest does not list. They harm nothing that is read through the manifest, so a note or an
    /// `.nfs` file left in a checkpoint does not invalidate it.
    pub extra: Vec<String>,
}

impl Report {
    /// True when every listed file is as it was written.
    pub fn is_valid(&self) -> bool {
        self.bad.is_empty()
    }
}

/// How much of each file is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Presence, type and size.
    Sizes,
    /// All bytes.
    Bytes,
}

impl Checkpoint {
    /// Reads every file and names all that are damaged.
    ///
    /// # Errors
    /// Only when the machine fails (too many open files, no permission); damage is in the report.
    pub fn verify(&self) -> Result<Report, Error> {
        self.verify_with(&mut |_| ())
    }

    /// As [`verify`](Self::verify), and tells `progress` of every so many bytes that were read.
    ///
    /// # Errors
    /// As [`verify`](Self::verify).
    pub fn verify_with(&self, progress: &mut dyn FnMut(u64)) -> Result<Report, Error> {
        Ok(Report { bad: self.look_at(Depth::Bytes, progress)?, extra: self.extra_files()? })
    }

    pub(crate) fn bad_files(&self, depth: Depth) -> Result<Vec<BadFile>, Error> {
        self.look_at(depth, &mut |_| ())
    }

    fn look_at(&self, depth: Depth, progress: &mut dyn FnMut(u64)) -> Result<Vec<BadFile>, Error> {
        let mut bad = Vec::new();
        for entry in &self.manifest().files {
            if let Some(damage) = damage(self.dir(), self.manifest().format, entry, depth, progress)? {
                bad.push(BadFile { path: entry.path.clone(), damage });
            }
        }
        Ok(bad)
    }

    fn extra_files(&self) -> Result<Vec<String>, Error> {
        let mut extra = Vec::new();
        for found in self.dir().tree()? {
            let path = found.path.to_string_lossy().into_owned();
            if found.kind != Kind::Dir && path != MANIFEST && self.manifest().file(&path).is_none() {
                extra.push(path);
            }
        }
        Ok(extra)
    }
}

/// Opens a listed file if its type and size are right.
pub(crate) fn open_sized(dir: &Dir, entry: &FileEntry) -> Result<Result<FileHandle, Damage>, Error> {
    let file = match dir.open_file(&entry.path) {
        Ok(file) => file,
        Err(error) if error.is(Errno::NOENT) => return Ok(Err(Damage::Missing)),
        Err(error) if [Errno::LOOP, Errno::NOTDIR, Errno::NXIO].iter().any(|e| error.is(*e)) => {
            return Ok(Err(Damage::NotAFile));
        }
        Err(error) => return unreadable(error).map(Err),
    };
    Ok(match file.size()? {
        None => Err(Damage::NotAFile),
        Some(found) if found != entry.size => Err(Damage::Size { expected: entry.size, found }),
        Some(_) => Ok(file),
    })
}

/// Reads a file that has the right size, giving its blocks to `take`, and says what is wrong with its bytes.
pub(crate) fn check_bytes(
    file: &FileHandle,
    format: u64,
    entry: &FileEntry,
    mut take: impl FnMut(&[u8]),
) -> Result<Option<Damage>, Error> {
    let mut digester = Digester::default();
    let read = file.blocks(|block| {
        digester.update(block);
        take(block);
    });
    let found = match read {
        Ok(()) => digester.finish(),
        Err(error) => return unreadable(error).map(Some),
    };
    if found.whole == entry.blake3 {
        return Ok(None);
    }
    if format > 1 {
        return Ok(Some(Damage::Checksum { offset: entry.first_difference(&found.chunks) }));
    }
    let mut chunks = ChunksV1::default();
    match file.rewind().and_then(|()| file.blocks(|block| chunks.update(block))) {
        Ok(()) => Ok(Some(Damage::Checksum { offset: entry.first_difference(&chunks.finish()) })),
        Err(error) => unreadable(error).map(Some),
    }
}

/// A bad sector is damage; anything else that stops a read is the machine's trouble and no verdict on the file.
fn unreadable(error: Error) -> Result<Damage, Error> {
    match error.errno() {
        Some(errno) if error.is(Errno::IO) => Ok(Damage::Unreadable(errno)),
        _ => Err(error),
    }
}

fn damage(
    dir: &Dir,
    format: u64,
    entry: &FileEntry,
    depth: Depth,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<Damage>, Error> {
    match (open_sized(dir, entry)?, depth) {
        (Err(damage), _) => Ok(Some(damage)),
        (Ok(_), Depth::Sizes) => Ok(None),
        (Ok(file), Depth::Bytes) => check_bytes(&file, format, entry, |block| progress(block.len() as u64)),
    }
}
