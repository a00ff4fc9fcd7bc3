//! The resolved configuration as a value: its digest, what differs, and whether a resume may go on with it.

use serde_json::{Map, Value};

/// 64 hexadecimal digits that are equal when two configurations are, in whatever order their keys stand.
///
/// BLAKE3 over the JSON text without spaces and with sorted keys. `1` and `1.0` are different values.
pub fn digest(config: &Value) -> String {
    blake3::hash(sorted(config).to_string().as_bytes()).to_hex().to_string()
}

/// One key whose value is not what it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Dotted, with list positions as numbers: `tasks.0.name`.
    pub key: String,
    /// The value before; `None` when the key is new.
    pub old: Option<Value>,
    /// The value now; `None` when the key is gone.
    pub new: Option<Value>,
}

/// All keys that differ, in the order of their names.
pub fn diff(old: &Value, new: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    collect(String::new(), Some(old), Some(new), &mut changes);
    changes
}

/// What a caller's table says about the keys under a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Free to change on resume.
    Allowed,
    /// Changes the result: only when the user says so.
    NeedsAllow,
    /// Would make the saved state meaningless.
    Refused,
    /// A number that may get larger, such as the number of steps; [`Verdict::Refused`] otherwise.
    MayGrow,
}

/// What a resume does about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Allowed,
    /// Ask the user to allow it by name.
    NeedsAllow,
    /// Refuse.
    Refused,
}

/// Judges a change by the longest prefix in `rules` that its key starts with, part by part; `otherwise` if none.
///
/// The prefix `optim` covers `optim` and `optim.lr`, not `optimizer`.
pub fn classify(change: &Change, rules: &[(&str, Rule)], otherwise: Rule) -> Verdict {
    let rule = rules
        .iter()
        .filter(|(prefix, _)| covers(prefix, &change.key))
        .max_by_key(|(prefix, _)| prefix.len())
        .map_or(otherwise, |&(_, rule)| rule);
    match rule {
        Rule::Allowed => Verdict::Allowed,
        Rule::NeedsAllow => Verdict::NeedsAllow,
        Rule::Refused => Verdict::Refused,
        Rule::MayGrow if has_grown(change) => Verdict::Allowed,
        Rule::MayGrow => Verdict::Refused,
    }
}

fn covers(prefix: &str, key: &str) -> bool {
    key.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn has_grown(change: &Change) -> bool {
    let number = |value: &Option<Value>| value.as_ref().and_then(Value::as_f64);
    matches!((number(&change.old), number(&change.new)), (Some(old), Some(new)) if new > old)
}

fn collect(key: String, old: Option<&Value>, new: Option<&Value>, changes: &mut Vec<Change>) {
    let below = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                collect(below(name), old.get(name), new.get(name), changes);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for index in 0..old.len().max(new.len()) {
                collect(below(&index.to_string()), old.get(index), new.get(index), changes);
            }
        }
        _ if old == new => {}
        _ => changes.push(Change { key, old: old.cloned(), new: new.cloned() }),
    }
}

/// The value with sorted keys, whatever order serde_json's maps keep in this build.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            Value::Object(
                entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}
