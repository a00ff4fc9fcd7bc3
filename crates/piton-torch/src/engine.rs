//! Which libtorch runs here, on which CPU kernels, with how many threads.
//!
//! Floating-point results are reproducible while all three stay the same, so
//! they belong in a checkpoint's manifest and are compared on resume.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// What the bits of a result depend on beside the program and its input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineFacts {
    /// Version of the libtorch that is loaded, such as `2.13.0`.
    pub libtorch: String,
    /// Instruction set of libtorch's kernels: `AVX512`, `AVX2`, `DEFAULT` on x86-64, else the architecture.
    pub cpu_capability: String,
    /// Threads that one operation may use.
    pub threads: usize,
}

/// Reads the facts of the running process.
pub fn engine_facts() -> EngineFacts {
    EngineFacts {
        libtorch: libtorch_version(),
        cpu_capability: cpu_capability().to_owned(),
        threads: usize::try_from(tch::get_num_threads()).unwrap_or(1),
    }
}

/// Sets how many threads one operation may use; call it once, before other work.
///
/// # Errors
/// When `threads` is 0 or larger than `i32::MAX`.
pub fn set_threads(threads: usize) -> Result<()> {
    match i32::try_from(threads) {
        Ok(count) if count > 0 => {
            tch::set_num_threads(count);
            Ok(())
        }
        _ => Err(Error::Setting { name: "threads", found: threads as f64, expected: "1 or more" }),
    }
}

fn libtorch_version() -> String {
    // TORCH_ABI_VERSION in torch/headeronly/version.h: major, minor, patch, tag, a byte each, then zeros
    let [major, minor, patch, ..] = aoti_torch_abi_version().to_be_bytes();
    format!("{major}.{minor}.{patch}")
}

#[expect(unsafe_code, reason = "a C function of libtorch that torch-sys does not declare")]
// SAFETY: declared in torch/csrc/inductor/aoti_torch/c/shim.h with this signature; it reads nothing but
// a constant, so it may be called at any time from any thread.
unsafe extern "C" {
    safe fn aoti_torch_abi_version() -> u64;
}

/// The choice of `at::get_cpu_capability`, made again from what it looks at.
///
/// Source: aten/src/ATen/native/DispatchStub.cpp, `compute_cpu_capability`. The
/// function itself returns a C++ string, which has no stable layout to call it by.
#[cfg(target_arch = "x86_64")]
fn cpu_capability() -> &'static str {
    use std::arch::is_x86_feature_detected as has;
    match std::env::var("ATEN_CPU_CAPABILITY").as_deref() {
        Ok("avx512") => return "AVX512",
        Ok("avx2") => return "AVX2",
        Ok("default") => return "DEFAULT",
        _ => {}
    }
    let fma = has!("fma");
    if has!("avx512vl") && has!("avx512bw") && has!("avx512dq") && fma {
        "AVX512"
    } else if has!("avx2") && fma {
        "AVX2"
    } else {
        "DEFAULT"
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn cpu_capability() -> &'static str {
    std::env::consts::ARCH
}
