//! The CPU bundle: the part of torch's wheels that a C++ program needs, complete in the cache or absent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cache;
use crate::libtorch::VERSION;
use crate::stop::Stop;
use crate::wheel::Wheel;

/// The wheels, each with what is taken from it and where it goes.
///
/// libtorch_cpu.so of the only 2.13.0 wheel on the index is built with CUDA's profiler, so it needs that
/// profiler's library and the CUDA run time to load, though never a GPU.
const PARTS: [(Wheel, &[&str]); 3] = [
    (
        Wheel {
            package: "torch==2.13.0",
            file: "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl",
            platform: "manylinux_2_28_x86_64",
            sha256: "60fcdcb2f3876e21146cb4524ef06397d727ca9ad5f020818547e25075fe3cb7",
            megabytes: 527,
        },
        &[
            "torch/include/=include/",
            "torch/lib/libtorch_cpu.so=lib/libtorch_cpu.so",
            "torch/lib/libc10.so=lib/libc10.so",
            "torch/lib/libgomp.so.1=lib/libgomp.so.1",
        ],
    ),
    (
        Wheel {
            package: "nvidia-cuda-runtime==13.0.96",
            file: "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
            platform: "manylinux2014_x86_64",
            sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
            megabytes: 2,
        },
        &["nvidia/cu13/lib/libcudart.so.13=lib/libcudart.so.13"],
    ),
    (
        Wheel {
            package: "nvidia-cuda-cupti==13.0.85",
            file: "nvidia_cuda_cupti-13.0.85-py3-none-manylinux_2_25_x86_64.whl",
            platform: "manylinux_2_25_x86_64",
            sha256: "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
            megabytes: 11,
        },
        &["nvidia/cu13/lib/libcupti.so.13=lib/libcupti.so.13"],
    ),
];

const LIBRARIES: [&str; 6] =
    ["libtorch.so", "libtorch_cpu.so", "libc10.so", "libgomp.so.1", "libcudart.so.13", "libcupti.so.13"];

/// Whether `dir` holds a whole bundle of this version. A link is followed.
pub(crate) fn is_complete(dir: &Path) -> bool {
    // build-version is written last, into a folder that then gets its name.
    fs::read_to_string(dir.join("build-version")).is_ok_and(|version| version.trim() == VERSION)
        && LIBRARIES.iter().all(|library| dir.join("lib").join(library).is_file())
}

/// Makes the bundle in the cache, unless it is there, and returns its folder.
pub(crate) fn provide(keep_wheels: bool, stop: &Stop) -> Result<PathBuf> {
    let cache = cache::dir()?;
    let dir = cache.join(format!("libtorch-{VERSION}-cpu"));
    let _lock = cache::lock(&dir)?;
    if is_complete(&dir) {
        return Ok(dir);
    }
    eprintln!("libtorch {VERSION} for the CPU goes to {} (once for all checkouts)", dir.display());
    need_tools(stop)?;
    let downloads = cache.join("downloads");
    fs::create_dir_all(&downloads).with_context(|| format!("cannot create {}", downloads.display()))?;
    let staging = dir.with_added_extension("partial");
    cache::remove(&staging)?;
    for (number, (wheel, _)) in PARTS.iter().enumerate() {
        let (number, count) = (number + 1, PARTS.len());
        eprintln!("libtorch {VERSION}: wheel {number} of {count}, {}, {} MB", wheel.package, wheel.megabytes);
        wheel.fetch(&downloads, stop)?;
    }
    for (wheel, members) in &PARTS {
        eprintln!("libtorch {VERSION}: unpacking {}", wheel.package);
        unpack(&downloads.join(wheel.file), &staging, members, stop)?;
    }
    link_stub(&staging.join("lib"), stop)?;
    commit(&staging, &dir)?;
    if !keep_wheels {
        for (wheel, _) in &PARTS {
            fs::remove_file(downloads.join(wheel.file))?;
        }
    }
    Ok(dir)
}

/// Says what is missing before half a gigabyte is fetched.
fn need_tools(stop: &Stop) -> Result<()> {
    let works = |program: &str, args: &[&str]| {
        stop.output(Command::new(program).args(args)).is_ok_and(|(status, _)| status.success())
    };
    if !works("python3", &["-m", "pip", "--version"]) {
        bail!(
            "libtorch is fetched with pip, but `python3 -m pip --version` fails: install Python 3 with pip"
        );
    }
    if !works("gcc", &["--version"]) {
        bail!("libtorch needs a linker, but `gcc --version` fails: install gcc and g++");
    }
    if !works("g++", &["--version"]) {
        bail!("libtorch's bindings are C++, but `g++ --version` fails: install g++");
    }
    Ok(())
}

fn unpack(wheel: &Path, staging: &Path, members: &[&str], stop: &Stop) -> Result<()> {
    let mut python = Command::new("python3");
    python.args(["-c", include_str!("unzip.py")]).arg(wheel).arg(staging).args(members);
    if !stop.status(&mut python)?.success() {
        bail!("cannot unpack {} into {}", wheel.display(), staging.display());
    }
    Ok(())
}

/// Makes libtorch.so, which the bindings link by name and whose wheel form would pull in all of CUDA.
fn link_stub(lib: &Path, stop: &Stop) -> Result<()> {
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-o", "libtorch.so", "-Wl,--no-as-needed", "-L.", "-ltorch_cpu", "-lc10"])
        .arg("-Wl,-rpath,$ORIGIN")
        .current_dir(lib);
    if !stop.status(&mut gcc)?.success() {
        bail!("gcc cannot link libtorch.so in {}", lib.display());
    }
    Ok(())
}

/// Gives a staged bundle its name, after everything in it is on the disk.
fn commit(staging: &Path, dir: &Path) -> Result<()> {
    fs::write(staging.join("build-version"), format!("{VERSION}\n"))?;
    #[cfg(target_os = "linux")] // the only system that gets here
    nix::unistd::syncfs(std::fs::File::open(staging)?)
        .with_context(|| format!("cannot sync {}", staging.display()))?;
    cache::remove(dir)?;
    fs::rename(staging, dir).with_context(|| format!("cannot rename {} into place", staging.display()))
}
