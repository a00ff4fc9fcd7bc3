//! `meta.json`: a cache of what a work_dir holds, for people and scripts. The tree is the truth.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::atomic::{list, sweep_temporaries, write_atomic};
use crate::experiment::{experiments, number_in};
use crate::{Error, Result};

/// The experiments of a work_dir, oldest first, as the reference's meta file lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meta {
    /// One entry for each exp_dir.
    pub exps: Vec<ExpInfo>,
}

/// One experiment. Every path is relative to the work_dir, so a moved tree stays right.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpInfo {
    /// `20261130204824`.
    pub exp_dir: String,
    /// `20261130204824/checkpoints/ckpt-step-2`, ..., by step. Folders without a manifest are not checkpoints.
    pub checkpoint_list: Vec<String>,
    /// `20261130204824/hf/hf-step-2`, ..., by step.
    pub hf_checkpoint_list: Vec<String>,
}

impl Meta {
    /// Lists the tree; `meta.json` is not read.
    pub fn scan(work_dir: &Path) -> Result<Self> {
        let mut exps = Vec::new();
        for experiment in experiments(work_dir)?.iter().rev() {
            let is_complete = |dir: &Path| dir.join("MANIFEST.json").is_file();
            exps.push(ExpInfo {
                exp_dir: experiment.name(),
                checkpoint_list: steps(work_dir, &experiment.checkpoints_dir(), "ckpt-step-", is_complete)?,
                hf_checkpoint_list: steps(work_dir, &experiment.hf_dir(), "hf-step-", Path::is_dir)?,
            });
        }
        Ok(Self { exps })
    }

    /// Scans the tree and rewrites `meta.json` if it is lost, damaged or says something else.
    ///
    /// For the holder of the [`RunLock`](crate::RunLock).
    pub fn refresh(work_dir: &Path) -> Result<Self> {
        sweep_temporaries(work_dir)?;
        let meta = Self::scan(work_dir)?;
        let path = work_dir.join(FILE);
        let mut bytes = serde_json::to_vec_pretty(&meta).map_err(|source| Error::Json {
            path: path.clone(),
            line: 1,
            source,
        })?;
        bytes.push(b'\n');
        if fs::read(&path).ok().as_deref() != Some(&*bytes) {
            write_atomic(&path, &bytes)?;
        }
        Ok(meta)
    }
}

const FILE: &str = "meta.json";

fn steps(work_dir: &Path, dir: &Path, prefix: &str, keep: impl Fn(&Path) -> bool) -> Result<Vec<String>> {
    let mut steps: Vec<u64> = list(dir)?
        .iter()
        .filter(|name| keep(&dir.join(name)))
        .filter_map(|name| number_in(name, prefix, ""))
        .collect();
    steps.sort_unstable();
    let relative = dir.strip_prefix(work_dir).unwrap_or(dir);
    Ok(steps.into_iter().map(|step| format!("{}/{prefix}{step}", relative.display())).collect())
}
