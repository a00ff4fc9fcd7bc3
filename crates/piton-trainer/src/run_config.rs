//! `run.toml` of an experiment, and what of it a resume may change.

use std::path::Path;

use piton_run::config::{Change, Rule, Verdict, classify, diff, digest};
use piton_run::{Experiment, write_atomic};
use serde_json::Value;

use crate::config::ColocateTrainerConfig;
use crate::error::Error;

/// What may change when a run is resumed. Keys not named here change the course of training and are refused unless the caller
/// allows them by name.
const RULES: &[(&str, Rule)] = &[
    ("total_train_steps", Rule::MayGrow),
    ("total_epochs", Rule::MayGrow),
    ("work_dir", Rule::Allowed),
    ("auto_resume", Rule::Allowed),
    ("load_checkpoint_cfg", Rule::Allowed),
    ("checkpoint_interval", Rule::Allowed),
    ("checkpoint_maxkeep", Rule::Allowed),
    ("checkpoint_background", Rule::Allowed),
    ("checkpoint_failures_allowed", Rule::Allowed),
    ("checkpoint_no_save_optimizer", Rule::Allowed),
    ("checkpoint_no_save_replay_buffer", Rule::Allowed),
    ("hf_interval", Rule::Allowed),
    ("hf_max_keep", Rule::Allowed),
    ("enable_evaluate", Rule::Allowed),
    ("enable_initial_evaluate", Rule::Allowed),
    ("evaluate_step", Rule::Allowed),
    ("eval_agent_loop_manager_cfg", Rule::Allowed),
    ("evaluator_config", Rule::Allowed),
    ("exp_tracker", Rule::Allowed),
    ("threads", Rule::Allowed),
    ("device", Rule::Allowed),
    // Files may move; that their content is the same is checked where they are read.
    ("load_from", Rule::Allowed),
    ("tokenizer_path", Rule::Allowed),
    ("rollout_config.model_path", Rule::Allowed),
    ("rollout_config.tokenizer_path", Rule::Allowed),
    ("rollout_config.model_name", Rule::Allowed),
    ("rollout_config.rollout_timeout", Rule::Allowed),
    ("rollout_config.rollout_max_batch_size_per_instance", Rule::Allowed),
];

/// The digest that stands in `run.toml` and in every manifest.
pub(crate) fn config_digest(config: &ColocateTrainerConfig) -> String {
    digest(&value(config))
}

/// Writes the resolved configuration into the experiment.
pub(crate) fn write(experiment: &Experiment, config: &ColocateTrainerConfig) -> Result<(), Error> {
    let body = toml::to_string_pretty(config)
        .map_err(|error| Error::Config(vec![format!("cannot be written as TOML: {error}")]))?;
    let text = format!(
        "# The configuration of this run, every default filled in. Written by Piton; a resume compares with it.\n\
         # digest = {}\n\n{body}",
        config_digest(config)
    );
    Ok(write_atomic(&experiment.config_path(), text.as_bytes())?)
}

/// What differs from the configuration the experiment was last run with, if that can still be read.
pub(crate) fn changes(experiment: &Experiment, config: &ColocateTrainerConfig) -> Option<Vec<Change>> {
    let text = std::fs::read_to_string(experiment.config_path()).ok()?;
    let old: ColocateTrainerConfig = toml::from_str(&text).ok()?;
    Some(diff(&value(&old), &value(config)))
}

/// Refuses changes that a resume cannot follow; `allowed` names keys the user takes responsibility for.
pub(crate) fn check(changes: &[Change], allowed: &[String]) -> Result<(), Error> {
    let refused: Vec<String> = changes
        .iter()
        .filter(|change| match classify(change, RULES, Rule::NeedsAllow) {
            Verdict::Allowed => false,
            Verdict::NeedsAllow => {
                !is_path(change)
                    && !allowed
                        .iter()
                        .any(|key| change.key == *key || change.key.starts_with(&format!("{key}.")))
            }
            Verdict::Refused => true,
        })
        .map(describe)
        .collect();
    if refused.is_empty() { Ok(()) } else { Err(Error::ConfigChanged(refused)) }
}

/// Data files may move, too: the sampler's state knows their digest.
fn is_path(change: &Change) -> bool {
    ["anno_path", "hf_checkpoint", "ref_load_from", "load_from"]
        .iter()
        .any(|name| Path::new(&change.key.replace('.', "/")).file_name().is_some_and(|last| last == *name))
}

fn describe(change: &Change) -> String {
    let show = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), Value::to_string);
    format!("{}: {} in the run, {} now", change.key, show(&change.old), show(&change.new))
}

fn value(config: &ColocateTrainerConfig) -> Value {
    serde_json::to_value(config).expect("a configuration has string keys and finite numbers")
}
