//! From a path that a person gave to the stores and checkpoints there.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use piton_checkpoint::{Checkpoint, MANIFEST, Reader, Store, parse_checkpoint_name};

/// What stands at a path.
#[derive(Debug)]
pub(crate) enum Target {
    /// One checkpoint.
    Checkpoint(PathBuf),
    /// Stores, in order of time; never none.
    Stores(Vec<PathBuf>),
}

impl Target {
    /// Looks at `path`.
    pub(crate) fn at(path: &Path) -> Result<Self> {
        let kind = std::fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
        ensure!(kind.is_dir(), "{} is not a folder: {EXPECTED}", path.display());
        if path.join(MANIFEST).exists() || step_of(path).is_some() {
            return Ok(Self::Checkpoint(path.to_owned()));
        }
        if is_store(path)? {
            return Ok(Self::Stores(vec![path.to_owned()]));
        }
        let inside = path.join("checkpoints");
        if inside.is_dir() {
            return Ok(Self::Stores(vec![inside]));
        }
        let mut stores: Vec<PathBuf> =
            piton_run::experiments(path)?.iter().map(piton_run::Experiment::checkpoints_dir).collect();
        stores.retain(|store| store.is_dir());
        stores.reverse();
        ensure!(!stores.is_empty(), "{} holds no checkpoints: {EXPECTED}", path.display());
        Ok(Self::Stores(stores))
    }

    /// The store that is meant, and the step if the path is a checkpoint's. For what changes something: with several
    /// stores somebody has to say which.
    pub(crate) fn one_store(path: &Path) -> Result<(Reader, Option<u64>)> {
        match Self::at(path)? {
            Self::Stores(stores) => match &stores[..] {
                [store] => Ok((Store::open_read_only(store)?, None)),
                _ => {
                    let names: Vec<String> =
                        stores.iter().map(|store| format!("\n  {}", store.display())).collect();
                    bail!(
                        "{} holds {} stores, name one of them:{}",
                        path.display(),
                        stores.len(),
                        names.concat()
                    )
                }
            },
            Self::Checkpoint(checkpoint) => {
                // `.` has no name of its own, nor has a path that ends in `..`.
                let plain = checkpoint.file_name().is_some()
                    && checkpoint.parent().is_some_and(|p| p != Path::new(""));
                let there = if plain { checkpoint.clone() } else { checkpoint.canonicalize()? };
                let step = there.file_name().and_then(parse_checkpoint_name);
                let (Some(step), Some(store)) = (step, there.parent()) else {
                    bail!("{} is not in a store: its name is not ckpt-step-N", path.display());
                };
                Ok((Store::open_read_only(store)?, Some(step)))
            }
        }
    }

    /// As [`one_store`](Self::one_store), with the step from the path or, failing that, from `--step`.
    pub(crate) fn one_step(path: &Path, step: Option<u64>) -> Result<(Reader, u64)> {
        let (store, named) = Self::one_store(path)?;
        match (named, step) {
            (Some(named), Some(step)) if named != step => {
                bail!("{} is not step {step}: leave --step out, or give the store's path", path.display())
            }
            (Some(step), _) | (None, Some(step)) => Ok((store, step)),
            (None, None) => {
                let there = store.steps()?;
                bail!("say which checkpoint of {} with --step; it has {there:?}", store.root().display())
            }
        }
    }

    /// The checkpoint that is meant; of a store the newest valid one.
    pub(crate) fn one_checkpoint(path: &Path) -> Result<Checkpoint> {
        if let Self::Checkpoint(checkpoint) = Self::at(path)? {
            return Ok(Checkpoint::open_dir(checkpoint)?);
        }
        let (store, _) = Self::one_store(path)?;
        store.latest()?.with_context(|| format!("{} has no checkpoint", store.root().display()))
    }
}

const EXPECTED: &str = "expected a run's work_dir or exp_dir, a folder of ckpt-step-N, or one of these";

fn is_store(path: &Path) -> Result<bool> {
    let survey = Store::open_read_only(path)?.survey()?;
    Ok(survey.identity.is_some() || !survey.steps.is_empty())
}

/// The step in the last name of a path, `.` and `..` included.
fn step_of(path: &Path) -> Option<u64> {
    path.canonicalize().ok()?.file_name().and_then(|name: &OsStr| parse_checkpoint_name(name))
}
