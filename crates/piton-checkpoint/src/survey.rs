//! Everything in a store's root, told apart by its name.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::checkpoint::Checkpoint;
use crate::damage::Rejected;
use crate::error::Error;
use crate::identity::Identity;
use crate::name::{self, IDENTITY, LOCK, PINS};
use crate::reader::Reader;
use crate::verify::Depth;

/// What [`Reader::survey`] saw. Names are as shown to people: bytes that are not UTF-8 are replaced.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Survey {
    /// Whose store it is, if it says so.
    pub identity: Option<Identity>,
    /// Who has it open for writing.
    pub writer: Option<String>,
    /// Steps that have something under a checkpoint's name, ascending, whole or not.
    pub steps: Vec<u64>,
    /// Pinned steps with their notes, whether or not there is such a checkpoint.
    pub pins: BTreeMap<u64, String>,
    /// Stages, trash and temporary files, sorted. With a writer some are in use; without one all are garbage, which the
    /// next writer removes when it opens the store.
    pub leftovers: Vec<String>,
    /// Checkpoints that were set aside, sorted by path.
    pub abandoned: Vec<PathBuf>,
    /// Names that are not the store's, sorted. Nothing here touches them.
    pub foreign: Vec<String>,
}

impl Reader {
    /// Lists the root and says what each name in it is. No checkpoint is opened; see [`glance`](Self::glance).
    ///
    /// # Errors
    /// When the root or the pins cannot be listed.
    pub fn survey(&self) -> Result<Survey, Error> {
        let mut survey = Survey {
            identity: self.identity()?,
            writer: self.writer()?,
            pins: self.pins()?,
            abandoned: self.abandoned()?,
            ..Survey::default()
        };
        for name in self.dir().list()? {
            let text = name.to_string_lossy();
            if let Some(step) = name::parse_checkpoint_name(&name) {
                survey.steps.push(step);
            } else if name::is_leftover(&name) {
                survey.leftovers.push(text.into_owned());
            } else if !name::is_abandoned(&name) && ![LOCK, IDENTITY, PINS].contains(&text.as_ref()) {
                survey.foreign.push(text.into_owned());
            }
        }
        survey.steps.sort_unstable();
        survey.leftovers.sort();
        survey.foreign.sort();
        Ok(survey)
    }

    /// The checkpoint at `step` by its manifest and the sizes of its files, which takes no time; `None` when there is
    /// none. The bytes are checked when they are read, or all together by [`Checkpoint::verify`].
    ///
    /// # Errors
    /// When the machine fails; damage is the inner result.
    pub fn glance(&self, step: u64) -> Result<Option<Result<Checkpoint, Rejected>>, Error> {
        self.examine(step, Depth::Sizes)
    }
}
