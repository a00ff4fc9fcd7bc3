//! Trajectory files of steps that a resumed run will do again are moved aside, not overwritten.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::atomic::{create_dir_all_synced, list, parent, sweep_temporaries, sync_dir};
use crate::cut::Keep;
use crate::experiment::{Experiment, number_in};
use crate::{Error, Result};

/// Moves the train and eval rollout files that `keep` does not keep to `set_aside/<n>/`, and says where they are now.
///
/// Each call that finds such files takes the next free number from 1. For the holder of the
/// [`RunLock`](crate::RunLock); the files left stand exactly for the steps that count.
pub fn set_aside_after(experiment: &Experiment, keep: Keep) -> Result<Vec<PathBuf>> {
    let mut moves = Vec::new();
    for folder in FOLDERS {
        let dir = experiment.dir().join(folder);
        sweep_temporaries(&dir)?;
        moves.extend(
            not_kept(&list(&dir)?, folder, keep).map(|name| (dir.join(&name), format!("{folder}/{name}"))),
        );
    }
    if moves.is_empty() {
        return Ok(Vec::new());
    }
    let aside = new_numbered_dir(&experiment.dir().join("set_aside"))?;
    let mut moved = Vec::new();
    for (from, name) in moves {
        let to = aside.join(name);
        create_dir_all_synced(parent(&to))?;
        fs::rename(&from, &to).map_err(Error::io("move aside", &from))?;
        moved.push(to);
    }
    for folder in FOLDERS {
        for dir in [aside.join(folder), experiment.dir().join(folder)] {
            if dir.is_dir() {
                sync_dir(&dir)?;
            }
        }
    }
    Ok(moved)
}

const FOLDERS: [&str; 2] = ["train_rollout", "eval_rollout"];

/// The names `<folder>_<step>.jsonl` whose step is not kept, by step. Other names are nobody's business here.
fn not_kept(names: &[String], folder: &str, keep: Keep) -> impl Iterator<Item = String> {
    let mut steps: Vec<u64> = names
        .iter()
        .filter_map(|name| number_in(name, &format!("{folder}_"), ".jsonl"))
        .filter(|&step| !keep.keeps(step))
        .collect();
    steps.sort_unstable();
    steps.into_iter().map(move |step| format!("{folder}_{step}.jsonl"))
}

fn new_numbered_dir(root: &Path) -> Result<PathBuf> {
    create_dir_all_synced(root)?;
    let mut number = 1_u64;
    loop {
        let dir = root.join(number.to_string());
        match fs::create_dir(&dir) {
            Ok(()) => return sync_dir(root).map(|()| dir),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(e) => return Err(Error::io("create folder", &dir)(e)),
        }
    }
}
