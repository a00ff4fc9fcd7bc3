//! Which signals ask a run to stop, and the masks that carry them over an `exec`.

use std::fmt;
use std::fs;
use std::io;

use nix::sys::signal::{SigSet, Signal};

use crate::{Error, Result};

/// A signal that asks a run to save and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// What schedulers, systemd and `kill` send.
    Term,
    /// Ctrl-C in a terminal.
    Int,
    /// What SLURM's `--signal=USR1@60` sends before the time limit.
    Usr1,
    /// The terminal was closed. Left alone where it is ignored, as under `nohup`.
    Hup,
}

impl StopSignal {
    /// All of them; where several are pending, the first in this order is named.
    pub const ALL: [Self; 4] = [Self::Term, Self::Int, Self::Usr1, Self::Hup];

    /// `"SIGTERM"`, `"SIGINT"`, `"SIGUSR1"` or `"SIGHUP"`.
    pub fn name(self) -> &'static str {
        self.signal().as_str()
    }

    pub(crate) fn signal(self) -> Signal {
        match self {
            Self::Term => Signal::SIGTERM,
            Self::Int => Signal::SIGINT,
            Self::Usr1 => Signal::SIGUSR1,
            Self::Hup => Signal::SIGHUP,
        }
    }

    pub(crate) fn number(self) -> i32 {
        self.signal() as i32
    }
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Holds the stop signals back in this thread, and in what it execs or spawns from here on.
///
/// A program that replaces itself by the trainer calls this right before `exec`: a signal that arrives while the
/// new program is being loaded then waits until [`Stop::install`](crate::Stop::install) can see it, instead of
/// killing the process. Helpers such as compilers should be spawned before, or they cannot be interrupted.
pub fn block_stop_signals() -> Result<()> {
    stop_set().thread_block().map_err(mask_error("block the stop signals"))
}

/// Lets the stop signals through in this thread; pending ones are delivered before this returns.
pub fn unblock_stop_signals() -> Result<()> {
    stop_set().thread_unblock().map_err(mask_error("unblock the stop signals"))
}

/// A stop signal that has arrived while it was blocked, if there is one. Looking does not consume it.
///
/// Read from procfs, since the call for it is not available to safe code.
pub fn pending_stop_signal() -> Result<Option<StopSignal>> {
    let pending = mask("SigPnd")? | mask("ShdPnd")?;
    Ok(StopSignal::ALL.into_iter().find(|&signal| contains(pending, signal)))
}

/// True when this process ignores `signal`.
pub(crate) fn is_ignored(signal: StopSignal) -> Result<bool> {
    Ok(contains(mask("SigIgn")?, signal))
}

fn stop_set() -> SigSet {
    StopSignal::ALL.into_iter().map(StopSignal::signal).collect()
}

fn contains(mask: u64, signal: StopSignal) -> bool {
    mask >> (signal.number() - 1) & 1 == 1
}

/// One of the bit masks of `/proc/thread-self/status`; bit n-1 stands for signal n.
fn mask(field: &str) -> Result<u64> {
    const OP: &str = "look up signal masks in /proc/thread-self/status (is /proc mounted?)";
    let status =
        fs::read_to_string("/proc/thread-self/status").map_err(|source| Error::Signal { op: OP, source })?;
    status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .ok_or_else(|| Error::Signal {
            op: OP,
            source: io::Error::new(io::ErrorKind::InvalidData, format!("no hexadecimal field {field}")),
        })
}

fn mask_error(op: &'static str) -> impl FnOnce(nix::Error) -> Error {
    move |errno| Error::Signal { op, source: errno.into() }
}
