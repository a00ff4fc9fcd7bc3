//! `piton-llm train`: recipe, engines, trainer, report.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use piton::{Screen, TrainArgs};
use piton_grpo::BuildTrainer;
use piton_run::{EnvironmentRecord, Stop, SystemClock};
use piton_trainer::RunContext;

pub(crate) fn run(args: &TrainArgs, stop: Stop) -> Result<()> {
    let recipe = piton::load_recipe(args)?;
    if args.print_config {
        let text =
            toml::to_string_pretty(&recipe.config).context("the configuration cannot be written as TOML")?;
        print(&text);
        return Ok(());
    }
    let config = recipe.config;
    let threads =
        config.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    piton_torch::set_threads(threads)?;
    let environment = facts();
    let context = RunContext {
        stop,
        clock: Arc::new(SystemClock),
        progress: Box::new(Screen::new()),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        record: Some(EnvironmentRecord::collect(environment.clone(), std::env::vars_os())),
        environment,
        allow_change: args.allow_change.clone(),
    };
    let mut trainer = config.build(context).map_err(|error| anyhow::anyhow!(error))?;
    let report = trainer.fit()?;
    print(&piton::summary(args, &report, &trainer.exp_dir()));
    Ok(())
}

/// What exactness depends on. The number of threads is not among it: every sum has an order of its own.
fn facts() -> BTreeMap<String, String> {
    let engine = piton_torch::engine_facts();
    BTreeMap::from([
        ("libtorch".to_owned(), engine.libtorch),
        ("cpu_capability".to_owned(), engine.cpu_capability),
    ])
}

/// Results go to stdout; a closed pipe does not make a finished run a failure.
fn print(text: &str) {
    let _closed = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
}
