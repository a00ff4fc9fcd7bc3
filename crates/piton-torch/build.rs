//! Tells Cargo where libtorch lies, so that whatever links this crate runs from any shell.
//!
//! torch-sys compiles against libtorch but leaves no trace of its folder in the programs that link it.
//! Three things follow from the folder, after symbolic links are resolved (a checkout that is moved or
//! deleted must not break a binary built in it):
//!
//! - this crate's own tests, examples and benches get it as a run path;
//! - the crates that depend on this one get it as `DEP_PITON_TORCH_LIBTORCH_LIB` and do the same;
//! - doctests, for which Cargo has no linker arguments, find it through a link in `OUT_DIR`: Cargo adds
//!   search paths that lie inside `OUT_DIR` to `LD_LIBRARY_PATH` of everything it runs.
//!
//! Under the feature `tch/doc-only` there is no libtorch, and nothing to say.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=DEP_TCH_LIBTORCH_LIB");
    let Some(lib) = env::var_os("DEP_TCH_LIBTORCH_LIB") else { return Ok(()) };
    let lib = fs::canonicalize(lib)?;
    println!("cargo::metadata=libtorch_lib={}", lib.display());
    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", lib.display());
    if cfg!(unix) {
        let link = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("libtorch");
        point(&link, &lib)?;
        println!("cargo::rustc-link-search=native={}", link.display());
    }
    Ok(())
}

/// Makes `link` a symbolic link to `target`, whatever it was before.
fn point(link: &Path, target: &Path) -> io::Result<()> {
    match fs::remove_file(link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::os::unix::fs::symlink(target, link)
}
