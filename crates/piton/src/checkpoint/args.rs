//! What `piton checkpoint` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use piton_checkpoint::Keep;

/// Arguments of `checkpoint`.
#[derive(Debug, Clone, Args)]
#[command(arg_required_else_help = true, after_long_help = EXAMPLES)]
pub struct CheckpointArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: CheckpointCommand,
}

/// What can be done with checkpoints.
#[derive(Debug, Clone, Subcommand)]
pub enum CheckpointCommand {
    /// List checkpoints: step, age, size, metrics, pin, state by manifest and sizes
    Ls(LsArgs),
    /// Read every byte and name each bad file; exit code 1 if there is one
    Verify(PathArgs),
    /// Look for everything that is not as it should be; exit code 1 if there is something
    Fsck(FsckArgs),
    /// Show what differs between two checkpoints; exit code 1 if something does
    Diff(DiffArgs),
    /// Remove the checkpoints that no policy keeps, and say why the others stay
    Prune(PruneArgs),
    /// Keep a checkpoint whatever the policies say, until it is unpinned
    Pin(PinArgs),
    /// Let the policies decide about a checkpoint again
    Unpin(UnpinArgs),
}

/// A place with checkpoints.
#[derive(Debug, Clone, Args)]
pub struct PathArgs {
    /// A run's work_dir or exp_dir, a store (a folder of ckpt-step-N), or one checkpoint
    pub path: PathBuf,
}

/// Arguments of `ls`.
#[derive(Debug, Clone, Args)]
pub struct LsArgs {
    /// Where to look.
    #[command(flatten)]
    pub at: PathArgs,
    /// Print JSON, for scripts
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `fsck`.
#[derive(Debug, Clone, Args)]
pub struct FsckArgs {
    /// Where to look.
    #[command(flatten)]
    pub at: PathArgs,
    /// Compare sizes only; do not read the files
    #[arg(long)]
    pub quick: bool,
    /// Remove what is garbage beyond doubt: stages and trash of a writer that is gone
    ///
    /// Damaged checkpoints, what was set aside, pins and names of others are reported and left.
    #[arg(long)]
    pub repair: bool,
}

/// Arguments of `diff`.
#[derive(Debug, Clone, Args)]
pub struct DiffArgs {
    /// A checkpoint; of a store or a run the newest valid one
    pub first: PathBuf,
    /// Another one
    pub second: PathBuf,
}

/// Arguments of `prune`.
#[derive(Debug, Clone, Args)]
pub struct PruneArgs {
    /// Where to look.
    #[command(flatten)]
    pub at: PathArgs,
    /// What stays; given several times, whatever any of them keeps
    ///
    /// all                      every checkpoint
    /// 3                        the newest three
    /// every 1000               those whose step is a multiple of 1000
    /// last 24h                 those of the last 24 hours; also s, m, d
    /// best 2 by return         the two with the highest metric `return`
    /// best 2 by lowest loss    the two with the lowest metric `loss`
    #[arg(
        long,
        required = true,
        value_name = "POLICY",
        value_delimiter = ',',
        allow_hyphen_values = true,
        verbatim_doc_comment
    )]
    pub keep: Vec<Keep>,
    /// Say what would go and why the others stay, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Arguments of `pin`.
#[derive(Debug, Clone, Args)]
pub struct PinArgs {
    /// Where to look.
    #[command(flatten)]
    pub at: PathArgs,
    /// Which checkpoint, if PATH is not one
    #[arg(long)]
    pub step: Option<u64>,
    /// Why, for people; shown by ls
    #[arg(long, default_value = "")]
    pub note: String,
}

/// Arguments of `unpin`.
#[derive(Debug, Clone, Args)]
pub struct UnpinArgs {
    /// Where to look.
    #[command(flatten)]
    pub at: PathArgs,
    /// Which checkpoint, if PATH is not one
    #[arg(long)]
    pub step: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  piton checkpoint ls .piton/chain-sum                        every checkpoint of a run
  piton checkpoint verify runs/a                              is everything as it was written?
  piton checkpoint fsck runs/a --repair                       and is anything lying about?
  piton checkpoint pin runs/a --step 400 --note 'in the paper'
  piton checkpoint prune runs/a --keep 3 --keep 'every 1000' --dry-run
  piton checkpoint prune runs/a --keep 'best 2 by eval/accuracy' --keep 'last 24h'
  piton checkpoint diff runs/a/20260131120000/checkpoints/ckpt-step-{10,20}

Nothing here needs the run to be stopped but prune and fsck --repair, which are refused while it writes. The newest valid
checkpoint and pinned ones are never removed. Lists go to stdout, everything else to stderr.";
