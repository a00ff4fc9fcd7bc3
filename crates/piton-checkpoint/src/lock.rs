//! The writer lock, and making the root it lies in.

use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;

use crate::dir::Dir;
use crate::error::Error;
use crate::file::FileHandle;
use crate::name::LOCK;
use crate::options::StoreOptions;
use crate::reader::Reader;
use crate::syscall::Hook;

/// An exclusive `flock` on `.store.lock`. Its file is close-on-exec, so a child does not keep the lock, and it is never
/// removed, so two writers can never lock two files of one name.
#[derive(Debug)]
pub(crate) struct WriterLock {
    file: FileHandle,
    pid: u32,
}

/// Who asks whether there is a writer holds the lock shared for a moment; a writer that comes then asks again.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_millis(10);

impl WriterLock {
    pub(crate) fn take(root: &Dir, options: &StoreOptions) -> Result<Self, Error> {
        Self::take_named(root, LOCK, &format!("run {}, ", options.run_id), &options.holder)
    }

    /// Takes the lock in the file `name`, and writes there `what` is done and who does it.
    pub(crate) fn take_named(root: &Dir, name: &str, what: &str, holder: &str) -> Result<Self, Error> {
        let file = root.open_or_create(name)?;
        let mut attempt = 1;
        while !file.try_lock(true)? {
            if attempt == ATTEMPTS {
                return Err(Error::Locked { root: root.path().to_owned(), holder: told(&file) });
            }
            attempt += 1;
            std::thread::sleep(PAUSE);
        }
        let sep = if holder.is_empty() { "" } else { ", " };
        let pid = std::process::id();
        let text = format!("{what}pid {pid}{sep}{holder}\n");
        let this = Self { file, pid };
        match this.file.truncate().and_then(|()| this.file.write_all(text.as_bytes())) {
            // It is only told to people, and a full disk must not keep anybody from opening the store to prune it.
            Ok(()) | Err(Error::NoSpace { .. } | Error::Quota { .. }) => Ok(this),
            Err(error) => Err(error),
        }
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // A forked child shares the lock and must not give it up for its parent.
        if self.pid == std::process::id() {
            self.file.unlock();
        }
    }
}

impl Reader {
    /// Who has the store open for writing, as it describes itself; `None` when nobody has.
    ///
    /// # Errors
    /// What the system said.
    pub fn writer(&self) -> Result<Option<String>, Error> {
        let file = match self.dir().open_file(LOCK) {
            Ok(file) => file,
            Err(error) if error.is(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error),
        };
        if file.try_lock(false)? {
            file.unlock();
            return Ok(None);
        }
        Ok(Some(told(&file)))
    }
}

fn told(lock: &FileHandle) -> String {
    let mut told = [0; 512];
    let count = lock.read(&mut told).unwrap_or(0);
    let told = String::from_utf8_lossy(&told[..count]);
    if told.trim().is_empty() { "another process".to_owned() } else { told.trim().to_owned() }
}

/// Opens `root`, making it and its missing parents durable first.
pub(crate) fn make_root(root: &Path, hook: &Hook) -> Result<Dir, Error> {
    let open = |path: &Path| Dir::open(path, hook.clone());
    let error = match open(root) {
        Err(error) if error.is(Errno::NOENT) => error,
        opened => return opened,
    };
    let Some(name) = root.file_name() else { return Err(error) };
    let parent = match root.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => make_root(parent, hook)?,
        _ => open(Path::new("."))?,
    };
    match parent.make_dir(name) {
        Err(error) if !error.is(Errno::EXIST) => return Err(error),
        _ => parent.sync()?,
    }
    open(root)
}

/// Whether this process may make and remove names here, found out now and not at the first save, hours later.
pub(crate) fn probe(root: &Dir, temporary: &str) -> Result<(), Error> {
    match root.make_dir(temporary) {
        Ok(()) => root.remove_dir(temporary.as_ref()),
        // A full disk is a reason to open the store and prune it.
        Err(Error::NoSpace { .. } | Error::Quota { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Adds to a refusal who owns the root and who asked.
pub(crate) fn explain_access(root: &Dir, error: Error) -> Error {
    if !(error.is(Errno::ACCESS) || error.is(Errno::PERM)) {
        return error;
    }
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    Error::NotWritable {
        root: root.path().to_owned(),
        owner: root.owner(),
        process: format!("uid {uid}, gid {gid}"),
        source: Box::new(error),
    }
}
