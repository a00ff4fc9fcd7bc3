//! Deleting old checkpoints, so that at no moment the last good one is at risk.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use crate::dir::Dir;
use crate::error::Error;
use crate::name;
use crate::reader::Reader;
use crate::retention::{Listed, Plan, Retention, plan};
use crate::store::Store;
use crate::verify::Depth;

/// What [`Store::prune`] did.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Steps that are gone, ascending.
    pub removed: Vec<u64>,
    /// Valid steps that are left, ascending.
    pub kept: Vec<u64>,
    /// Steps that should have gone and were pinned at this moment by a reader ([`Checkpoint::pin`](crate::Checkpoint::pin)).
    pub pinned: Vec<u64>,
    /// The step because of which nothing was removed: whether it is durable is not known.
    pub waits_for: Option<u64>,
    /// What could not be removed. Never fatal; the next save or open tries again.
    pub problems: Vec<Error>,
}

impl Store {
    /// Deletes all valid checkpoints but the newest, those that `keep` (a [`Keep`](crate::Keep) or a [`Retention`])
    /// names, those in `pinned`, and those with a pin ([`Reader::pin`]).
    ///
    /// The list comes from the directory. Damaged checkpoints are neither counted nor deleted, nor is anything whose
    /// name is not a checkpoint's. Something is removed only if a newer checkpoint stands that this process committed
    /// or has read in full.
    ///
    /// # Errors
    /// When the directory or a checkpoint cannot be read. Failed deletions are in the result.
    pub fn prune(&mut self, keep: impl Into<Retention>, pinned: &BTreeSet<u64>) -> Result<Pruned, Error> {
        let Plan { keep, remove } = self.plan(&keep.into(), pinned)?;
        let mut pruned = Pruned { waits_for: self.uncertain, ..Pruned::default() };
        let trash = match self.uncertain {
            None => self.throw_away(&remove, &mut pruned),
            Some(_) => Vec::new(),
        };
        let left = remove.into_iter().filter(|step| !pruned.removed.contains(step));
        pruned.kept = keep.into_keys().chain(left).collect();
        pruned.kept.sort_unstable();
        if trash.is_empty() {
            return Ok(pruned);
        }
        // Until this sync a power cut may bring the old names back, so nothing inside is touched before it.
        if let Err(error) = self.dir().sync() {
            pruned.problems.push(error);
            return Ok(pruned);
        }
        for (name, _held) in &trash {
            pruned.problems.extend(self.dir().remove_tree(name).err());
        }
        Ok(pruned)
    }

    /// What [`prune`](Self::prune) would do at this moment, and why. The newest checkpoint that had to be read for this is
    /// not read again by the prune.
    ///
    /// # Errors
    /// As [`prune`](Self::prune).
    pub fn plan(&mut self, keep: &Retention, pinned: &BTreeSet<u64>) -> Result<Plan, Error> {
        let now_unix_ms = (self.options.now_unix_ms)();
        let valid = self.reader.countable(&mut self.sure)?;
        Ok(plan(&valid, keep, &self.reader.with_pins(pinned)?, now_unix_ms))
    }

    /// Renames the victims, oldest first; each comes back with its directory locked against new pins.
    fn throw_away(&mut self, victims: &BTreeSet<u64>, pruned: &mut Pruned) -> Vec<(OsString, Dir)> {
        let mut trash = Vec::new();
        for &step in victims {
            let name = name::checkpoint_name(step);
            let target = OsString::from(self.fresh_names(step).1);
            // A permanent pin is made by somebody who holds this lock shared, so with the lock in hand its file is there
            // to be seen, or will not come.
            let held = self.dir().child(&name).and_then(|dir| {
                let free = dir.try_lock(true)? && !self.reader.is_pinned(step)?;
                Ok((free, dir))
            });
            let moved = match held {
                Ok((true, dir)) => {
                    self.dir().rename_held(name.as_ref(), self.dir(), &target, &dir).map(|()| dir)
                }
                Ok((false, _)) => {
                    pruned.pinned.push(step);
                    continue;
                }
                Err(error) => Err(error),
            };
            match moved {
                Ok(dir) => {
                    self.sure.remove(&step);
                    pruned.removed.push(step);
                    trash.push((target, dir));
                }
                Err(error) => pruned.problems.push(error),
            }
        }
        trash
    }
}

impl Reader {
    /// What [`Store::prune`] would do at this moment, and why; nothing is changed.
    ///
    /// # Errors
    /// As [`Store::prune`].
    pub fn plan(&self, keep: &Retention, pinned: &BTreeSet<u64>, now_unix_ms: u64) -> Result<Plan, Error> {
        Ok(plan(&self.countable(&mut BTreeSet::new())?, keep, &self.with_pins(pinned)?, now_unix_ms))
    }

    fn with_pins(&self, pinned: &BTreeSet<u64>) -> Result<BTreeSet<u64>, Error> {
        Ok(self.pins()?.into_keys().chain(pinned.iter().copied()).collect())
    }

    /// Checkpoints whose sizes are right, from the newest that is surely good down. `sure` names those that need not be
    /// read for that, and is told which one was.
    fn countable(&self, sure: &mut BTreeSet<u64>) -> Result<BTreeMap<u64, Listed>, Error> {
        let mut valid = BTreeMap::new();
        for step in self.steps()?.into_iter().rev() {
            let known = !valid.is_empty() || sure.contains(&step);
            let depth = if known { Depth::Sizes } else { Depth::Bytes };
            if let Some(Ok(checkpoint)) = self.examine(step, depth)? {
                if depth == Depth::Bytes {
                    sure.insert(step);
                }
                valid.insert(step, Listed::from(checkpoint.manifest()));
            }
        }
        Ok(valid)
    }
}
