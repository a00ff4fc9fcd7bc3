//! `cargo xtask <command>`: set-up, training, tests and CI of the workspace, from a bare clone.
//!
//! This program stays thin: it never links libtorch, and whatever runs for long (`piton train`) replaces
//! it, so that Cargo, this program and the trainer keep one process id and signals need no forwarding.

#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a command line: it talks to its terminal")]

mod bench;
mod bundle;
mod cache;
mod cargo;
mod ci;
mod fixtures;
mod help;
mod libtorch;
mod prove;
mod python;
mod setup;
mod stop;
mod test;
mod train;
mod wheel;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::stop::{Stop, Stopped};

fn main() -> ExitCode {
    let mut args: Vec<OsString> = env::args_os().skip(1).collect();
    let command = if args.is_empty() { OsString::from("--help") } else { args.remove(0) };
    match dispatch(&command.to_string_lossy(), args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<Stopped>() {
            Some(stopped) => {
                eprintln!("xtask: {stopped}");
                ExitCode::from(stopped.exit_code())
            }
            None => {
                eprintln!("xtask: error: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}

fn dispatch(command: &str, args: Vec<OsString>) -> Result<()> {
    // The trainer's promise about signals starts here: from now on they wait until it can save.
    let stop = if command == "train" { Stop::block()? } else { Stop::none() };
    if command != "train" && wants_help(&args) {
        return help::of(command);
    }
    match command {
        "setup" => setup::run(&args, &stop),
        "train" => train::run(&args, &stop),
        "test" => test::run(&args, &stop),
        "ci" => ci::run(&args, &stop),
        "bench" => bench::run(&args, &stop),
        "prove" => prove::run(&args, &stop),
        "fixtures" => fixtures::run(&args, &stop),
        "help" | "--help" | "-h" => match args.first() {
            Some(command) => help::of(&command.to_string_lossy()),
            None => help::all(),
        },
        other => bail!("no command '{other}'; the commands are {}", help::COMMANDS.join(", ")),
    }
}

/// Whether help is asked for before a `--`, after which arguments belong to another program.
fn wants_help(args: &[OsString]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--help" || arg == "-h")
}
