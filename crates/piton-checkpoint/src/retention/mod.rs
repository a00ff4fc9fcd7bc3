//! Which checkpoints to keep: a decision without a disk.

mod keep;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::manifest::Manifest;

pub use keep::{Keep, Order, Retention};
pub use text::RetentionError;

/// What a decision needs to know of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed {
    /// When it was written, in milliseconds since 1970 UTC, as its manifest says.
    pub created_unix_ms: u64,
    /// Its metrics, as its manifest says.
    pub metrics: BTreeMap<String, f64>,
}

impl From<&Manifest> for Listed {
    fn from(manifest: &Manifest) -> Self {
        Self { created_unix_ms: manifest.created_unix_ms, metrics: manifest.metrics.clone() }
    }
}

/// The decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Steps that stay, each with every reason there is; never empty if the listing was not.
    pub keep: BTreeMap<u64, Vec<Why>>,
    /// Steps that go, ascending: the oldest first.
    pub remove: BTreeSet<u64>,
}

/// Why a checkpoint stays.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It is the newest valid one, which no policy can remove.
    Newest,
    /// A policy names it.
    Policy(Keep),
    /// It is pinned.
    Pinned,
}

/// Divides the steps of `valid` checkpoints: those that no policy names and nobody pinned go, never the newest.
///
/// Newer means a higher step; no clock and no file time orders anything. `now_unix_ms` matters to [`Keep::Within`]
/// alone.
///
/// ```
/// use std::collections::BTreeMap;
/// use piton_checkpoint::{Keep, Listed, Retention, Why, plan};
///
/// let valid: BTreeMap<u64, Listed> = (1..=12).map(|step| (step * 100, Listed::default())).collect();
/// let retention: Retention = "last 2, every 500".parse()?;
/// let plan = plan(&valid, &retention, &[300].into(), 0);
/// assert_eq!(plan.keep.keys().copied().collect::<Vec<_>>(), [300, 500, 1000, 1100, 1200]);
/// assert_eq!(plan.keep[&300], [Why::Pinned]);
/// assert_eq!(plan.keep[&1100], [Why::Policy(Keep::Last(2.try_into()?))]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn plan(
    valid: &BTreeMap<u64, Listed>,
    retention: &Retention,
    pinned: &BTreeSet<u64>,
    now_unix_ms: u64,
) -> Plan {
    let mut keep: BTreeMap<u64, Vec<Why>> = BTreeMap::new();
    let mut because = |step: u64, why: Why| keep.entry(step).or_default().push(why);
    if let Some(newest) = valid.keys().next_back() {
        because(*newest, Why::Newest);
    }
    for policy in retention.policies() {
        for step in policy.names(valid, now_unix_ms) {
            because(step, Why::Policy(policy.clone()));
        }
    }
    for step in pinned.iter().filter(|step| valid.contains_key(step)) {
        because(*step, Why::Pinned);
    }
    let remove = valid.keys().filter(|step| !keep.contains_key(step)).copied().collect();
    Plan { keep, remove }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newest => f.write_str("newest"),
            Self::Policy(policy) => policy.fmt(f),
            Self::Pinned => f.write_str("pinned"),
        }
    }
}
