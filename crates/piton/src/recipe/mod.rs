//! From a recipe's name and `--set` arguments to a configuration.

mod find;
mod neutral;
mod paths;
mod set;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use piton_trainer::ColocateTrainerConfig;
use toml::{Table, Value};

use crate::args::TrainArgs;

/// A recipe ready to build.
#[derive(Debug)]
pub struct Recipe {
    /// Its name.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// The configuration: checked, with absolute or current-folder paths, `work_dir` filled in.
    pub config: ColocateTrainerConfig,
}

/// Finds the recipe, applies `--set`, and checks the result.
///
/// # Errors
/// No such recipe, bad TOML, an unknown key, a value without meaning: with the file or the key, and what to write.
pub fn load(args: &TrainArgs) -> Result<Recipe> {
    let path = find::find(&args.recipe)?;
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read recipe {}", path.display()))?;
    let mut table: Table = text.parse().with_context(|| format!("recipe {} is not valid TOML", path.display()))?;
    paths::resolve(&mut table, path.parent().unwrap_or(Path::new("")));
    for argument in &args.set {
        set::apply(&mut table, argument)?;
    }
    if let Some(work_dir) = &args.work_dir {
        let text = work_dir.to_str().context("--work-dir is not valid UTF-8")?;
        table.insert("work_dir".to_owned(), Value::String(text.to_owned()));
    }
    if args.auto_resume {
        table.insert("auto_resume".to_owned(), Value::Boolean(true));
    }
    table
        .entry("work_dir")
        .or_insert_with(|| Value::String(Path::new(".piton").join(args.recipe_name()).display().to_string()));
    neutral::remove(&mut table).with_context(|| format!("recipe {}", path.display()))?;
    let config = parse(table).with_context(|| format!("recipe {}", path.display()))?;
    if let Err(faults) = config.check() {
        bail!("recipe {}:\n  {}", path.display(), faults.join("\n  "));
    }
    Ok(Recipe { name: args.recipe_name(), path, config })
}

fn parse(table: Table) -> Result<ColocateTrainerConfig> {
    serde_path_to_error::deserialize(Value::Table(table)).map_err(|error| {
        let key = error.path().to_string();
        let message = error.into_inner().to_string();
        let message = message.trim().to_owned();
        let hint = suggestion(&message).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
        let at = if key == "." { String::new() } else { format!("{key}: ") };
        anyhow::anyhow!("{at}{message}{hint}")
    })
}

/// The known key nearest to an unknown one, taken from serde's message.
fn suggestion(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("unknown field `")?;
    let (unknown, rest) = rest.split_once('`')?;
    let known = rest.split('`').skip(1).step_by(2);
    known
        .map(|word| (strsim::normalized_damerau_levenshtein(unknown, word), word))
        .filter(|(likeness, _)| *likeness > 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word.to_owned())
}
