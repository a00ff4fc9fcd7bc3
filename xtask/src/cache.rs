//! The cache outside every checkout, and the lock that keeps two checkouts from filling it at once.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// `${XDG_CACHE_HOME:-~/.cache}/piton`, created.
pub(crate) fn dir() -> Result<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let Some(base) = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache"))) else {
        bail!("no folder for the cache: set HOME or XDG_CACHE_HOME to an absolute path");
    };
    let dir = base.join("piton");
    fs::create_dir_all(&dir).with_context(|| format!("cannot create the cache {}", dir.display()))?;
    Ok(dir)
}

/// Holds `<path>.lock` until the file is dropped or this process ends, and waits for another holder.
pub(crate) fn lock(path: &Path) -> Result<File> {
    let path = path.with_added_extension("lock");
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {
            eprintln!("waiting for another process that holds {}", path.display())
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
    }
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// Removes a folder that may be absent.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
