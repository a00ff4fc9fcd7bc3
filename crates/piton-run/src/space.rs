//! Room on a disk.

use std::path::Path;

use crate::{Error, Result};

/// Bytes that this user can still write on the file system of `path`. Advice, not a promise: quotas are not seen.
pub fn free_bytes(path: &Path) -> Result<u64> {
    let stat =
        rustix::fs::statvfs(path).map_err(|errno| Error::io("look up free space of", path)(errno.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}
