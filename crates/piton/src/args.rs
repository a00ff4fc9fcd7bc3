//! What `piton train` takes; `piton-llm` parses the same arguments once more.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::checkpoint::CheckpointArgs;

/// Trains policies by reinforcement learning, and never loses a run.
#[derive(Debug, Parser)]
#[command(name = "piton", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train a language model with GRPO by a recipe
    Train(TrainArgs),
    /// List, verify, compare, prune and pin checkpoints
    Checkpoint(CheckpointArgs),
}

/// Arguments of `train`.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct TrainArgs {
    /// Name of a recipe in fixtures/recipes, or the path of a TOML file
    #[arg(default_value = "chain-sum")]
    pub recipe: String,

    /// Change a key of the recipe; may be given several times
    ///
    /// VALUE is TOML: 3, 1e-4, true, "text", ["a", "b"]; a bare word is a string.
    /// An element of a list goes by its number, from 0: tasks.0.weight=2.
    /// Paths are relative to the current folder; those in a recipe, to its file.
    #[arg(long = "set", value_name = "KEY=VALUE", verbatim_doc_comment)]
    pub set: Vec<String>,

    /// Directory of the run [default: .piton/RECIPE]
    #[arg(long, value_name = "DIR")]
    pub work_dir: Option<PathBuf>,

    /// Continue the newest experiment in the work_dir from its newest valid checkpoint
    #[arg(long)]
    pub auto_resume: bool,

    /// Resume although this key, which alters the course of training, has changed
    #[arg(long, value_name = "KEY")]
    pub allow_change: Vec<String>,

    /// Print the configuration with every default filled in, and stop
    #[arg(long)]
    pub print_config: bool,
}

const EXAMPLES: &str = "\
Examples:
  piton train                                       train the default recipe, chain-sum
  piton train --auto-resume                         go on where it was stopped or killed
  piton train --set total_train_steps=50            a shorter run
  piton train --set train_worker_cfg.optim_cfg.lr=1e-4 --set seed=7
  piton train my/recipe.toml --work-dir runs/a      your own recipe
  piton train --print-config                        every key that --set can change, with its value

Stopping: Ctrl-C, SIGTERM or SIGUSR1 saves a checkpoint within seconds and exits 0; the path is printed after
`saved_after_stop`. A run that was killed loses at most the steps after its newest checkpoint, and --auto-resume does
them again with the same result to the byte.

Files of a run, under <work_dir>/<YYYYmmddHHMMSS>/:
  run.toml                              the configuration, every default filled in
  logs/exp_tracking/tracker.jsonl       metrics, one line a step
  logs/events.jsonl                     starts, saves, signals, fallbacks, with times
  train_rollout/, eval_rollout/         every sample with prompt, response and reward
  checkpoints/ckpt-step-N/              complete or absent; hashes in MANIFEST.json
  hf/hf-step-N/                         exports that transformers loads";

impl TrainArgs {
    /// The recipe's name: that of its file, without the extension.
    pub fn recipe_name(&self) -> String {
        let path = PathBuf::from(&self.recipe);
        path.file_stem().map_or_else(|| self.recipe.clone(), |stem| stem.to_string_lossy().into_owned())
    }
}
