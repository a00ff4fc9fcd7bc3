//! Moving checkpoints of an abandoned future out of the way.

use std::ffi::OsString;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::error::Error;
use crate::name;
use crate::pins;
use crate::store::Store;

impl Store {
    /// Moves every checkpoint after `step` to `abandoned-<step>-<n>/`, valid or not, with its pin, and returns the new
    /// paths.
    ///
    /// Call it after resuming from a checkpoint that is not the highest in the store: without it the steps done again
    /// would stand below the old ones. What is moved is never deleted by the store; see
    /// [`Reader::abandoned`](crate::Reader::abandoned).
    ///
    /// # Errors
    /// What the system said; some may have been moved by then, the highest first.
    pub fn set_aside_after(&mut self, step: u64) -> Result<Vec<PathBuf>, Error> {
        let later: Vec<u64> = self.reader.steps()?.into_iter().rev().filter(|later| *later > step).collect();
        if later.is_empty() { Ok(Vec::new()) } else { self.set_aside(step, &later) }
    }

    /// Moves the checkpoints at `steps`, in this order.
    pub(crate) fn set_aside(&mut self, after: u64, steps: &[u64]) -> Result<Vec<PathBuf>, Error> {
        let mut n = 1;
        let holder = loop {
            let holder = name::abandoned_name(after, n);
            match self.dir().make_dir(&holder) {
                Err(error) if error.is(Errno::EXIST) => n += 1,
                made => break made.map(|()| holder)?,
            }
        };
        let holder = self.dir().child(holder)?;
        let mut moved = Vec::new();
        for &step in steps {
            let name = OsString::from(name::checkpoint_name(step));
            let dir = self.dir().child(&name).ok();
            match &dir {
                Some(dir) => self.dir().rename_held(&name, &holder, &name, dir)?,
                None => self.dir().rename_to(&name, &holder, &name)?,
            }
            self.sure.remove(&step);
            pins::move_along(self.dir(), &holder, step)?;
            moved.push(holder.path().join(&name));
        }
        holder.sync()?;
        self.dir().sync()?;
        Ok(moved)
    }
}
