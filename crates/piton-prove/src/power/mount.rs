//! File systems on loop devices, through the commands that come with Linux.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::proof::Setting;

/// The argument that [`go_private`] adds.
const PRIVATE: &str = "--private-mounts";

/// A kind of file system to put on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ext4,
    Xfs,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// The smallest disk that the file system takes, more or less.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Ext4 => 64 << 20,
            Self::Xfs => 304 << 20,
        }
    }

    /// Why the file system cannot be made here, if it cannot.
    pub(crate) fn missing(self) -> Option<String> {
        let tool = format!("mkfs.{}", self.name());
        (!runs(&tool)).then(|| format!("{tool} is not here"))
    }

    /// Makes the file system on the file `image`, of so many bytes.
    pub(crate) fn make(self, image: &Path, bytes: u64) -> Result<()> {
        fs::File::create_new(image)?.set_len(bytes)?;
        let mut command = Command::new(format!("mkfs.{}", self.name()));
        match self {
            Self::Ext4 => command.args(["-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]),
            Self::Xfs => command.args(["-q", "-K"]),
        };
        done(command.arg(image))
    }

    /// Repairs the file system on the file `image`.
    pub(crate) fn repair(self, image: &Path) -> Result<()> {
        match self {
            Self::Ext4 => {
                // 1: errors were corrected
                let ended =
                    Command::new("e2fsck").arg("-fy").arg(image).output().context("cannot start e2fsck")?;
                let said = || String::from_utf8_lossy(&ended.stdout).into_owned();
                ensure!(matches!(ended.status.code(), Some(0 | 1)), "e2fsck: {}", said());
                Ok(())
            }
            Self::Xfs => done(Command::new("xfs_repair").arg(image)),
        }
    }
}

/// Why nothing can be mounted here, if it cannot.
pub(crate) fn refused(setting: &Setting) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("mounting takes root".to_owned());
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if !Path::new(device).exists() {
            return Some(format!("{device} is not here"));
        }
    }
    if !setting.private_mounts {
        return Some(
            "no mount namespace of its own: unshare (util-linux) is not here or not allowed".to_owned(),
        );
    }
    None
}

/// A mounted file system; unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Mounted {
    dir: PathBuf,
}

impl Mounted {
    /// Mounts the file `image` through a loop device.
    pub(crate) fn image(kind: Kind, image: &Path, dir: &Path) -> Result<Self> {
        let options = match kind {
            Kind::Ext4 => "loop,nodiscard",
            Kind::Xfs => "loop,nodiscard,nouuid",
        };
        let mut command = Command::new("mount");
        done(command.args(["-t", kind.name(), "-o", options]).arg(image).arg(dir))?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// Mounts a file system in memory that takes so many bytes.
    pub(crate) fn memory(bytes: u64, dir: &Path) -> Result<Self> {
        done(Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(dir))?;
        Ok(Self { dir: dir.to_owned() })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Unmounts, and says when that fails.
    pub(crate) fn unmount(self) -> Result<()> {
        let unmounted = unmount(&self.dir);
        std::mem::forget(self);
        unmounted
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // What is still busy goes with this process's mount namespace.
        let _ = unmount(&self.dir);
    }
}

fn unmount(dir: &Path) -> Result<()> {
    let mut tries = 0;
    loop {
        match done(Command::new("umount").arg(dir)) {
            Err(_) if tries < 50 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

/// Whether a command can be started.
pub(crate) fn runs(name: &str) -> bool {
    Command::new(name).arg("-V").output().is_ok()
}

/// Runs a command, and fails with what it said if it failed.
pub(crate) fn done(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// Replaces this process by itself in a mount namespace of its own, if that can be had. Then its mounts and loop devices
/// go when it dies, however it dies.
pub(crate) fn go_private(args: impl IntoIterator<Item = std::ffi::OsString>) -> Result<()> {
    use std::os::unix::process::CommandExt;

    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        command
    };
    if !unshare().arg("true").output().is_ok_and(|tried| tried.status.success()) {
        return Ok(());
    }
    let error = unshare().arg(std::env::current_exe()?).args(args).arg(PRIVATE).exec();
    bail!("cannot start unshare: {error}")
}

/// Drops what the kernel remembers of files, so that the next reads come from the disk.
pub(crate) fn forget_caches() -> Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "3").context("cannot drop the page cache")
}
