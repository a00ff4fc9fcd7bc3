//! Files that are replaced as a whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::{Error, Result};

/// Replaces the file at `path` by `bytes`: after a crash it holds the old content or the new one.
///
/// Written beside the target, synced, renamed over it, folder synced. Missing parent folders are made;
/// the file's mode follows the umask. On an error the old content still stands.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    replace(path, |file| file.write_all(bytes).map_err(Error::io("write", path)))
}

/// Replaces the file at `path` by one JSON line for each item, in the way of [`write_atomic`].
///
/// Numbers that are not finite become `null`. Items are written as they come: nothing is collected in memory.
pub fn write_lines_atomic<T: Serialize>(path: &Path, items: impl IntoIterator<Item = T>) -> Result<()> {
    replace(path, |file| {
        for (index, item) in items.into_iter().enumerate() {
            let mut line = serde_json::to_vec(&item).map_err(|source| Error::Json {
                path: path.to_path_buf(),
                line: index + 1,
                source,
            })?;
            line.push(b'\n');
            file.write_all(&line).map_err(Error::io("write", path))?;
        }
        Ok(())
    })
}

/// Removes what a killed [`write_atomic`] left in `dir`, and says which files those were.
///
/// Only for the holder of the [`RunLock`](crate::RunLock): a live writer's temporary file looks the same.
pub fn sweep_temporaries(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    for name in list(dir)? {
        if is_temporary(&name) {
            let path = dir.join(name);
            fs::remove_file(&path).map_err(Error::io("remove", &path))?;
            removed.push(path);
        }
    }
    Ok(removed)
}

const MARK: &str = ".piton-tmp-";

fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.contains(MARK)
}

fn temporary_beside(path: &Path) -> Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or_else(|| {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name");
        Error::io("write", path)(source)
    })?;
    let (pid, nonce) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    Ok(path.with_file_name(format!(".{}{MARK}{pid}-{nonce}", name.to_string_lossy())))
}

fn replace(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let parent = parent(path);
    create_dir_all_synced(parent)?;
    let temporary = temporary_beside(path)?;
    let outcome = write_temporary(&temporary, fill)
        .and_then(|()| fs::rename(&temporary, path).map_err(Error::io("rename a new file to", path)))
        .and_then(|()| sync_dir(parent));
    if outcome.is_err() {
        // Best effort: the error that matters is the first one, and the next resume sweeps what is left.
        let _ = fs::remove_file(&temporary);
    }
    outcome
}

fn write_temporary(temporary: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(temporary)
        .map_err(Error::io("create", temporary))?;
    let mut writer = BufWriter::with_capacity(1 << 16, file);
    fill(&mut writer)?;
    let file = writer.into_inner().map_err(|e| Error::io("write", temporary)(e.into_error()))?;
    file.sync_all().map_err(Error::io("sync", temporary))
}

/// The folder of `path`; `.` for a bare name.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes the entries of a folder durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io("sync folder", dir))
}

/// `create_dir_all` whose new folders survive a power cut.
pub(crate) fn create_dir_all_synced(dir: &Path) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    create_dir_all_synced(parent(dir))?;
    match fs::create_dir(dir) {
        Ok(()) => sync_dir(parent(dir)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(e) => Err(Error::io("create folder", dir)(e)),
    }
}

/// Names in a folder, sorted; none when the folder does not exist. Names that are not UTF-8 are not ours.
pub(crate) fn list(dir: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("list folder", dir)(e)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io("list folder", dir))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}
