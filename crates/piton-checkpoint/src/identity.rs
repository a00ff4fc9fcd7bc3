//! `.store.json`: whose store this is, written once.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::dir::Dir;
use crate::error::Error;
use crate::name::IDENTITY;
use crate::reader::Reader;

/// The layout of the root that this version makes, and the newest it opens.
const LAYOUT: u64 = 1;
/// A file larger than this was not written by a store.
const MAX_BYTES: usize = 64 * 1024;

/// What a store says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Identity {
    /// Version of the root's layout; the manifests have a version of their own.
    pub layout: u64,
    /// The run that writes here.
    pub run_id: String,
}

impl Reader {
    /// Whose store this is; `None` when no writer ever opened it, or when `.store.json` is damaged.
    ///
    /// # Errors
    /// What the system said.
    pub fn identity(&self) -> Result<Option<Identity>, Error> {
        read(self.dir())
    }
}

/// Checks that the store belongs to `run_id`; true when it does not say so yet.
pub(crate) fn check(root: &Dir, run_id: &str, adopt: bool) -> Result<bool, Error> {
    match read(root)? {
        Some(Identity { layout, .. }) if layout > LAYOUT => {
            Err(Error::NewerLayout { root: root.path().to_owned(), found: layout })
        }
        Some(identity) if identity.run_id == run_id => Ok(false),
        Some(Identity { run_id: found, .. }) if !adopt => {
            Err(Error::OtherRun { root: root.path().to_owned(), found, asked: run_id.to_owned() })
        }
        _ => Ok(true),
    }
}

/// Writes down that the store is `run_id`'s.
pub(crate) fn write(root: &Dir, run_id: &str, temporary: &str) -> Result<(), Error> {
    let identity = Identity { layout: LAYOUT, run_id: run_id.to_owned() };
    let json = |source| Error::Json { name: IDENTITY.to_owned(), source };
    let text = serde_json::to_string_pretty(&identity).map_err(json)?;
    match root.put(IDENTITY, temporary, format!("{text}\n").as_bytes()) {
        // A full disk must not keep anybody from opening the store to prune it; the next open writes the file.
        Err(Error::NoSpace { .. } | Error::Quota { .. }) => Ok(()),
        written => written,
    }
}

fn read(root: &Dir) -> Result<Option<Identity>, Error> {
    let file = match root.open_file(IDENTITY) {
        Ok(file) => file,
        Err(error) if [Errno::NOENT, Errno::LOOP, Errno::NXIO].iter().any(|errno| error.is(*errno)) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; MAX_BYTES];
    let mut count = 0;
    loop {
        match file.read(&mut bytes[count..]) {
            Ok(0) => return Ok(serde_json::from_slice(&bytes[..count]).ok()),
            Ok(more) => count += more,
            Err(error) if error.is(Errno::ISDIR) || error.is(Errno::IO) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}
