//! One run per work_dir: a lock that the kernel frees when its holder dies.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::atomic::create_dir_all_synced;
use crate::clock::{Clock, rfc3339};
use crate::{Error, Result};

/// The lock on a work_dir, held until it is dropped or the process ends in whatever way.
///
/// It is a `flock` on `<work_dir>/run.lock`. The file names its holder and stays when the lock is freed: whether
/// anybody holds it is the kernel's knowledge, not the file's. Child processes do not inherit it. On NFS it needs
/// a server with locking (any NFSv4).
#[derive(Debug)]
pub struct RunLock {
    file: File,
    pid: u32,
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child that another thread has just forked shares it until its exec. And such a
        // child must not free the lock for its parent.
        if self.pid == std::process::id() {
            let _closing_frees_it_too = self.file.unlock();
        }
    }
}

/// Who holds a lock, as written in `run.lock`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process id, on `host`.
    pub pid: u32,
    /// The machine's name.
    pub host: String,
    /// What the user ran.
    pub command: String,
    /// When it was started, RFC 3339 in UTC.
    pub started: String,
}

impl RunLock {
    /// Takes the lock on `work_dir`, making the folder when it is missing; does not wait.
    ///
    /// [`Error::Held`] names the run that has it. What a dead holder left behind does not block.
    pub fn acquire(work_dir: &Path, holder: &Holder) -> Result<Self> {
        create_dir_all_synced(work_dir)?;
        let path = work_dir.join(FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(Error::io("open lock", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = read_holder(&mut file).map(Box::new);
                return Err(Error::Held { work_dir: work_dir.to_path_buf(), holder });
            }
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path)(e)),
        }
        // Emptied first: a dead holder's name must not be taken for ours.
        let mut content = serde_json::to_vec(holder).map_err(|source| Error::Json {
            path: path.clone(),
            line: 1,
            source,
        })?;
        content.push(b'\n');
        file.set_len(0).and_then(|()| file.write_all(&content)).map_err(Error::io("write", &path))?;
        Ok(Self { file, pid: std::process::id() })
    }
}

impl Holder {
    /// This process, described by what the user ran.
    pub fn this_process(command: impl Into<String>, clock: &dyn Clock) -> Self {
        Self {
            pid: std::process::id(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            command: command.into(),
            started: rfc3339(clock.now()),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, host, command, started } = self;
        write!(f, "process {pid} on {host} (`{command}`, started {started})")
    }
}

const FILE: &str = "run.lock";

/// The holder's name; it may be a moment late, for it is written after the lock is taken.
fn read_holder(file: &mut File) -> Option<Holder> {
    for _ in 0..10 {
        let mut content = String::new();
        file.rewind().ok()?;
        file.read_to_string(&mut content).ok()?;
        if let Ok(holder) = serde_json::from_str(&content) {
            return Some(holder);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}
