//! The stop signals while nothing can be saved yet: they are blocked, so that the trainer which replaces
//! this process still finds them pending, and looked at while a child works.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fmt, fs, io, thread};

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::Pid;

use std::os::unix::process::CommandExt;

const SIGNALS: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGUSR1];

/// How long a child may go on after a stop signal. A build with nothing to do ends well before, and then
/// the trainer takes the signal; a longer one is killed.
const GRACE: Duration = Duration::from_secs(2);

/// A stop signal came before the training started.
#[derive(Debug)]
pub(crate) struct Stopped(Signal);

impl Stopped {
    /// What a shell expects of a program that a signal ended: 128 and the signal's number.
    pub(crate) fn exit_code(&self) -> u8 {
        128 + u8::try_from(self.0 as i32).unwrap_or(0)
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped by {} while preparing: no training had started, nothing was changed", self.0)
    }
}

impl std::error::Error for Stopped {}

/// Runs children, and ends them when a blocked stop signal is pending.
#[derive(Debug)]
pub(crate) struct Stop {
    blocked: bool,
}

impl Stop {
    /// Leaves signals as they are: they end this process and its children.
    pub(crate) fn none() -> Self {
        Self { blocked: false }
    }

    /// Blocks SIGTERM, SIGINT and SIGUSR1 for this process and what it becomes.
    pub(crate) fn block() -> Result<Self> {
        SigSet::from_iter(SIGNALS).thread_block().context("cannot block the stop signals")?;
        Ok(Self { blocked: true })
    }

    /// Runs `command` to its end. [`Stopped`] when a stop signal ended it.
    pub(crate) fn status(&self, command: &mut Command) -> Result<ExitStatus> {
        self.wait(&mut self.spawn(command)?)
    }

    /// Like [`Self::status`], with what the command wrote to its standard output.
    pub(crate) fn output(&self, command: &mut Command) -> Result<(ExitStatus, String)> {
        let mut child = self.spawn(command.stdout(Stdio::piped()))?;
        let mut stdout = child.stdout.take().context("the child has no standard output")?;
        thread::scope(|scope| {
            let reader = scope.spawn(move || io::read_to_string(&mut stdout));
            let status = self.wait(&mut child)?;
            let text =
                reader.join().map_err(|_| anyhow::anyhow!("the reader of a child's output panicked"))??;
            Ok((status, text))
        })
    }

    fn spawn(&self, command: &mut Command) -> Result<Child> {
        if self.blocked {
            // The child inherits the blocked signals; in a group of its own it can be ended as a whole.
            command.process_group(0);
        }
        let program = command.get_program().to_owned();
        command.spawn().with_context(|| format!("cannot run {}", program.display()))
    }

    fn wait(&self, child: &mut Child) -> Result<ExitStatus> {
        if !self.blocked {
            return child.wait().context("cannot wait for a child");
        }
        let mut seen: Option<Instant> = None;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if let Some(signal) = pending()?
                && seen.get_or_insert_with(Instant::now).elapsed() > GRACE
            {
                killpg(Pid::from_raw(child.id().try_into()?), Signal::SIGKILL)?;
                child.wait()?;
                return Err(Stopped(signal).into());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The first of the stop signals that waits to be taken, if any. It is left where it is.
fn pending() -> Result<Option<Signal>> {
    let status = match fs::read_to_string("/proc/thread-self/status") {
        Ok(status) => status,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None), // not Linux
        Err(error) => return Err(error).context("cannot read /proc/thread-self/status"),
    };
    let bits = ["SigPnd:", "ShdPnd:"]
        .iter()
        .filter_map(|key| status.lines().find_map(|line| line.strip_prefix(key)))
        .filter_map(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .fold(0, |all, bits| all | bits);
    Ok(SIGNALS.into_iter().find(|signal| bits >> (*signal as i32 - 1) & 1 == 1))
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::raise;

    use super::*;

    #[test]
    fn a_pending_stop_lets_a_quick_child_finish_and_ends_a_slow_one() {
        let stop = Stop::block().unwrap();
        raise(Signal::SIGUSR1).unwrap(); // to this thread; pending until the thread ends
        let (status, text) = stop.output(Command::new("echo").arg("built")).unwrap();
        assert!(status.success());
        assert_eq!(text, "built\n");

        let start = Instant::now();
        let error = stop.status(Command::new("sleep").arg("600")).unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(60));
        assert_eq!(error.downcast_ref::<Stopped>().map(Stopped::exit_code), Some(138)); // 128 + SIGUSR1
    }
}
