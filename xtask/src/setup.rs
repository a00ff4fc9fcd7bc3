//! `cargo xtask setup`: provide libtorch, and Python's packages when asked.

use std::ffi::OsString;

use anyhow::{Result, bail};

use crate::stop::Stop;
use crate::{libtorch, python};

pub(crate) fn run(args: &[OsString], stop: &Stop) -> Result<()> {
    let (mut interop, mut keep_wheels) = (false, false);
    for arg in args {
        match arg.to_string_lossy().as_ref() {
            "--interop" => interop = true,
            "--keep-wheels" => keep_wheels = true,
            other => bail!("setup has no argument '{other}'; see cargo xtask setup --help"),
        }
    }
    println!("ready: {}", libtorch::provide(keep_wheels, stop)?);
    if interop {
        println!("ready: Python for the interop tests, {}", python::provide(stop)?.display());
    }
    Ok(())
}
