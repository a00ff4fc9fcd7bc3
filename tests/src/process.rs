//! A child process that is watched, signalled and always reaped.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

/// Longest time anything is waited for: a test that takes longer has hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// Who gets a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receiver {
    /// The process alone.
    Process,
    /// Its process group, as a terminal's Ctrl-C does it.
    Group,
}

/// A running child, killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    started: Instant,
    stdout: PathBuf,
    stderr: PathBuf,
}

/// A child that has ended.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    /// What it wrote.
    pub stdout: String,
    /// What it said.
    pub stderr: String,
    /// Wall time from its start.
    pub took: Duration,
}

impl Running {
    /// Starts `command` in a process group of its own; its output goes to files that exist.
    pub fn spawn(mut command: Command, stdout: PathBuf, stderr: PathBuf) -> Self {
        let file = |path: &PathBuf| File::options().append(true).open(path).expect("the output file exists");
        command.process_group(0).stdout(file(&stdout)).stderr(file(&stderr));
        let started = Instant::now();
        let child = command.spawn().expect("the program can be started");
        Self { child, started, stdout, stderr }
    }

    /// Its process id, which is its group's, too.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Wall time since its start.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits until `moment` comes; false when the process ended before.
    ///
    /// # Panics
    /// When neither happens in two minutes.
    pub fn wait_for(&mut self, mut moment: impl FnMut(&Self) -> bool) -> bool {
        let waiting = Instant::now();
        loop {
            if moment(self) {
                return true;
            }
            if self.child.try_wait().expect("a child can be waited for").is_some() {
                return false;
            }
            assert!(waiting.elapsed() < PATIENCE, "the moment never came: {}", read(&self.stderr));
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    /// Waits until `moment` after its start; false when it ended before.
    pub fn wait_until(&mut self, moment: Duration) -> bool {
        self.wait_for(|running| running.age() >= moment)
    }

    /// Whether it has written `text` to its standard error.
    pub fn has_said(&self, text: &str) -> bool {
        read(&self.stderr).contains(text)
    }

    /// Whether it has blocked (`SigBlk`) or caught (`SigCgt`) SIGTERM.
    pub fn holds_sigterm(&self, mask: &str) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
        status
            .lines()
            .find_map(|line| line.strip_prefix(mask)?.strip_prefix(':'))
            .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
            .is_some_and(|bits| bits >> (Signal::SIGTERM as i32 - 1) & 1 == 1)
    }

    /// Sends a signal; one that has just ended may get it, too.
    pub fn send(&self, what: Signal, to: Receiver) {
        let pid = Pid::from_raw(self.id().try_into().expect("process ids fit an i32"));
        match to {
            Receiver::Process => signal::kill(pid, what),
            Receiver::Group => signal::killpg(pid, what),
        }
        .expect("the child is not reaped yet, so it can be signalled");
    }

    /// SIGKILL; returns when the process is gone.
    pub fn kill(mut self) -> Ended {
        self.child.kill().expect("a child can be killed");
        self.end()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not come in two minutes.
    pub fn end(mut self) -> Ended {
        self.wait_for(|_| false);
        let status = self.child.wait().expect("a child can be waited for");
        Ended { status, stdout: read(&self.stdout), stderr: read(&self.stderr), took: self.age() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing to do about a failure here; the process has then ended already.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn read(path: &PathBuf) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}
