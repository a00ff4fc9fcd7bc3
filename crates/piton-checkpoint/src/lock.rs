//! The writer lock, and making the root it lies in.

use std::path::Path;

use rustix::io::Errno;

use crate::dir::Dir;
use crate::error::Error;
use crate::file::FileHandle;
use crate::name::LOCK;
use crate::options::StoreOptions;

/// An exclusive `flock` on `.store.lock`. Its file is close-on-exec, so a child does not keep the lock, and it is never
/// removed, so two writers can never lock two files of one name.
#[derive(Debug)]
pub(crate) struct WriterLock {
    file: FileHandle,
}

impl WriterLock {
    pub(crate) fn take(root: &Dir, options: &StoreOptions) -> Result<Self, Error> {
        let file = root.open_or_create(LOCK)?;
        if !file.try_lock()? {
            let mut told = [0; 512];
            let count = file.read(&mut told).unwrap_or(0);
            let told = String::from_utf8_lossy(&told[..count]);
            let holder = if told.trim().is_empty() { "another process" } else { told.trim() };
            return Err(Error::Locked { root: root.path().to_owned(), holder: holder.to_owned() });
        }
        let StoreOptions { run_id, holder, .. } = options;
        let sep = if holder.is_empty() { "" } else { ", " };
        let text = format!("run {run_id}, pid {}{sep}{holder}\n", std::process::id());
        file.truncate()?;
        file.write_all(text.as_bytes())?;
        Ok(Self { file })
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        self.file.unlock();
    }
}

/// Opens `root`, making it and its missing parents durable first.
pub(crate) fn make_root(root: &Path, options: &StoreOptions) -> Result<Dir, Error> {
    let open = |path: &Path| Dir::open(path, options.hook.clone());
    let error = match open(root) {
        Err(error) if error.is(Errno::NOENT) => error,
        opened => return opened,
    };
    let Some(name) = root.file_name() else { return Err(error) };
    let parent = match root.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => make_root(parent, options)?,
        _ => open(Path::new("."))?,
    };
    match parent.make_dir(name) {
        Err(error) if !error.is(Errno::EXIST) => return Err(error),
        _ => parent.sync()?,
    }
    open(root)
}
