//! Does to the checkpoint store what machines do to it, and checks what is left.
//!
//! `cargo xtask prove` runs this. Each proof ends held, broken or skipped; what cannot run on this machine is skipped
//! with the reason and never counts as held.

#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a command line: it talks to its terminal")]

mod check;
mod content;
mod damage;
mod faults;
mod fsync;
mod kill;
mod model;
mod peers;
mod power;
mod proof;
mod scenario;
mod subject;
mod wrong;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};

use crate::proof::{Outcome, PROOFS, Setting};

/// Proves on this machine and file system that no checkpoint is lost.
#[derive(Debug, Parser)]
#[command(name = "piton-prove", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    prove: ProveArgs,
    #[command(subcommand)]
    part: Option<Part>,
}

/// What the proofs start as processes of their own.
#[derive(Debug, Subcommand)]
enum Part {
    /// Save in a loop, and say so after each save
    #[command(hide = true)]
    Subject(subject::SubjectArgs),
    /// Look at what a subject left, and go on from there
    #[command(hide = true)]
    Check(check::CheckArgs),
}

#[derive(Debug, Args)]
struct ProveArgs {
    /// Proofs to run; when none is named, all of them, but peers only in the long form
    names: Vec<String>,

    /// As many points as the published table has, instead of a sample
    #[arg(long)]
    long: bool,

    /// Where the stores under test are made [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Makes the random choices of a run repeat
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Print the table in Markdown
    #[arg(long)]
    markdown: bool,

    /// The Python of the proof `peers`
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,

    /// Set by this program when it starts itself in a mount namespace of its own
    #[arg(long, hide = true)]
    private_mounts: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.part {
        Some(Part::Subject(args)) => subject::run(&args).map(|()| true),
        Some(Part::Check(args)) => check::run(&args).map(|()| true),
        None => prove(cli.prove),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("piton-prove: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// True when nothing was found broken.
fn prove(args: ProveArgs) -> Result<bool> {
    let known = || PROOFS.iter().map(|proof| proof.name).collect::<Vec<_>>().join(", ");
    if let Some(name) = args.names.iter().find(|name| PROOFS.iter().all(|proof| proof.name != **name)) {
        bail!("no proof '{name}'; the proofs are {}", known());
    }
    if !args.private_mounts {
        power::mount::go_private(std::env::args_os().skip(1))?;
    }
    let setting = Setting {
        long: args.long,
        dir: args.dir.unwrap_or_else(std::env::temp_dir),
        seed: args.seed,
        python: args.python,
        private_mounts: args.private_mounts,
    };
    setting.sweep()?;
    let chosen = PROOFS.iter().filter(|proof| match args.names.is_empty() {
        true => proof.by_default || args.long,
        false => args.names.iter().any(|name| name == proof.name),
    });
    let mut rows = Vec::new();
    for proof in chosen {
        eprintln!("{}: {}", proof.name, proof.claim);
        let started = std::time::Instant::now();
        let outcome = (proof.run)(&setting)?;
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("{}: {outcome} in {seconds:.1} s", proof.name);
        if let Outcome::Broken { violations, .. } = &outcome {
            violations.iter().for_each(|violation| eprintln!("  {violation}"));
        }
        rows.push((proof, outcome, seconds));
    }
    print!("{}", proof::table(&rows, args.markdown));
    Ok(!rows.iter().any(|(_, outcome, _)| matches!(outcome, Outcome::Broken { .. })))
}
