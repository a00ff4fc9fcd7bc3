//! The last steps inside a stage: find everything, hash it, sync it, write the manifest, sync the directories.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::dir::Kind;
use crate::error::Error;
use crate::manifest::{FileEntry, Manifest};
use crate::name::{self, MANIFEST};
use crate::stage::Stage;

/// Completes `manifest` with the stage's files and makes all of it durable under the stage's name.
pub(crate) fn seal(stage: &mut Stage, mut manifest: Manifest) -> Result<Manifest, Error> {
    if let Some(failed) = stage.failed.take() {
        return Err(failed);
    }
    if let Some(name) = stage.unfinished.pop_first() {
        return Err(Error::Unfinished { name });
    }
    let dirs = take_in(stage)?;
    manifest.metrics = std::mem::take(&mut stage.metrics);
    let written = std::mem::take(&mut stage.written);
    manifest.files = written.into_iter().map(|(path, digest)| FileEntry::new(path, digest)).collect();
    stage.sync_files()?;

    let text = manifest.encode().map_err(|source| Error::Json { name: MANIFEST.to_owned(), source })?;
    let file = stage.opened()?.create_file(MANIFEST)?;
    file.write_all(text.as_bytes())?;
    file.sync()?;

    for dir in dirs.iter().rev() {
        let mut at = stage.opened()?.again()?;
        for part in dir.split('/') {
            at = at.child(part)?;
        }
        at.sync()?;
    }
    stage.opened()?.sync()?;
    Ok(manifest)
}

/// Compares the stage's directory with what was written through it, and takes in files that other code put there.
/// Returns the directories, each parent before its children.
fn take_in(stage: &mut Stage) -> Result<Vec<String>, Error> {
    let mode = stage.opened()?.mode()? & 0o666;
    let mut dirs = Vec::new();
    let mut missing: BTreeSet<String> = stage.written.keys().cloned().collect();
    for found in stage.opened()?.tree()? {
        let path = checked(&found.path)?;
        match found.kind {
            Kind::Dir => {
                dirs.push(path);
                continue;
            }
            Kind::Other => {
                return Err(Error::InvalidPath {
                    name: path,
                    reason: "it is a symbolic link or a special file",
                });
            }
            Kind::File => {}
        }
        missing.remove(&path);
        match stage.written.get(&path) {
            Some(digest) if digest.size == found.size => {}
            Some(digest) => return Err(changed(&path, digest.size, format!("{} bytes", found.size))),
            None => {
                let file = stage.opened()?.open_file(&path)?;
                if found.mode & mode != mode {
                    // Libraries that write through a temporary file leave 0600 behind; others could not read it.
                    file.set_mode((found.mode | mode) & 0o777)?;
                }
                let digest = file.digest()?;
                stage.written.insert(path, digest);
                stage.unsynced.push(Arc::new(file));
            }
        }
    }
    match missing.pop_first() {
        None => Ok(dirs),
        Some(path) => Err(changed(&path, stage.written[&path].size, "nothing".to_owned())),
    }
}

fn checked(path: &Path) -> Result<String, Error> {
    let invalid = |reason| Error::InvalidPath { name: path.to_string_lossy().into_owned(), reason };
    let text = path.to_str().ok_or_else(|| invalid("it is not UTF-8"))?;
    name::check_path(text).map_err(invalid)?;
    Ok(text.to_owned())
}

fn changed(path: &str, expected: u64, found: String) -> Error {
    Error::ChangedInStage { name: path.to_owned(), expected, found }
}
