//! Permanent pins: checkpoints that no policy removes until somebody says so.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use rustix::io::Errno;

use crate::checkpoint::Checkpoint;
use crate::dir::Dir;
use crate::error::Error;
use crate::name::{self, PINS};
use crate::reader::Reader;

/// Bytes of a note that are kept and shown.
const MAX_NOTE_BYTES: usize = 1024;

impl Reader {
    /// The pinned steps, each with its note; whether they have a checkpoint is not asked.
    ///
    /// # Errors
    /// When the folder of the pins cannot be read: nobody should delete anything then.
    pub fn pins(&self) -> Result<BTreeMap<u64, String>, Error> {
        let mut pins = BTreeMap::new();
        let Some(dir) = open(self.dir())? else { return Ok(pins) };
        for name in dir.list()? {
            if let Some(step) = name::parse_pin_name(&name) {
                // One that cannot be read is a pin all the same.
                pins.insert(step, note(&dir, &name).unwrap_or_default());
            }
        }
        Ok(pins)
    }

    /// Pins the checkpoint at `step` until [`unpin`](Self::unpin): [`Store::prune`](crate::Store::prune) of every process
    /// leaves it. `note` says why, to people; a second pin replaces the first one's.
    ///
    /// The writer need not be asked: this works beside a running trainer, and is durable when it returns. The pin is a
    /// file in `pins/`, so a copy of the whole store has it too.
    ///
    /// # Errors
    /// [`Error::NoSuchStep`], [`Error::Rejected`] for a checkpoint without a whole manifest, or what the system said.
    pub fn pin(&self, step: u64, note: &str) -> Result<(), Error> {
        let checkpoint = match Checkpoint::open(self.dir(), step) {
            Ok(Ok(checkpoint)) => checkpoint,
            Ok(Err(rejected)) => return Err(Error::Rejected { rejected: Box::new(rejected) }),
            Err(error) if error.is(Errno::NOENT) => return Err(self.no_such_step(step)?),
            Err(error) => return Err(error),
        };
        // While this lives the pruner stays away; afterwards it sees the file.
        let _held = checkpoint.pin()?;
        match self.dir().make_dir(PINS) {
            Ok(()) => self.dir().sync()?,
            Err(error) if error.is(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        let dir = self.dir().child(PINS)?;
        // The name is the pin, so a note torn by a power cut harms nothing and the file can be written in place.
        let file = dir.open_or_create(&name::pin_name(step))?;
        file.truncate()?;
        let note: String = note.chars().filter(|c| !c.is_control()).take(MAX_NOTE_BYTES / 4).collect();
        file.write_all(format!("{note}\n").as_bytes())?;
        file.sync()?;
        dir.sync()
    }

    /// Removes a pin; `false` when there was none. Works for a step without a checkpoint too.
    ///
    /// # Errors
    /// What the system said.
    pub fn unpin(&self, step: u64) -> Result<bool, Error> {
        let Some(dir) = open(self.dir())? else { return Ok(false) };
        match dir.remove_file(name::pin_name(step).as_ref()) {
            Ok(()) => dir.sync().map(|()| true),
            Err(error) if error.is(Errno::NOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn is_pinned(&self, step: u64) -> Result<bool, Error> {
        let Some(dir) = open(self.dir())? else { return Ok(false) };
        Ok(dir.kind(name::pin_name(step))?.is_some())
    }

    fn no_such_step(&self, step: u64) -> Result<Error, Error> {
        Ok(Error::NoSuchStep { step, root: self.root().to_owned(), there: self.steps()? })
    }
}

/// Moves a step's pin, if it has one, to the store in `holder`, with its checkpoint.
pub(crate) fn move_along(root: &Dir, holder: &Dir, step: u64) -> Result<(), Error> {
    let name = name::pin_name(step);
    let Some(from) = open(root)? else { return Ok(()) };
    if from.kind(&name)?.is_none() {
        return Ok(());
    }
    match holder.make_dir(PINS) {
        Err(error) if !error.is(Errno::EXIST) => return Err(error),
        _ => {}
    }
    let to = holder.child(PINS)?;
    from.rename_to(name.as_ref(), &to, name.as_ref())?;
    to.sync()?;
    from.sync()
}

/// `None` when nothing was ever pinned.
fn open(root: &Dir) -> Result<Option<Dir>, Error> {
    match root.child(PINS) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if error.is(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn note(dir: &Dir, name: &OsStr) -> Option<String> {
    let mut bytes = [0; MAX_NOTE_BYTES];
    let count = dir.open_file(name.to_str()?).ok()?.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..count]).trim().to_owned())
}
