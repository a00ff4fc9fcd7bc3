//! The rows of one prompt file.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::jsonl;
use crate::{Error, Faults, Row};

/// The rows of one prompt file, all of them well formed; row `i` stands in line `i + 1`.
#[derive(Clone, Debug)]
pub struct Dataset {
    path: PathBuf,
    rows: Vec<Row>,
}

impl Dataset {
    /// Reads a JSONL file: one [`Row`] a line, in UTF-8.
    ///
    /// Lines may end in LF or CRLF, and the last one in nothing.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Empty`], or [`Error::Rows`] with every malformed line. No row is ever dropped silently.
    pub fn read_jsonl(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|source| Error::Read { path: path.into(), source })?;
        Self::from_jsonl(path, &bytes)
    }

    /// Parses the content of a JSONL file; `path` is only named in errors.
    ///
    /// # Errors
    /// As [`Dataset::read_jsonl`].
    pub fn from_jsonl(path: impl AsRef<Path>, bytes: &[u8]) -> Result<Self, Error> {
        let path = path.as_ref().to_path_buf();
        if bytes.is_empty() {
            return Err(Error::Empty { path });
        }
        let (mut rows, mut faults) = (Vec::new(), Faults::default());
        for (index, line) in jsonl::lines(bytes).enumerate() {
            match jsonl::parse_row(line) {
                Ok(row) => rows.push(row),
                Err(found) => found.into_iter().for_each(|fault| faults.push(fault.on_line(index + 1))),
            }
        }
        if faults.total > 0 {
            return Err(Error::Rows { path, faults });
        }
        Ok(Self { path, rows })
    }

    /// The file the rows come from, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The rows in the order of the file.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// How many rows there are, at least one.
    #[expect(clippy::len_without_is_empty, reason = "a data set without rows cannot be made")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The BLAKE3 hash of the rows, in hexadecimal.
    ///
    /// It sees what is used: spaces, line ends and the spelling of escapes do not change it, and the path does not enter.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for row in &self.rows {
            hash_row(&mut hasher, row);
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Adds one row as a line of compact JSON.
///
/// Keys of `extra_info` and of a ground truth that is an object go in sorted: whether serde_json's own map keeps the order of
/// the file depends on features of other crates in the build, and a run must be able to go on under another build.
pub(crate) fn hash_row(hasher: &mut blake3::Hasher, row: &Row) {
    let mut row = row.clone();
    row.reward_model.ground_truth = sorted(row.reward_model.ground_truth);
    row.extra_info = sorted_map(row.extra_info);
    let line = serde_json::to_vec(&row).expect("a row has string keys only, so it can be written as JSON");
    hasher.update(&line).update(b"\n");
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(sorted_map(map)),
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

fn sorted_map(map: Map<String, Value>) -> Map<String, Value> {
    let mut entries: Vec<_> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    entries.into_iter().collect()
}
