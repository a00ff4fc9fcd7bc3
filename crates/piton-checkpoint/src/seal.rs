//! The last steps inside a stage: find everything, hash it, sync it, write the manifest, sync the directories.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use walkdir::{DirEntry, WalkDir};

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
    let base = stage.dir().to_owned();
    let walk = |source| Error::Walk { path: base.clone(), source };
    let mode = base.metadata().map(|meta| meta.mode() & 0o666).unwrap_or(0o600);
    let mut dirs = Vec::new();
    let mut seen = 0;
    for entry in WalkDir::new(&base).min_depth(1).sort_by_file_name() {
        let entry = entry.map_err(walk)?;
        let path = inside(&entry, &base)?;
        if entry.file_type().is_dir() {
            dirs.push(path);
            continue;
        }
        if !entry.file_type().is_file() {
            let reason = "it is a symbolic link or a special file";
            return Err(Error::InvalidPath { name: path, reason });
        }
        let meta = entry.metadata().map_err(walk)?;
        match stage.written.get(&path) {
            Some(digest) if digest.size == meta.len() => {}
            Some(digest) => return Err(changed(&path, digest.size, format!("{} bytes", meta.len()))),
            None => {
                let file = stage.opened()?.open_file(&path)?;
                if meta.mode() & mode != mode {
                    // Libraries that write through a temporary file leave 0600 behind; others could not read it.
                    file.set_mode((meta.mode() | mode) & 0o777)?;
                }
                let digest = file.digest()?;
                stage.written.insert(path, digest);
                stage.unsynced.push(std::sync::Arc::new(file));
            }
        }
        seen += 1;
    }
    if seen != stage.written.len() {
        let gone = stage.written.iter().find(|(path, _)| !base.join(path).is_file());
        let (path, size) = gone.map_or(("a file", 0), |(path, digest)| (path.as_str(), digest.size));
        return Err(changed(path, size, "nothing".to_owned()));
    }
    Ok(dirs)
}

fn inside(entry: &DirEntry, base: &PathBuf) -> Result<String, Error> {
    let path = entry.path().strip_prefix(base).unwrap_or(entry.path());
    let invalid = |reason| Error::InvalidPath { name: path.to_string_lossy().into_owned(), reason };
    let text = path.to_str().ok_or_else(|| invalid("it is not UTF-8"))?;
    name::check_path(text).map_err(invalid)?;
    Ok(text.to_owned())
}

fn changed(path: &str, expected: u64, found: String) -> Error {
    Error::ChangedInStage { name: path.to_owned(), expected, found }
}
