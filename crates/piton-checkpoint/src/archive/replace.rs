//! From two temporary files to a pair, so that at every moment the zip has a JSON that vouches for it.

use rustix::io::Errno;

use super::name;
use super::reader::{examine, raw};
use crate::dir::{Dir, Kind};
use crate::error::Error;

/// How a publication ended that did not fail.
#[derive(Debug)]
pub(crate) enum Published {
    Durable,
    /// The names are there; syncing them failed.
    Uncertain(Error),
}

/// Gives two synced files their names: first the JSON, then the zip.
///
/// Where a pair stands already, its JSON gets a second name first, and each step is durable before the next. Then either
/// the JSON or the former one fits the zip, whenever somebody looks or the machine stops.
pub(crate) fn publish(dir: &Dir, stem: &str, new: &New<'_>) -> Result<Published, Error> {
    let (zip, json) = (name::zip(stem), name::json(stem));
    let standing = match dir.kind(&zip)? {
        Some(Kind::File) => raw(dir, &json)?.ok(),
        _ => None,
    };
    if let Some(bytes) = &standing {
        dir.put(&name::former(stem), new.spare, bytes)?;
    }
    let named = dir
        .replace(new.json, &json)
        .and_then(|()| if standing.is_some() { dir.sync() } else { Ok(()) })
        .and_then(|()| dir.replace(new.zip, &zip));
    if let Err(error) = named {
        // Best effort: a JSON alone is swept by a prune, and the former one by the next save or open.
        match standing {
            Some(_) => drop(settle(dir, stem)),
            None if matches!(dir.kind(&zip), Ok(None)) => drop(dir.remove_file(json.as_ref())),
            None => {}
        }
        return Err(error);
    }
    if let Err(error) = dir.sync() {
        return Ok(Published::Uncertain(error));
    }
    if standing.is_some() {
        // What stays is settled by the next save or open.
        drop(remove(dir, &name::former(stem)));
    }
    Ok(Published::Durable)
}

/// Names of what is to be published.
#[derive(Debug)]
pub(crate) struct New<'a> {
    pub(crate) zip: &'a str,
    pub(crate) json: &'a str,
    /// A name for one more temporary file.
    pub(crate) spare: &'a str,
}

/// Ends a replacement that was interrupted: forwards when the new zip is there, back when it is not.
pub(crate) fn settle(dir: &Dir, stem: &str) -> Result<(), Error> {
    let former = name::former(stem);
    if dir.kind(&former)?.is_none() {
        return Ok(());
    }
    match examine(dir, stem, None)? {
        Some(Ok(archive)) if archive.by_former => {
            dir.replace(&former, &name::json(stem))?;
            dir.sync()
        }
        Some(Ok(_)) | None => {
            // The names may not be on disk yet, and until they are the former JSON is needed.
            dir.sync()?;
            remove(dir, &former)
        }
        // Neither fits: the zip is damaged, and both are left for people.
        Some(Err(_)) => Ok(()),
    }
}

/// Removes a file that may be gone.
pub(crate) fn remove(dir: &Dir, name: &str) -> Result<(), Error> {
    match dir.remove_file(name.as_ref()) {
        Err(error) if error.is(Errno::NOENT) => Ok(()),
        other => other,
    }
}
