//! `--set key=value`.

use std::path::Path;

use anyhow::{Result, bail};
use toml::{Table, Value};

use super::paths;

/// Applies one `--set` argument. Tables on the way are made; list elements are written by number: `tasks.0.weight=2`.
pub(super) fn apply(table: &mut Table, argument: &str) -> Result<()> {
    let Some((key, text)) = argument.split_once('=') else {
        bail!("--set {argument}: write KEY=VALUE, for example --set seed=7");
    };
    let parts: Vec<&str> = key.trim().split('.').collect();
    if parts.iter().any(|part| part.is_empty()) {
        bail!(
            "--set {argument}: {key:?} is not a key; write names with dots between, for example train_worker_cfg.optim_cfg.lr"
        );
    }
    let mut value = value(text.trim());
    if let (Some(name), Value::String(path)) = (parts.last(), &mut value)
        && paths::is_path(name)
    {
        // Relative to the current folder already; made explicit so that the recipe's folder is not put before it.
        *path = Path::new(".").join(&*path).to_string_lossy().into_owned();
    }
    let mut root = Value::Table(std::mem::take(table));
    let result = insert(&mut root, "", &parts, value, argument);
    if let Value::Table(filled) = root {
        *table = filled;
    }
    result
}

/// `above` is the key of `place`.
fn insert(place: &mut Value, above: &str, parts: &[&str], value: Value, argument: &str) -> Result<()> {
    let [first, rest @ ..] = parts else {
        *place = value;
        return Ok(());
    };
    let key = if above.is_empty() { (*first).to_owned() } else { format!("{above}.{first}") };
    match place {
        Value::Table(table) => {
            let inner = table.entry(*first).or_insert_with(|| Value::Table(Table::new()));
            insert(inner, &key, rest, value, argument)
        }
        Value::Array(list) => {
            let length = list.len();
            match first.parse::<usize>().ok().and_then(|index| list.get_mut(index)) {
                Some(inner) => insert(inner, &key, rest, value, argument),
                None => bail!(
                    "--set {argument}: {above} is a list of {length}, counted from 0, and has no element {first}"
                ),
            }
        }
        other => {
            bail!("--set {argument}: {above} is a value ({other}), not a table; write --set {above}=VALUE")
        }
    }
}

/// TOML if it is TOML, a string otherwise.
fn value(text: &str) -> Value {
    format!("value = {text}")
        .parse::<Table>()
        .ok()
        .filter(|table| table.len() == 1)
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}
