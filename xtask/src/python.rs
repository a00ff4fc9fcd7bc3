//! The Python of interop tests, fixtures and comparisons: `PITON_PYTHON`, or an environment in the cache
//! with exactly the packages of `fixtures/python/requirements.txt`.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, io};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::stop::Stop;
use crate::{cache, cargo};

/// The interpreter, with the packages installed. Quick when they are.
pub(crate) fn provide(stop: &Stop) -> Result<PathBuf> {
    if let Some(python) = env::var_os("PITON_PYTHON").map(PathBuf::from) {
        let works = stop.output(Command::new(&python).arg("--version"));
        if !works.is_ok_and(|(status, _)| status.success()) {
            bail!("PITON_PYTHON={} does not run: name a Python interpreter, or unset it", python.display());
        }
        return Ok(python);
    }
    let requirements = cargo::root().join("fixtures/python/requirements.txt");
    let text = fs::read(&requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
    let digest = format!("{:x}", Sha256::digest(&text));
    let dir = cache::dir()?.join(format!("python-{}", &digest[..12]));
    let (python, complete) = (dir.join("bin/python"), dir.join("complete"));
    if complete.exists() {
        return Ok(python);
    }
    let _lock = cache::lock(&dir)?;
    if complete.exists() {
        return Ok(python);
    }
    // An environment cannot be renamed (its scripts name its place), so a marker says that it is whole.
    cache::remove(&dir)?;
    eprintln!("making the Python environment {} (several GB, once)", dir.display());
    let mut version = Command::new("python3");
    version.args(["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]);
    if !stop.status(&mut version)?.success() {
        bail!(
            "the interop packages need Python 3.11 or newer as python3; or set PITON_PYTHON to one that has them"
        );
    }
    let mut venv = Command::new("python3");
    cargo::run(venv.args(["-m", "venv"]).arg(&dir).stdout(io::stderr()), stop)?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--requirement"])
        .arg(&requirements)
        .stdout(io::stderr());
    cargo::run(&mut pip, stop).context(
        "cannot install the packages of fixtures/python/requirements.txt; set PITON_PYTHON to an interpreter \
         that has them, or leave out --interop",
    )?;
    fs::write(&complete, &text).with_context(|| format!("cannot write {}", complete.display()))?;
    Ok(python)
}
