//! The `piton` command.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use piton::{Cli, Command, Verdict};
use piton_run::{Clock, SystemClock};

fn main() -> ExitCode {
    match run() {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::FAILURE,
        // Whoever reads the list has seen enough of it.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
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

fn run() -> Result<Verdict> {
    let cli = Cli::parse();
    match cli.command {
        Command::Train(_) => become_trainer().map(|()| Verdict::Good),
        Command::Checkpoint(args) => {
            let now_unix_ms = u64::try_from(SystemClock.now().as_millisecond()).unwrap_or(0);
            let mut out = std::io::stdout().lock();
            let verdict = piton::checkpoint(&args.command, now_unix_ms, &mut out)?;
            out.flush()?;
            Ok(verdict)
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Becomes `piton-llm`, with the same arguments, process id and process group.
fn become_trainer() -> Result<()> {
    piton_run::block_stop_signals().context("cannot hold signals back over the start of piton-llm")?;
    let here = std::env::current_exe().context("cannot tell where this program is")?;
    let trainer = here.with_file_name("piton-llm");
    if !trainer.is_file() {
        bail!(
            "{} is missing: `cargo xtask train` builds both programs, or run `cargo build --release -p piton -p piton-llm`",
            trainer.display()
        );
    }
    let error = std::process::Command::new(&trainer).args(std::env::args_os().skip(1)).exec();
    Err(error).with_context(|| format!("cannot start {}", trainer.display()))
}
