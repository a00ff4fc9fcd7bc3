//! The JSON of a pair.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::damage::PairDamage;

/// The format that this version writes, and the newest it reads.
const FORMAT: u64 = 1;
/// A JSON larger than this is nobody's metadata.
pub(crate) const MAX_BYTES: u64 = 64 * 1024 * 1024;

const SELF: &str = "metadata_sha256";
const SELF_BLANK: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What a JSON says about its zip.
#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(crate) metadata: Map<String, Value>,
    pub(crate) sha256: String,
    pub(crate) size: Option<u64>,
}

/// The bytes of the JSON: the caller's members and ours, sorted by name at every depth.
pub(crate) fn write(
    metadata: &Map<String, Value>,
    sha256: &str,
    size: u64,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut members = metadata.clone();
    members.insert("model_sha256".into(), sha256.into());
    members.insert("model_size".into(), size.into());
    members.insert("pair_format".into(), FORMAT.into());
    members.insert(SELF.into(), SELF_BLANK.into());
    let blank = serde_json::to_string_pretty(&Sorted(&Value::Object(members)))? + "\n";
    let digest = hex(Sha256::digest(&blank));
    // the member is at the top, so its indentation is two; nothing deeper can look like it
    let text = blank.replacen(&line(SELF_BLANK), &line(&digest), 1);
    Ok(text.into_bytes())
}

/// Checks a JSON and takes it apart. One of another program needs no more than a `model_sha256`.
pub(crate) fn read(bytes: &[u8]) -> Result<Sidecar, PairDamage> {
    let malformed = |what: &str| PairDamage::Malformed(what.to_owned());
    let metadata: Map<String, Value> =
        serde_json::from_slice(bytes).map_err(|error| PairDamage::Malformed(error.to_string()))?;
    let format = metadata.get("pair_format");
    if let Some(found) = format.and_then(Value::as_u64).filter(|found| *found > FORMAT) {
        return Err(PairDamage::Version { found });
    }
    if format.is_some() || metadata.contains_key(SELF) {
        let said = metadata.get(SELF).and_then(Value::as_str).unwrap_or_default();
        let text = std::str::from_utf8(bytes).map_err(|error| PairDamage::Malformed(error.to_string()))?;
        let blank = text.replacen(&line(said), &line(SELF_BLANK), 1);
        if hex(Sha256::digest(&blank)) != said {
            return Err(PairDamage::JsonChecksum);
        }
    }
    let sha256 = metadata.get("model_sha256").and_then(Value::as_str);
    let sha256 = sha256.ok_or_else(|| malformed("it has no text model_sha256"))?.to_ascii_lowercase();
    if sha256.len() != 64 || !sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(malformed("model_sha256 is not 64 hex digits"));
    }
    let size = metadata.get("model_size").and_then(Value::as_u64);
    Ok(Sidecar { metadata, sha256, size })
}

pub(crate) fn hex(digest: impl AsRef<[u8]>) -> String {
    digest.as_ref().iter().fold(String::new(), |mut text, byte| {
        // writing to a string cannot fail
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn line(digest: &str) -> String {
    format!("\n  \"{SELF}\": \"{digest}\"")
}

/// A value whose objects are written in the order of their names, whatever order serde_json keeps.
struct Sorted<'a>(&'a Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(members) => {
                let sorted: BTreeMap<_, _> =
                    members.iter().map(|(name, value)| (name, Sorted(value))).collect();
                serializer.collect_map(sorted)
            }
            Value::Array(values) => serializer.collect_seq(values.iter().map(Sorted)),
            other => other.serialize(serializer),
        }
    }
}
