//! A checkpoint directory as plain text, for snapshot tests.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use serde_json::{Map, Value};
use walkdir::WalkDir;

use crate::error::Error;
use crate::hook::Op;
use crate::name::MANIFEST;
use crate::safetensors;

/// What [`render`] shows.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RenderOptions {
    /// BLAKE3 of every file and of every tensor. Off by default, since float kernels differ between CPUs.
    pub digests: bool,
    /// Keys whose values are replaced by `[key]` in every JSON file, at any depth.
    pub redact: BTreeSet<String>,
}

/// Fields of the manifest that depend on the clock, the run, the machine or the float kernels.
const VOLATILE: [&str; 8] = [
    "format",
    "run_id",
    "config_digest",
    "created_unix_ms",
    "environment",
    "metrics",
    "files",
    "self_blake3",
];
/// A JSON file larger than this is shown by its size alone.
const MAX_JSON_BYTES: u64 = 64 * 1024;

impl RenderOptions {
    /// Turns digests on.
    #[must_use]
    pub fn digests(mut self) -> Self {
        self.digests = true;
        self
    }

    /// Adds a key to redact.
    #[must_use]
    pub fn redact(mut self, key: impl Into<String>) -> Self {
        self.redact.insert(key.into());
        self
    }
}

/// Shows every file below `dir`, by path: its size, the content of JSON, name, type and shape of the tensors in a
/// safetensors file, the number of lines of JSONL.
///
/// Equal states give equal text on every machine: paths and JSON keys are sorted, and the volatile fields of the
/// manifest (with its size) are redacted. With [insta](https://insta.rs):
///
/// ```
/// # use piton_checkpoint::{Error, Overwrite, RenderOptions, Store, StoreOptions, render};
/// # let temp = tempfile::tempdir().unwrap();
/// # let mut store = Store::open(temp.path(), StoreOptions::new("run", "digest", || 0))?;
/// # let saved = store.save(2, Overwrite::Refuse, |s| s.write("train_state.json", br#"{"cur_step": 2}"#));
/// # let checkpoint = saved.map_err(Error::from)?;
/// insta::assert_snapshot!(render(checkpoint.path(), &RenderOptions::default())?, @r#"
/// MANIFEST.json
///   {
///     "config_digest": "[config_digest]",
///     "created_unix_ms": "[created_unix_ms]",
///     "environment": "[environment]",
///     "files": "[files]",
///     "format": "[format]",
///     "metrics": "[metrics]",
///     "parent_step": null,
///     "run_id": "[run_id]",
///     "self_blake3": "[self_blake3]",
///     "step": 2
///   }
/// train_state.json  15 bytes
///   {
///     "cur_step": 2
///   }
/// "#);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// When a file cannot be listed or read. A file that is not what its name says is shown with the reason.
pub fn render(dir: impl AsRef<Path>, options: &RenderOptions) -> Result<String, Error> {
    let dir = dir.as_ref();
    let mut text = String::new();
    for entry in WalkDir::new(dir).min_depth(1).sort_by_file_name() {
        let entry = entry.map_err(|source| Error::Walk { path: dir.to_owned(), source })?;
        let name = entry.path().strip_prefix(dir).unwrap_or(entry.path()).display().to_string();
        if entry.file_type().is_file() {
            text.push_str(&render_file(entry.path(), &name, options)?);
        } else if !entry.file_type().is_dir() {
            text.push_str(&format!("{name}  not a regular file\n"));
        }
    }
    Ok(text)
}

fn render_file(path: &Path, name: &str, options: &RenderOptions) -> Result<String, Error> {
    let failed = |source| Error::Io { op: Op::Read, path: path.to_owned(), source };
    let size = fs::metadata(path).map_err(failed)?.len();
    let mut redact = options.redact.clone();
    if name == MANIFEST {
        redact.extend(VOLATILE.iter().map(|key| (*key).to_owned()));
    }
    let mut content = String::new();
    let mut volatile = false;
    match Path::new(name).extension().and_then(|ext| ext.to_str()) {
        Some("json") if size <= MAX_JSON_BYTES || name == MANIFEST => {
            let bytes = fs::read(path).map_err(failed)?;
            (content, volatile) = render_json(&bytes, &redact);
        }
        Some("jsonl") => {
            let lines = fs::read(path).map_err(failed)?.iter().filter(|byte| **byte == b'\n').count();
            content = format!("{lines} lines");
        }
        Some("safetensors") => {
            content = render_tensors(&mut File::open(path).map_err(failed)?, options).map_err(failed)?;
        }
        _ => {}
    }
    let mut text = name.to_owned();
    if !volatile {
        text.push_str(&format!("  {size} bytes"));
    }
    if options.digests && !volatile {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(path).map_err(failed)?).map_err(failed)?;
        text.push_str(&format!("  blake3 {}", hasher.finalize().to_hex()));
    }
    text.push('\n');
    for line in content.lines() {
        text.push_str(&format!("  {line}\n"));
    }
    Ok(text)
}

/// The text, and whether something in it was redacted.
fn render_json(bytes: &[u8], redact: &BTreeSet<String>) -> (String, bool) {
    let value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(error) => return (format!("not JSON: {error}"), false),
    };
    let mut hit = false;
    let value = tidy(value, redact, &mut hit);
    (format!("{value:#}"), hit)
}

/// Sorts keys (serde_json keeps them in file order if any crate of the build asks it to) and redacts.
fn tidy(value: Value, redact: &BTreeSet<String>, hit: &mut bool) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(|item| tidy(item, redact, hit)).collect(),
        Value::Object(map) => {
            let mut pairs: Vec<(String, Value)> = map.into_iter().collect();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            let mut sorted = Map::new();
            for (key, value) in pairs {
                let hide = redact.contains(&key);
                *hit |= hide;
                let value = if hide { format!("[{key}]").into() } else { tidy(value, redact, hit) };
                sorted.insert(key, value);
            }
            Value::Object(sorted)
        }
        other => other,
    }
}

fn render_tensors(file: &mut File, options: &RenderOptions) -> std::io::Result<String> {
    let tensors = match safetensors::read_header(file) {
        Ok(tensors) => tensors,
        Err(reason) => return Ok(format!("not safetensors: {reason}")),
    };
    let mut text = String::new();
    for (name, tensor) in &tensors {
        text.push_str(&format!("{name}  {} {:?}", tensor.dtype, tensor.shape));
        if options.digests {
            text.push_str(&format!("  blake3 {}", safetensors::digest(file, tensor)?));
        }
        text.push('\n');
    }
    Ok(text)
}
