//! The command line of Piton: recipes, progress and reports.
//!
//! ```
//! use clap::Parser;
//! use piton::{Cli, Command};
//!
//! let cli = Cli::parse_from(["piton", "train", "chain-sum", "--set", "seed=7", "--auto-resume"]);
//! let Command::Train(args) = cli.command else { panic!("train was asked for") };
//! let recipe = piton::load_recipe(&args)?;
//! assert_eq!(recipe.config.seed, 7);
//! assert!(recipe.config.auto_resume);
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! `piton checkpoint` lists, verifies, compares, prunes and pins the checkpoints of a run, of a store or one by one.
//!
//! This crate does not link libtorch: `piton train` checks its arguments and becomes the `piton-llm` that stands beside it.
//! The stop signals are blocked over that, so that one which arrives in between is not lost but seen by the trainer.

mod args;
mod checkpoint;
mod complaint;
mod recipe;
mod report;
mod screen;

pub use args::{Cli, Command, TrainArgs};
pub use checkpoint::{
    CheckpointArgs, CheckpointCommand, DiffArgs, FsckArgs, LsArgs, PathArgs, PinArgs, PruneArgs, UnpinArgs,
    Verdict, checkpoint,
};
pub use complaint::complaint;
pub use recipe::{Recipe, load as load_recipe};
pub use report::summary;
pub use screen::Screen;
