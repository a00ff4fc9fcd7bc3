//! The binary that links libtorch: what `piton train` becomes.

mod logits;
mod train;
mod warmup;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use piton_run::Stop;

/// The part of Piton that links libtorch; usually started by `piton train`.
#[derive(Debug, Parser)]
#[command(name = "piton-llm", bin_name = "piton", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a language model with GRPO by a recipe
    Train(piton::TrainArgs),
    /// Make a starting model by supervised training (see `cargo xtask fixtures model`)
    #[command(hide = true)]
    Warmup(warmup::WarmupArgs),
    /// Print a model's logits of token ids, for comparison with other implementations
    #[command(hide = true)]
    Logits(logits::LogitsArgs),
}

fn main() -> ExitCode {
    // First of all: signals held back while this program was being started are seen from here on.
    let ended = Stop::install().context("cannot catch signals").and_then(run);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "the one place that prints errors")]
fn complain(error: &anyhow::Error) {
    eprintln!("{}", piton::complaint(error));
}

fn run(stop: Stop) -> Result<()> {
    match Cli::parse().command {
        Command::Train(args) => train::run(&args, stop),
        Command::Warmup(args) => warmup::run(&args),
        Command::Logits(args) => logits::run(&args),
    }
}
