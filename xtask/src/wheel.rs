//! One wheel from the package index that pip uses: fetched once, and trusted only by its hash.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::stop::Stop;

/// A wheel of the package index, pinned.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// `name==version`, as pip takes it.
    pub(crate) package: &'static str,
    /// The file's name.
    pub(crate) file: &'static str,
    /// The platform tag in that name.
    pub(crate) platform: &'static str,
    /// The file's SHA-256, in hexadecimal.
    pub(crate) sha256: &'static str,
    /// The file's size.
    pub(crate) megabytes: u32,
}

impl Wheel {
    /// Whether the file is in `folder`, with the right hash.
    pub(crate) fn is_in(&self, folder: &Path) -> Result<bool> {
        match File::open(folder.join(self.file)) {
            Ok(mut file) => {
                let mut hash = Sha256::new();
                io::copy(&mut file, &mut hash).with_context(|| format!("cannot read {}", self.file))?;
                Ok(format!("{:x}", hash.finalize()) == self.sha256)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| format!("cannot open {}", self.file)),
        }
    }

    /// Fetches the file into `folder`, unless it is there.
    pub(crate) fn fetch(&self, folder: &Path, stop: &Stop) -> Result<PathBuf> {
        let path = folder.join(self.file);
        if self.is_in(folder)? {
            return Ok(path);
        }
        match fs::remove_file(&path) {
            Ok(()) => eprintln!("  {} is damaged and is fetched again", self.file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot remove {}", path.display())),
        }
        let requirement = folder.join(self.file).with_added_extension("requirement");
        fs::write(&requirement, format!("{} --hash=sha256:{}\n", self.package, self.sha256))
            .with_context(|| format!("cannot write {}", requirement.display()))?;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes"])
            .args(["--disable-pip-version-check", "--no-input"])
            .args(["--python-version", "3.11", "--implementation", "cp", "--platform", self.platform])
            .arg("--dest")
            .arg(folder)
            .arg("--requirement")
            .arg(&requirement)
            .stdout(io::stderr());
        let status = stop.status(&mut pip)?;
        fs::remove_file(&requirement)?;
        if !status.success() || !self.is_in(folder)? {
            bail!(
                "cannot get the package {} (see pip's message above).\nProvide it in one of these ways:\n  \
                 - network: run the command again where pip reaches its index, or with a folder that holds\n    \
                 {}: PIP_FIND_LINKS=DIR PIP_NO_INDEX=1\n  \
                 - LIBTORCH=DIR, the absolute path of a libtorch 2.13.0\n  \
                 - LIBTORCH_USE_PYTORCH=1, with torch==2.13.0 installed for python3",
                self.package,
                self.file,
            );
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_cut_short_is_not_trusted() {
        let wheel = Wheel {
            package: "hello==1.0",
            file: "hello.whl",
            platform: "any",
            sha256: "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", // sha256sum of "hello"
            megabytes: 0,
        };
        let folder = tempfile::tempdir().unwrap();
        assert!(!wheel.is_in(folder.path()).unwrap());
        fs::write(folder.path().join("hello.whl"), "hel").unwrap();
        assert!(!wheel.is_in(folder.path()).unwrap());
        fs::write(folder.path().join("hello.whl"), "hello").unwrap();
        assert!(wheel.is_in(folder.path()).unwrap());
    }
}
