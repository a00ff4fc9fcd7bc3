//! Deleting old checkpoints, so that at no moment the last good one is at risk.

use std::collections::BTreeSet;
use std::ffi::OsString;

use crate::dir::Dir;
use crate::error::Error;
use crate::name;
use crate::retention::{Keep, plan};
use crate::store::Store;
use crate::verify::Depth;

/// What [`Store::prune`] did.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Steps that are gone, ascending.
    pub removed: Vec<u64>,
    /// Valid steps that are left, ascending.
    pub kept: Vec<u64>,
    /// Steps that should have gone and are pinned by a reader.
    pub pinned: Vec<u64>,
    /// The step because of which nothing was removed: whether it is durable is not known.
    pub waits_for: Option<u64>,
    /// What could not be removed. Never fatal; the next save or open tries again.
    pub problems: Vec<Error>,
}

impl Store {
    /// Deletes all valid checkpoints but those that `keep` and `pinned` name.
    ///
    /// The list comes from the directory. Damaged checkpoints are neither counted nor deleted, nor is anything whose
    /// name is not a checkpoint's. Something is removed only if a newer checkpoint stands that this process committed
    /// or has read in full.
    ///
    /// # Errors
    /// When the directory or a checkpoint cannot be read. Failed deletions are in the result.
    pub fn prune(&mut self, keep: Keep, pinned: &BTreeSet<u64>) -> Result<Pruned, Error> {
        let valid = self.countable()?;
        let plan = plan(&valid, keep, pinned);
        let mut pruned = Pruned { waits_for: self.uncertain, ..Pruned::default() };
        let trash = match self.uncertain {
            None => self.throw_away(&plan.remove, &mut pruned),
            Some(_) => Vec::new(),
        };
        pruned.kept = valid.into_iter().filter(|step| !pruned.removed.contains(step)).collect();
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

    /// Steps whose sizes are right, below and including the newest that is surely good.
    fn countable(&mut self) -> Result<BTreeSet<u64>, Error> {
        let mut valid = BTreeSet::new();
        for step in self.reader.steps()?.into_iter().rev() {
            let sure = !valid.is_empty() || self.sure.contains(&step);
            let depth = if sure { Depth::Sizes } else { Depth::Bytes };
            if let Some(Ok(_)) = self.reader.examine(step, depth)? {
                if depth == Depth::Bytes {
                    self.sure.insert(step);
                }
                valid.insert(step);
            }
        }
        Ok(valid)
    }

    /// Renames the victims, oldest first; each comes back with its directory locked against new pins.
    fn throw_away(&mut self, victims: &BTreeSet<u64>, pruned: &mut Pruned) -> Vec<(OsString, Dir)> {
        let mut trash = Vec::new();
        for &step in victims {
            let name = name::checkpoint_name(step);
            let target = OsString::from(self.fresh_names(step).1);
            let held = self.dir().child(&name).and_then(|dir| Ok((dir.try_lock(true)?, dir)));
            let moved = match held {
                Ok((true, dir)) => self.dir().rename(name.as_ref(), &target).map(|()| dir),
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
