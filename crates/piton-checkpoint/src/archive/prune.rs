//! Deleting old pairs.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;

use super::name::{self, Base, Numbered};
use super::reader::examine;
use super::replace;
use super::writer::Archives;
use crate::dir::{Dir, Kind};
use crate::error::Error;

/// Deletes all numbered pairs of `name` in `dir` but the `keep` with the highest numbers, by their names alone, whatever
/// is in them. Gives the stems of the pairs that are gone, oldest first.
///
/// A pair is its zip, with the JSON of the same stem or without; a JSON without zip goes when a higher pair is there. The
/// final pair and all other files stay. For a directory with a writer use [`Archives::prune`], which also reads what it
/// keeps.
///
/// # Errors
/// What the system said first; what could be removed is gone nevertheless.
pub fn prune_archives(dir: impl AsRef<Path>, name: &str, keep: NonZeroUsize) -> Result<Vec<String>, Error> {
    let base = Base::new(name)?;
    let dir = Dir::open(dir.as_ref(), None)?;
    let there = Listing::read(&dir, &base)?;
    let newest = there.zips.last().map_or(0, |pair| pair.number);
    let orphans: Vec<_> = there.orphans.into_iter().filter(|pair| pair.number < newest).collect();
    let doomed = there.zips.len().saturating_sub(keep.get());
    remove(&dir, &there.zips[..doomed], &orphans)
}

impl Archives {
    /// Deletes all numbered pairs but the `keep` with the highest numbers, and what was left of others. Gives the stems of
    /// the pairs that are gone, oldest first.
    ///
    /// Something is removed only if a pair stays that this process saved or has read in full; where none of the `keep`
    /// newest is valid, the newest valid one stays too. After [`Error::ArchiveUncertain`] nothing is removed until a save
    /// succeeds.
    ///
    /// # Errors
    /// What the system said first; what could be removed is gone nevertheless.
    pub fn prune(&mut self, keep: NonZeroUsize) -> Result<Vec<String>, Error> {
        if self.uncertain {
            return Ok(Vec::new());
        }
        let Listing { mut zips, orphans } = Listing::read(&self.reader.dir, &self.reader.base)?;
        let kept = zips.split_off(zips.len().saturating_sub(keep.get()));
        if !kept.iter().any(|pair| self.sure.contains(&pair.stem)) {
            let Some(valid) = self.newest_valid(zips.iter().chain(&kept))? else { return Ok(Vec::new()) };
            zips.retain(|pair| pair.stem != valid);
        }
        let removed = remove(&self.reader.dir, &zips, &orphans)?;
        removed.iter().for_each(|stem| {
            self.sure.remove(stem);
        });
        Ok(removed)
    }

    /// The stem of the newest of `pairs`, given oldest first, that is whole.
    fn newest_valid<'a>(
        &mut self,
        pairs: impl DoubleEndedIterator<Item = &'a Numbered>,
    ) -> Result<Option<String>, Error> {
        for Numbered { number, stem } in pairs.rev() {
            let known = self.sure.contains(stem);
            if known || matches!(examine(&self.reader.dir, stem, Some(*number))?, Some(Ok(_))) {
                self.sure.insert(stem.clone());
                return Ok(Some(stem.clone()));
            }
        }
        Ok(None)
    }
}

/// The numbered pairs in a directory, ascending.
struct Listing {
    zips: Vec<Numbered>,
    /// JSONs without a zip.
    orphans: Vec<Numbered>,
}

impl Listing {
    fn read(dir: &Dir, base: &Base) -> Result<Self, Error> {
        let names = dir.list()?;
        let zips: BTreeSet<_> = names.iter().filter_map(|name| base.parse(name, ".zip")).collect();
        let jsons: BTreeSet<_> = names.iter().filter_map(|name| base.parse(name, ".json")).collect();
        let orphans = jsons.difference(&zips).cloned().collect();
        Ok(Self { zips: zips.into_iter().collect(), orphans })
    }
}

/// Removes the zips, then their JSONs and those of `orphans`: at no moment a zip is without its JSON.
fn remove(dir: &Dir, pairs: &[Numbered], orphans: &[Numbered]) -> Result<Vec<String>, Error> {
    let mut removed = Vec::new();
    let mut failed = None;
    for Numbered { stem, .. } in pairs {
        let zip = name::zip(stem);
        let gone = match dir.kind(&zip) {
            // somebody else was faster, or made a directory of that name
            Ok(None | Some(Kind::Dir)) => continue,
            Ok(_) => replace::remove(dir, &zip),
            Err(error) => Err(error),
        };
        match gone {
            Ok(()) => removed.push(stem.clone()),
            Err(error) => drop(failed.get_or_insert(error)),
        }
    }
    if !removed.is_empty() {
        // A power cut may still undo the removals, and then the JSONs must be there.
        dir.sync()?;
    }
    for stem in removed.iter().chain(orphans.iter().map(|pair| &pair.stem)) {
        for file in [name::json(stem), name::former(stem)] {
            if let Err(error) = replace::remove(dir, &file) {
                failed.get_or_insert(error);
            }
        }
    }
    failed.map_or(Ok(removed), Err)
}
