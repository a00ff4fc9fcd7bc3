//! Which keys are paths, and what they are relative to.

use std::path::Path;

use toml::{Table, Value};

/// The last part of every key that holds a path.
const PATH_KEYS: [&str; 8] = [
    "load_from",
    "tokenizer_path",
    "work_dir",
    "checkpoint_path",
    "model_path",
    "hf_checkpoint",
    "ref_load_from",
    "anno_path",
];

pub(super) fn is_path(name: &str) -> bool {
    PATH_KEYS.contains(&name)
}

/// Puts `base` before every relative path in a recipe.
pub(super) fn resolve(table: &mut Table, base: &Path) {
    for (name, value) in table.iter_mut() {
        match value {
            Value::String(path) if is_path(name) => {
                *path = base.join(&*path).to_string_lossy().into_owned();
            }
            other => resolve_value(other, base),
        }
    }
}

fn resolve_value(value: &mut Value, base: &Path) {
    match value {
        Value::Table(table) => resolve(table, base),
        Value::Array(list) => list.iter_mut().for_each(|inner| resolve_value(inner, base)),
        _ => {}
    }
}
