//! Hugging Face exports: complete or absent, like checkpoints, but without a file of ours inside.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::config::MaxKeep;
use crate::error::Error;

const PREFIX: &str = "hf-step-";
const STAGE: &str = ".tmp-";
const TRASH: &str = ".trash-";

/// Makes `<hf_dir>/hf-step-<step>`: filled beside its place, synced, then renamed. An older export of the step is replaced.
pub(crate) fn publish(
    hf_dir: &Path,
    step: u64,
    fill: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<PathBuf, Error> {
    fs::create_dir_all(hf_dir).map_err(failed("create", hf_dir))?;
    sweep(hf_dir)?;
    let stage = hf_dir.join(format!("{STAGE}{PREFIX}{step}"));
    let place = hf_dir.join(format!("{PREFIX}{step}"));
    fs::create_dir(&stage).map_err(failed("create", &stage))?;
    if let Err(error) = fill(&stage).and_then(|()| sync_tree(&stage)) {
        // The half-written export is of no use; if it cannot be removed the next export sweeps it.
        let _swept_later = fs::remove_dir_all(&stage);
        return Err(error);
    }
    if place.exists() {
        retire(hf_dir, &place)?;
    }
    fs::rename(&stage, &place).map_err(failed("rename", &stage))?;
    sync_dir(hf_dir)?;
    Ok(place)
}

/// Removes the oldest exports beyond `keep`, of those up to `step`: later ones are of a future that a resume gave up, and
/// stay until they are written again.
pub(crate) fn prune(hf_dir: &Path, keep: MaxKeep, step: u64) -> Result<(), Error> {
    let MaxKeep::Last(keep) = keep else { return Ok(()) };
    let mut steps = steps(hf_dir)?;
    steps.retain(|export| *export <= step);
    steps.sort_unstable();
    let surplus = steps.len().saturating_sub(keep.get());
    for step in steps.drain(..surplus) {
        retire(hf_dir, &hf_dir.join(format!("{PREFIX}{step}")))?;
    }
    Ok(())
}

fn steps(hf_dir: &Path) -> Result<Vec<u64>, Error> {
    let entries = match fs::read_dir(hf_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("list", hf_dir)(error)),
    };
    let mut steps = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed("list", hf_dir))?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        steps.extend(
            number.and_then(|digits| digits.parse::<u64>().ok().filter(|step| step.to_string() == digits)),
        );
    }
    Ok(steps)
}

/// Leftovers of a killed process; the run lock proves that nobody else is at work here.
fn sweep(hf_dir: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(hf_dir).map_err(failed("list", hf_dir))? {
        let entry = entry.map_err(failed("list", hf_dir))?;
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| {
            name.strip_prefix(STAGE)
                .or_else(|| name.strip_prefix(TRASH))
                .is_some_and(|rest| rest.starts_with(PREFIX))
        });
        if ours {
            fs::remove_dir_all(entry.path()).map_err(failed("remove", &entry.path()))?;
        }
    }
    Ok(())
}

/// Renamed first, so that nothing half deleted ever has an export's name.
fn retire(hf_dir: &Path, place: &Path) -> Result<(), Error> {
    let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let trash = hf_dir.join(format!("{TRASH}{name}"));
    if trash.exists() {
        fs::remove_dir_all(&trash).map_err(failed("remove", &trash))?;
    }
    fs::rename(place, &trash).map_err(failed("rename", place))?;
    sync_dir(hf_dir)?;
    fs::remove_dir_all(&trash).map_err(failed("remove", &trash))
}

fn sync_tree(dir: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(failed("list", dir))? {
        let entry = entry.map_err(failed("list", dir))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(failed("look at", &path))?;
        if kind.is_dir() {
            sync_tree(&path)?;
        } else if kind.is_file() {
            File::open(&path).and_then(|file| file.sync_all()).map_err(failed("sync", &path))?;
        }
    }
    sync_dir(dir)
}

fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|file| file.sync_all()).map_err(failed("sync", dir))
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { operation, path, source }
}
