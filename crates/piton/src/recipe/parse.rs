//! From a TOML table to a configuration, with serde's words turned into a user's.

use anyhow::{Result, anyhow};
use piton_trainer::ColocateTrainerConfig;
use toml::{Table, Value};

/// Least likeness of a known key to an unknown one that makes it a suggestion.
const LIKENESS: f64 = 0.6;

pub(super) fn parse(table: Table) -> Result<ColocateTrainerConfig> {
    serde_path_to_error::deserialize(Value::Table(table)).map_err(|error| {
        let key = error.path().to_string();
        let key = if key == "." { "" } else { &key };
        anyhow!(explain(key, error.into_inner().message()))
    })
}

/// What serde says about a key, as: the key, what was found, what to write instead.
fn explain(key: &str, message: &str) -> String {
    if let Some((unknown, known)) = unknown_name(message, "unknown field ") {
        // Serde puts the unknown name at the end of the path for some containers and not for others.
        let section = key.strip_suffix(unknown).map_or(key, |rest| rest.trim_end_matches('.'));
        return format!(
            "there is no key {}; {}",
            below(section, unknown),
            instead(unknown, &known, Some(section))
        );
    }
    if let Some((unknown, known)) = unknown_name(message, "unknown variant ") {
        return format!("{key} is {unknown:?}; {}", instead(unknown, &known, None));
    }
    if let Some(missing) = message.strip_prefix("missing field ") {
        return format!("{} is missing: write it", below(key, missing.trim_matches('`')));
    }
    let invalid = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    if let Some((found, expected)) = invalid.and_then(|rest| rest.split_once(", expected ")) {
        return format!("{key} is {}: write {}", article(found), article(plain(expected)));
    }
    format!("{key}: {message}")
}

fn below(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// The name serde does not know, and those it knows.
fn unknown_name<'m>(message: &'m str, prefix: &str) -> Option<(&'m str, Vec<&'m str>)> {
    let (unknown, rest) = message.strip_prefix(prefix)?.strip_prefix('`')?.split_once('`')?;
    Some((unknown, rest.split('`').skip(1).step_by(2).collect()))
}

/// The known name nearest to an unknown one; all of them where none is near.
fn instead(unknown: &str, known: &[&str], section: Option<&str>) -> String {
    let nearest = known
        .iter()
        .map(|word| (strsim::normalized_damerau_levenshtein(unknown, word), word))
        .filter(|(likeness, _)| *likeness > LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match (nearest, section) {
        (Some((_, word)), _) => format!("did you mean {word}?"),
        (None, Some("")) => format!("the keys of a recipe are {}", known.join(", ")),
        (None, Some(section)) => format!("the keys of {section} are {}", known.join(", ")),
        (None, None) => format!("write {}", known.join(" or ")),
    }
}

/// The names of Rust's types in words.
fn plain(expected: &str) -> &str {
    match expected {
        "u64" | "u32" | "usize" => "a whole number, 0 or more",
        "i64" => "a whole number",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        "path string" => "a path in quotes",
        "a sequence" => "a list",
        "an array of length 2" => "a list of two numbers, as in [0.9, 0.95]",
        other if other.starts_with("struct ") => "a table of keys",
        other => other,
    }
}

/// Serde says `string "x"` and `map` without an article.
fn article(found: &str) -> String {
    let found = found.replace('`', "");
    match found.split(' ').next() {
        Some("string" | "boolean") => format!("the {found}"),
        Some("floating") => format!("the number {}", found.trim_start_matches("floating point ")),
        Some("integer") => format!("the number {}", found.trim_start_matches("integer ")),
        Some("sequence") => "a list".to_owned(),
        Some("map") => "a table".to_owned(),
        _ => found,
    }
}

#[cfg(test)]
mod tests {
    use super::explain;

    #[test]
    fn a_name_like_no_other_is_answered_with_all() {
        let message = "unknown field `zzz`, expected one of `lr`, `betas`";
        assert_eq!(
            explain("optim.zzz", message),
            "there is no key optim.zzz; the keys of optim are lr, betas"
        );
        assert_eq!(explain("optim", message), "there is no key optim.zzz; the keys of optim are lr, betas");
    }

    #[test]
    fn other_messages_keep_their_words() {
        assert_eq!(explain("seed", "7 is no seed: write 8"), "seed: 7 is no seed: write 8");
    }
}
