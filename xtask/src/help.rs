//! What `--help` prints.

use anyhow::{Result, bail};

/// The commands, in the order of [`all`].
pub(crate) const COMMANDS: [&str; 7] = ["train", "test", "setup", "bench", "prove", "fixtures", "ci"];

const ALL: &str = "\
Piton: set-up, training, tests and CI

  cargo xtask train [RECIPE] [ARGS…]        train; with no argument, the default recipe
  cargo xtask test [--interop] [-- ARGS…]   run every Rust test, and with --interop the Python ones
  cargo xtask setup [--interop]             provide libtorch, and with --interop Python's packages
  cargo xtask bench [NAME] [--interop]      run the benchmarks, and with --interop the same work by Python packages
  cargo xtask prove [NAME…] [--long]        kill, starve, cut off and damage the checkpoint store on this machine
  cargo xtask fixtures NAME                 make a fixture again: prompts, tokenizer, model or golden
  cargo xtask ci                            what the CI runs

  cargo xtask COMMAND --help                more about one of them

Every command first provides what it needs. The first one fetches libtorch 2.13.0 (540 MB, once for all
checkouts of this version) and compiles its bindings; both take minutes and say so.";

const TRAIN: &str = "\
cargo xtask train [RECIPE] [ARGS…]

Provides libtorch, builds in release mode and becomes `piton train` with the same arguments;
`cargo xtask train hrl-high ARGS…` becomes `piton hrl-high ARGS…`. `cargo xtask train --help` is the help of
`piton train`, with all its arguments.";

const TEST: &str = "\
cargo xtask test [--interop] [-- ARGS…]

Builds the binaries, runs every test of the workspace (with cargo-nextest where it is installed, else with
cargo test), then every doctest.

  --interop   also run the tests that compare with Python packages (torch, transformers, trl). Makes a
              Python environment in the cache the first time: several GB. PITON_PYTHON=PYTHON uses yours
  ARGS        go to `cargo nextest run` (or `cargo test`), for example the name of a test";

const SETUP: &str = "\
cargo xtask setup [--interop] [--keep-wheels]

Provides libtorch 2.13.0 for the CPU: three wheels from the package index that pip uses, checked by hash,
of which six libraries and the headers are kept in ${XDG_CACHE_HOME:-~/.cache}/piton and linked as
.cargo/libtorch. Afterwards plain cargo commands, rust-analyzer and the built binaries find it by themselves.
An interrupted download goes on with the next wheel. Linux on x86-64 only.

  --interop       also make the Python environment of fixtures/python/requirements.txt (several GB)
  --keep-wheels   keep the wheels in the cache, for example to carry them to a machine without network

Instead of the download:
  LIBTORCH=DIR             your own libtorch 2.13.0, CUDA builds included
  LIBTORCH_USE_PYTORCH=1   the libtorch of the torch 2.13.0 that python3 imports
  PIP_FIND_LINKS=DIR       a folder that holds the wheels (with PIP_NO_INDEX=1 where there is no network)";

const PROVE: &str = "\
cargo xtask prove [NAME…] [--long] [--interop] [--dir DIR] [--seed N] [--markdown]

Tries to make the checkpoint store lose a checkpoint, on this machine and file system, and prints a table: held, with
the number of points tried; BROKEN, with every violation; or skipped, with the reason, where this machine has not what
a proof needs (root, loop devices and FUSE for power cuts, strace for some of the kills). Without a name all of them:

  kill      SIGKILL at every system call of open, resume, save and prune
  faults    every system call fails, once and lasting, with EIO, ENOSPC, EDQUOT, EROFS, EMFILE, EINTR, short writes
  damage    flipped bits, truncations, missing, foreign and planted files
  model     random histories of two writers, crashes and damage against a model
  power     power cuts on ext4 and xfs, from a recording of every block written and flushed
  fsync     a disk whose fsync fails
  peers     what the same kills and power cuts do to torch.save, safetensors, DCP and Stable-Baselines3; where their
            Python packages are, and without a name only with --long
  trainer   SIGKILL at random moments of whole training runs
  stop      signals at random moments of whole training runs

  --long      as many points as the published table has, instead of a sample of about two minutes
  --interop   give peers the Python of `cargo xtask setup --interop`, or that of PITON_PYTHON, instead of python3
  --dir DIR   prove the file system of this directory
  --seed N    other random choices
  --markdown  the table in Markdown";

const BENCH: &str = "\
cargo xtask bench [NAME] [--interop]

Runs the benchmarks of every crate, or those whose name contains NAME.

  --interop   also let Python packages do the same work, where benches/ holds a script for it";

const FIXTURES: &str = "\
cargo xtask fixtures NAME

Makes committed test data again, from the scripts beside it. A run that changes nothing leaves git clean.

  prompts     fixtures/prompts: tasks of reasoning-gym as JSONL rows
  tokenizer   fixtures/models: the tokenizer files
  model       fixtures/models: the starting weights, by supervised warm-up (minutes)
  golden      fixtures/golden: numbers of PyTorch, numpy and transformers; `golden NAME` runs the scripts
              with NAME in their path

The Python of `cargo xtask setup --interop` runs the scripts, or that of PITON_PYTHON.";

const CI: &str = "\
cargo xtask ci

Formatting, clippy and documentation without a warning, every crate checked alone, then
`cargo xtask test --interop`. Stops at the first failure and prints the command that repeats it.";

/// Prints the overview.
pub(crate) fn all() -> Result<()> {
    println!("{ALL}");
    Ok(())
}

/// Prints the page of one command.
pub(crate) fn of(command: &str) -> Result<()> {
    let page = match command {
        "train" => TRAIN,
        "test" => TEST,
        "setup" => SETUP,
        "bench" => BENCH,
        "prove" => PROVE,
        "fixtures" => FIXTURES,
        "ci" => CI,
        "help" | "--help" | "-h" => ALL,
        other => bail!("no command '{other}'; the commands are {}", COMMANDS.join(", ")),
    };
    println!("{page}");
    Ok(())
}
