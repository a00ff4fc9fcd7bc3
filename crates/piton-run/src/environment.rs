//! What a run ran on, by an allow-list: enough to explain a difference, and no secrets.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::atomic::write_atomic;
use crate::config::{Change, diff};
use crate::tracker::free_numbered;
use crate::{Error, Result};

/// The machine, the versions and a few variables. Fields that could not be found out are empty or `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentRecord {
    /// `Debian GNU/Linux 12 (bookworm)`.
    pub os: String,
    /// `Linux 6.1.0 x86_64`.
    pub kernel: String,
    /// `AMD EPYC 7B13`.
    pub cpu_model: String,
    /// Vector extensions that change which kernels a library picks, and so the last bits of results.
    pub cpu_features: Vec<String>,
    /// Cores that this process may use.
    pub cpu_count: usize,
    /// The machine's memory.
    pub memory_bytes: u64,
    /// What the caller knows: the program, the compiler, libtorch.
    pub versions: BTreeMap<String, String>,
    /// Allow-listed environment variables.
    pub variables: BTreeMap<String, String>,
}

impl EnvironmentRecord {
    /// Looks at this machine. `variables` is the whole environment, as from `std::env::vars_os()`.
    ///
    /// Recorded are the thread counts (`OMP_NUM_THREADS`, `MKL_NUM_THREADS`, `RAYON_NUM_THREADS`, ...),
    /// `CUDA_VISIBLE_DEVICES`, SLURM's job, rank and node, torchrun's ranks, and `PITON_*` unless the name speaks
    /// of a key, token, secret, password or credential.
    pub fn collect(
        versions: BTreeMap<String, String>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        let uname = rustix::system::uname();
        let [sysname, release, machine] =
            [uname.sysname(), uname.release(), uname.machine()].map(|text| text.to_string_lossy());
        let sysinfo = rustix::system::sysinfo();
        Self {
            os: field("/etc/os-release", "PRETTY_NAME", '=').trim_matches('"').to_owned(),
            kernel: format!("{sysname} {release} {machine}"),
            cpu_model: field("/proc/cpuinfo", "model name", ':'),
            cpu_features: cpu_features(),
            cpu_count: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: u64::from(sysinfo.mem_unit).saturating_mul(sysinfo.totalram),
            versions,
            variables: variables
                .into_iter()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .filter(|(name, _)| is_allowed(name))
                .collect(),
        }
    }

    /// Writes `environment.json` into `dir` and gives what differs from the one that was there.
    ///
    /// A different record of an earlier start is kept as `environment.before-<n>.json`. One that cannot be read is
    /// kept in the same way, and nothing is compared.
    pub fn write(&self, dir: &Path) -> Result<Vec<Change>> {
        let path = dir.join("environment.json");
        let json_error = |source| Error::Json { path: path.clone(), line: 1, source };
        let now = serde_json::to_value(self).map_err(json_error)?;
        let mut bytes = serde_json::to_vec_pretty(self).map_err(json_error)?;
        bytes.push(b'\n');
        let mut changes = Vec::new();
        if let Ok(old) = fs::read(&path) {
            if old == bytes {
                return Ok(changes);
            }
            write_atomic(&free_numbered(&path, "before")?, &old)?;
            if let Ok(before) = serde_json::from_slice(&old) {
                changes = diff(&before, &now);
            }
        }
        write_atomic(&path, &bytes)?;
        Ok(changes)
    }
}

const ALLOWED: [&str; 16] = [
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_VISIBLE_DEVICES",
    "LOCAL_RANK",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "RANK",
    "RAYON_NUM_THREADS",
    "RUST_LOG",
    "SLURM_JOB_ID",
    "SLURM_NNODES",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_RESTART_COUNT",
    "WORLD_SIZE",
];

const SECRET: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH"];

fn is_allowed(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    ALLOWED.contains(&name) || (name.starts_with("PITON_") && !SECRET.iter().any(|word| upper.contains(word)))
}

/// The value after the first `<name><separator>` at the start of a line; empty when there is none.
fn field(path: &str, name: &str, separator: char) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let value = text.lines().find_map(|line| {
        let (found, value) = line.split_once(separator)?;
        (found.trim() == name).then(|| value.trim().to_owned())
    });
    value.unwrap_or_default()
}

#[cfg(target_arch = "x86_64")]
fn cpu_features() -> Vec<String> {
    let detected = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
        ("fma", is_x86_feature_detected!("fma")),
    ];
    detected.into_iter().filter(|&(_, has)| has).map(|(name, _)| name.to_owned()).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn cpu_features() -> Vec<String> {
    Vec::new()
}
