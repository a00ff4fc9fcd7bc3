use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;

use piton_run::{EnvironmentRecord, free_bytes};

fn collect(variables: &[(&str, &str)]) -> EnvironmentRecord {
    let versions = BTreeMap::from([("libtorch".to_owned(), "2.13.0".to_owned())]);
    EnvironmentRecord::collect(
        versions,
        variables.iter().map(|&(k, v)| (OsString::from(k), OsString::from(v))),
    )
}

#[test]
fn only_listed_variables_are_recorded_and_no_secrets() {
    let record = collect(&[
        ("OMP_NUM_THREADS", "2"),
        ("PITON_CACHE", "there"),
        ("PITON_API_KEY", "hidden"),
        ("PITON_hub_token", "hidden"),
        ("AWS_SECRET_ACCESS_KEY", "hidden"),
        ("HOME", "hidden"),
        ("SLURM_JOB_ID", "7"),
        ("SLURM_JWT", "hidden"),
    ]);
    let expected = [("OMP_NUM_THREADS", "2"), ("PITON_CACHE", "there"), ("SLURM_JOB_ID", "7")];
    assert_eq!(record.variables, expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    assert!(!serde_json::to_string(&record).unwrap().contains("hidden"));
}

#[test]
fn the_machine_is_described_as_the_system_describes_it() {
    let record = collect(&[]);
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total_kib: u64 = meminfo.lines().next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    assert_eq!(record.memory_bytes, total_kib * 1024);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(record.kernel.starts_with(&format!("Linux {}", release.trim())), "{}", record.kernel);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap();
    assert!(cpuinfo.contains(&record.cpu_model));
    assert!(
        record.cpu_features.iter().all(|feature| cpuinfo.contains(feature) || feature.starts_with("avx512"))
    );
    assert!(record.cpu_count >= 1 && !record.os.is_empty());
}

#[test]
fn a_start_on_a_changed_machine_keeps_the_old_record_and_names_the_difference() {
    let tmp = tempfile::tempdir().unwrap();
    let first = collect(&[("OMP_NUM_THREADS", "2")]);
    assert_eq!(first.write(tmp.path()).unwrap(), []);
    assert_eq!(first.write(tmp.path()).unwrap(), []);
    let second = collect(&[("OMP_NUM_THREADS", "4")]);
    let changes = second.write(tmp.path()).unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].key, "variables.OMP_NUM_THREADS");
    let read = |name: &str| -> EnvironmentRecord {
        serde_json::from_slice(&fs::read(tmp.path().join(name)).unwrap()).unwrap()
    };
    assert_eq!(read("environment.before-1.json"), first);
    assert_eq!(read("environment.json"), second);
}

#[test]
fn free_space_is_what_df_says() {
    let tmp = tempfile::tempdir().unwrap();
    let output =
        std::process::Command::new("df").args(["--output=avail", "-B1"]).arg(tmp.path()).output().unwrap();
    let df: u64 = String::from_utf8(output.stdout).unwrap().lines().nth(1).unwrap().trim().parse().unwrap();
    let ours = free_bytes(tmp.path()).unwrap();
    assert!(ours.abs_diff(df) < 1 << 30, "{ours} against {df}: other processes write, but not that fast");
    assert!(free_bytes(&tmp.path().join("missing")).unwrap_err().to_string().contains("missing"));
}
