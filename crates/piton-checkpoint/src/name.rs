//! Names in a store's root, and which paths a checkpoint may hold.

use std::ffi::OsStr;

/// The manifest's name inside a checkpoint; reserved.
pub const MANIFEST: &str = "MANIFEST.json";
/// The writer lock's name in the root.
pub(crate) const LOCK: &str = ".store.lock";
/// The name of the file that says whose store it is.
pub(crate) const IDENTITY: &str = ".store.json";
/// The folder of the permanent pins.
pub(crate) const PINS: &str = "pins";

const PREFIX: &str = "ckpt-step-";
const STAGE: &str = ".tmp-ckpt-step-";
const ABANDONED: &str = "abandoned-";
const TRASH: &str = ".trash-ckpt-step-";
const TEMPORARY: &str = ".tmp-file-";
const PIN: &str = ".keep";
const MAX_PATH_BYTES: usize = 1024;
const MAX_DEPTH: usize = 16;

/// The directory name of the checkpoint at `step`: `ckpt-step-12`.
pub fn checkpoint_name(step: u64) -> String {
    format!("{PREFIX}{step}")
}

/// The step of a checkpoint name; `None` for every other spelling.
///
/// Only `ckpt-step-` and a canonical decimal that fits `u64` counts: `ckpt-step-012`, `ckpt-step-12.bak` and
/// `my-ckpt-step-12` belong to somebody else.
pub fn parse_checkpoint_name(name: &OsStr) -> Option<u64> {
    canonical(name.to_str()?.strip_prefix(PREFIX)?)
}

/// Why `path` cannot name a file of a checkpoint; `Ok` when it can.
///
/// A path is UTF-8, relative, `/`-separated, at most 16 components of at most 255 bytes, none of which starts with a
/// dot; the manifest's own name is reserved.
pub fn check_path(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("it is empty");
    }
    if path.len() > MAX_PATH_BYTES {
        return Err("it is longer than 1024 bytes");
    }
    if path.eq_ignore_ascii_case(MANIFEST) {
        return Err("that name is reserved for the manifest");
    }
    if path.split('/').count() > MAX_DEPTH {
        return Err("it is nested deeper than 16 levels");
    }
    path.split('/').try_for_each(check_component)
}

fn check_component(part: &str) -> Result<(), &'static str> {
    if part.is_empty() {
        return Err("it is absolute, ends in a slash or has an empty component");
    }
    if part.starts_with('.') {
        return Err("a component starts with a dot");
    }
    if part.len() > 255 {
        return Err("a component is longer than 255 bytes");
    }
    if part.chars().any(char::is_control) {
        return Err("it has a control character");
    }
    Ok(())
}

/// The name of a save in progress; `tag` comes from the run, `pid` and `n` make it unique.
pub(crate) fn stage_name(step: u64, tag: &str, pid: u32, n: u64) -> String {
    format!("{STAGE}{step}-{tag}-{pid}-{n}")
}

/// The name under which a directory waits to be removed.
pub(crate) fn trash_name(step: u64, tag: &str, pid: u32, n: u64) -> String {
    format!("{TRASH}{step}-{tag}-{pid}-{n}")
}

/// The name of a small file that is being written, or of something made to see whether it can be.
pub(crate) fn temporary_name(tag: &str, pid: u32, n: u64) -> String {
    format!("{TEMPORARY}{tag}-{pid}-{n}")
}

/// The name of the file in `pins/` that pins a step.
pub(crate) fn pin_name(step: u64) -> String {
    format!("{}{PIN}", checkpoint_name(step))
}

/// The step of a name that [`pin_name`] makes.
pub(crate) fn parse_pin_name(name: &OsStr) -> Option<u64> {
    parse_checkpoint_name(name.to_str()?.strip_suffix(PIN)?.as_ref())
}

/// The name of a directory for checkpoints after `step` that a rollback left behind.
pub(crate) fn abandoned_name(step: u64, n: u64) -> String {
    format!("{ABANDONED}{step}-{n}")
}

/// True for the names that [`abandoned_name`] makes.
pub(crate) fn is_abandoned(name: &OsStr) -> bool {
    let rest = name.to_str().and_then(|name| name.strip_prefix(ABANDONED));
    let parts = rest.and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(step, n)| canonical(step).is_some() && canonical(n).is_some())
}

/// True for the names that [`stage_name`], [`trash_name`] and [`temporary_name`] make, and for nothing else.
pub(crate) fn is_leftover(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_tag = |tag: &str| tag.len() == 8 && tag.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let are_numbers = |parts: &[&str]| parts.iter().all(|number| canonical(number).is_some());
    let stage = name.strip_prefix(STAGE).or_else(|| name.strip_prefix(TRASH));
    match (stage, name.strip_prefix(TEMPORARY)) {
        (Some(rest), _) => match rest.split('-').collect::<Vec<_>>()[..] {
            [step, tag, pid, n] => is_tag(tag) && are_numbers(&[step, pid, n]),
            _ => false,
        },
        (None, Some(rest)) => match rest.split('-').collect::<Vec<_>>()[..] {
            [tag, pid, n] => is_tag(tag) && are_numbers(&[pid, n]),
            _ => false,
        },
        (None, None) => false,
    }
}

fn canonical(digits: &str) -> Option<u64> {
    let ascii = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let leading_zero = digits.len() > 1 && digits.starts_with('0');
    if ascii && !leading_zero { digits.parse().ok() } else { None }
}
