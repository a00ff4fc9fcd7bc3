//! Where libtorch comes from: the caller's own, or the bundle in the cache, linked as `.cargo/libtorch`.
//!
//! `.cargo/config.toml` gives that link to the build as `LIBTORCH`, so plain cargo commands need nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fmt, fs, io};

use anyhow::{Context, Result, bail};

use crate::stop::Stop;
use crate::{bundle, cargo};

/// The version that tch wants.
pub(crate) const VERSION: &str = "2.13.0";

/// The libtorch that the build uses.
#[derive(Debug)]
pub(crate) enum Libtorch {
    /// The folder that `LIBTORCH` names.
    Own(PathBuf),
    /// The torch that `python3` imports, because of `LIBTORCH_USE_PYTORCH`.
    Python,
    /// The bundle in the cache.
    Bundle(PathBuf),
}

impl fmt::Display for Libtorch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(dir) => write!(f, "libtorch {VERSION} in {} (from LIBTORCH)", dir.display()),
            Self::Python => write!(f, "libtorch {VERSION} of python3's torch (LIBTORCH_USE_PYTORCH is set)"),
            Self::Bundle(dir) => write!(f, "libtorch {VERSION} for the CPU in {}", dir.display()),
        }
    }
}

/// Checks the caller's libtorch, or makes sure that the bundle is there. Quick when it is.
pub(crate) fn provide(keep_wheels: bool, stop: &Stop) -> Result<Libtorch> {
    if env::var_os("LIBTORCH_USE_PYTORCH").is_some() {
        check_python(stop)?;
        return Ok(Libtorch::Python);
    }
    if let Some(dir) = own() {
        check_own(&dir)?;
        return Ok(Libtorch::Own(dir));
    }
    let link = cargo::root().join(".cargo/libtorch");
    if !bundle::is_complete(&link) {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            bail!(
                "libtorch can be fetched for Linux on x86-64 only, and this is {} on {}; set LIBTORCH to the \
                 absolute path of a libtorch {VERSION}, or LIBTORCH_USE_PYTORCH=1 with torch=={VERSION} \
                 installed for python3",
                env::consts::OS,
                env::consts::ARCH,
            );
        }
        point(&link, &bundle::provide(keep_wheels, stop)?)?;
    }
    Ok(Libtorch::Bundle(fs::canonicalize(&link)?))
}

/// `LIBTORCH`, unless Cargo set it from `.cargo/config.toml` when it started this program.
pub(crate) fn own() -> Option<PathBuf> {
    let dir = PathBuf::from(env::var_os("LIBTORCH")?);
    (dir != cargo::root().join(".cargo/libtorch")).then_some(dir)
}

fn check_own(dir: &Path) -> Result<()> {
    if !dir.is_absolute() {
        bail!("LIBTORCH={} is not an absolute path, and the build runs in other folders", dir.display());
    }
    let lib = dir.join("lib");
    if !["libtorch_cpu.so", "libtorch_cpu.dylib"].iter().any(|name| lib.join(name).exists()) {
        bail!("LIBTORCH={} has no lib/libtorch_cpu: unset it, or name a libtorch {VERSION}", dir.display());
    }
    // The archive has build-version; a torch folder of a Python installation has version.py.
    let version = match fs::read_to_string(dir.join("build-version")) {
        Ok(text) => Some(text.trim().to_owned()),
        Err(_) => fs::read_to_string(dir.join("version.py")).ok().and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("__version__ = "))?;
            Some(line.trim_matches(['\'', '"']).to_owned())
        }),
    };
    match version {
        Some(found) => check_version(&found, &format!("LIBTORCH={}", dir.display())),
        None => {
            eprintln!("LIBTORCH={} does not say its version; {VERSION} is needed", dir.display());
            Ok(())
        }
    }
}

fn check_python(stop: &Stop) -> Result<()> {
    let mut python = Command::new("python3");
    python.args(["-c", "import importlib.metadata as m; print(m.version('torch'))"]);
    let (status, version) = stop.output(python.stderr(Stdio::null()))?;
    if !status.success() {
        bail!("LIBTORCH_USE_PYTORCH is set, but python3 has no torch: install torch=={VERSION} or unset it");
    }
    check_version(version.trim(), "LIBTORCH_USE_PYTORCH is set and python3's torch")
}

fn check_version(found: &str, what: &str) -> Result<()> {
    let plain = found.split('+').next().unwrap_or(found); // 2.13.0+cu130
    if plain != VERSION && env::var_os("LIBTORCH_BYPASS_VERSION_CHECK").is_none() {
        bail!(
            "{what} is version {found}, and {VERSION} is needed (LIBTORCH_BYPASS_VERSION_CHECK=1 to try it)"
        );
    }
    Ok(())
}

/// Makes `link` a symbolic link to `target` in one step.
fn point(link: &Path, target: &Path) -> Result<()> {
    if link.is_dir() && !link.is_symlink() {
        bail!("{} is a folder and no libtorch {VERSION}: remove it and run this again", link.display());
    }
    let staged = link.with_added_extension("new");
    match fs::remove_file(&staged) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    std::os::unix::fs::symlink(target, &staged)
        .and_then(|()| fs::rename(&staged, link))
        .with_context(|| format!("cannot link {} to {}", link.display(), target.display()))
}
