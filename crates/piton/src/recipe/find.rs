//! Where recipes are looked for.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// The recipe's file: a path as it is, a name in `fixtures/recipes` of the current folder or of the checkout.
pub(super) fn find(recipe: &str) -> Result<PathBuf> {
    let path = Path::new(recipe);
    if path.extension().is_some() || recipe.contains('/') {
        if path.is_file() {
            return Ok(path.to_owned());
        }
        bail!(
            "there is no recipe file {recipe}: write the path of a TOML file, or one of: {}",
            names().join(", ")
        );
    }
    for folder in folders() {
        let file = folder.join(format!("{recipe}.toml"));
        if file.is_file() {
            return Ok(file);
        }
    }
    bail!(
        "there is no recipe named {recipe:?}: write one of: {}; or the path of a TOML file",
        names().join(", ")
    )
}

fn folders() -> [PathBuf; 2] {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recipes");
    [PathBuf::from("fixtures/recipes"), checkout.canonicalize().unwrap_or(checkout)]
}

/// Every recipe there is, by name.
fn names() -> Vec<String> {
    let mut names: Vec<String> = folders()
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|entries| entries.filter_map(Result::ok))
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .filter_map(|path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names.dedup();
    names
}
