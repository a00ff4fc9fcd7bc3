//! From a recipe's name and `--set` arguments to a configuration.

mod find;
mod model;
mod neutral;
mod parse;
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
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("cannot read recipe {}", path.display()))?;
    let mut table: Table =
        text.parse().with_context(|| format!("recipe {} is not valid TOML", path.display()))?;
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
    let source = match args.set.len() {
        0 => format!("recipe {}", path.display()),
        _ => format!("recipe {} with --set", path.display()),
    };
    neutral::remove(&mut table).with_context(|| source.clone())?;
    let config = parse::parse(table).with_context(|| source.clone())?;
    if let Err(faults) = config.check() {
        bail!("{source}:\n  {}", faults.join("\n  "));
    }
    model::check(&config).with_context(|| source.clone())?;
    Ok(Recipe { name: args.recipe_name(), path, config })
}
