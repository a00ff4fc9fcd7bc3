//! The commit protocol.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::checkpoint::Checkpoint;
use crate::error::{Error, SaveError};
use crate::manifest::{FORMAT, Manifest};
use crate::name;
use crate::seal::seal;
use crate::stage::Stage;
use crate::store::Store;
use crate::verify::Depth;

/// What to do when the step is already committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Fail with [`Error::AlreadyExists`].
    #[default]
    Refuse,
    /// Swap old and new in one step, then remove the old.
    Exchange,
}

/// A save that has a stage and no checkpoint yet.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) stage: Stage,
    manifest: Manifest,
    publish: Publish,
}

impl Begun {
    /// Lets the caller fill the stage.
    pub(crate) fn fill<E>(
        &mut self,
        fill: impl FnOnce(&mut Stage) -> Result<(), E>,
    ) -> Result<(), SaveError<E>> {
        // A failed write through `io::Write` loses path and operation on its way through the caller; keep ours.
        let ours = |stage: &mut Stage, content| {
            stage.failed.take().map_or(SaveError::Content(content), SaveError::Store)
        };
        fill(&mut self.stage).map_err(|content| ours(&mut self.stage, content))
    }
}

/// How the new directory gets its name.
#[derive(Debug)]
enum Publish {
    Rename,
    Exchange,
}

impl Store {
    /// Saves a checkpoint. When this returns `Ok` the checkpoint survives a power cut; on any error nothing new is
    /// visible (but see [`Error::DurabilityUncertain`]) and everything older is as it was.
    ///
    /// `fill` writes the files into the [`Stage`]. A damaged directory that has the step's name is moved to
    /// `abandoned-<step>-<n>/`, never removed.
    ///
    /// # Errors
    /// [`SaveError::Content`] with what `fill` returned, or [`SaveError::Store`].
    pub fn save<E>(
        &mut self,
        step: u64,
        overwrite: Overwrite,
        fill: impl FnOnce(&mut Stage) -> Result<(), E>,
    ) -> Result<Checkpoint, SaveError<E>> {
        let mut begun = self.begin_save(step, overwrite)?;
        begun.fill(fill)?;
        Ok(self.commit(begun)?)
    }

    /// Cleans up, and makes an empty stage for `step`.
    pub(crate) fn begin_save(&mut self, step: u64, overwrite: Overwrite) -> Result<Begun, Error> {
        self.sweep()?;
        let publish = self.admit(step, overwrite)?;
        let manifest = self.manifest_for(step)?;
        Ok(Begun { stage: self.begin(step)?, manifest, publish })
    }

    /// Makes what was staged durable under its name.
    pub(crate) fn commit(&mut self, begun: Begun) -> Result<Checkpoint, Error> {
        let Begun { mut stage, manifest, publish } = begun;
        let manifest = seal(&mut stage, manifest)?;
        self.publish(stage, manifest, publish)
    }

    fn admit(&self, step: u64, overwrite: Overwrite) -> Result<Publish, Error> {
        let steps = self.reader.steps()?;
        if let Some(&newest) = steps.last().filter(|newest| **newest > step) {
            return Err(Error::StepNotMonotonic { step, newest, root: self.root().to_owned() });
        }
        match (self.reader.examine(step, Depth::Sizes)?, overwrite) {
            (Some(Ok(old)), Overwrite::Refuse) => {
                Err(Error::AlreadyExists { step, path: old.path().to_owned() })
            }
            (Some(Ok(_)), Overwrite::Exchange) => Ok(Publish::Exchange),
            (Some(Err(_)) | None, _) => Ok(Publish::Rename),
        }
    }

    fn manifest_for(&self, step: u64) -> Result<Manifest, Error> {
        let mut parent_step = None;
        for earlier in self.reader.steps()?.into_iter().rev().filter(|earlier| *earlier < step) {
            if let Some(Ok(parent)) = self.reader.examine(earlier, Depth::Sizes)? {
                parent_step = Some(parent.step());
                break;
            }
        }
        Ok(Manifest {
            format: FORMAT,
            run_id: self.options.run_id.clone(),
            step,
            parent_step,
            config_digest: self.options.config_digest.clone(),
            created_unix_ms: (self.options.now_unix_ms)(),
            environment: self.options.environment.clone(),
            metrics: BTreeMap::new(),
            files: Vec::new(),
        })
    }

    fn begin(&mut self, step: u64) -> Result<Stage, Error> {
        loop {
            // A name is taken only if an earlier process with this id left a stage that could not be removed.
            let (name, trash) = self.fresh_names(step);
            if let Some(stage) = Stage::begin(self.reader.dir(), &self.pool, name, trash)? {
                return Ok(stage);
            }
        }
    }

    fn publish(&mut self, mut stage: Stage, manifest: Manifest, how: Publish) -> Result<Checkpoint, Error> {
        let step = manifest.step;
        let name = OsString::from(name::checkpoint_name(step));
        match how {
            Publish::Rename => {
                if self.dir().kind(&name)?.is_some() {
                    self.set_aside(step, &[step])?;
                }
                self.dir().rename_held(stage.name(), self.dir(), &name, stage.opened()?)?;
            }
            Publish::Exchange => self.dir().exchange(stage.name(), &name)?,
        }
        let dir = stage.take_dir(self.root().join(&name))?;
        self.sure.remove(&step);
        if let Err(source) = self.dir().sync() {
            self.uncertain = Some(step);
            return Err(Error::DurabilityUncertain { step, source: Box::new(source) });
        }
        self.uncertain = None;
        self.sure.insert(step);
        if let Publish::Exchange = how {
            let gone = self.dir().rename(stage.name(), stage.trash());
            let gone = gone.and_then(|()| self.discard(stage.trash()));
            self.note(gone);
        }
        Ok(Checkpoint::from_parts(dir, manifest))
    }
}
