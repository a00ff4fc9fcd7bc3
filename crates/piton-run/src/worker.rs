//! Child processes that leave stopping to their parent, and do not outlive it.

use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use crate::{Error, Result, StopSignal};

/// A worker process: shielded from the stop signals, talked to over its standard input and output.
///
/// SIGTERM, SIGINT, SIGUSR1 and SIGHUP to the whole process group reach the parent alone: in the worker they are blocked
/// from before its first instruction on and ignored, so it goes on until the parent ends it by closing its input. It dies
/// with the parent, SIGKILL included. It inherits no descriptor but the three standard ones, and no lock.
///
/// ```
/// use std::io::{BufRead, BufReader, Write};
/// use std::process::Command;
/// use std::time::Duration;
/// use piton_run::Worker;
///
/// let mut worker = Worker::spawn(Command::new("cat"))?;
/// worker.stdin().write_all(b"reset\n")?;
/// let mut line = String::new();
/// BufReader::new(worker.stdout()).read_line(&mut line)?;
/// assert_eq!(line, "reset\n");
/// assert!(worker.stop(Duration::from_secs(5))?.success());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
}

impl Worker {
    /// Starts a worker. Its standard error is the parent's, unless `command` says otherwise.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn spawn(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        shield(&mut command);
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |source| Error::Worker { program: name.clone(), source };
        let mut child = spawn_from_lasting_thread(command).map_err(failed)?;
        let missing = || failed(std::io::Error::other("it has no pipe"));
        let stdin = Some(child.stdin.take().ok_or_else(missing)?);
        let stdout = child.stdout.take().ok_or_else(missing)?;
        Ok(Self { child, stdin, stdout })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it reads.
    ///
    /// # Panics
    /// Never: the pipe is closed by [`stop`](Self::stop) alone, which takes the worker.
    pub fn stdin(&mut self) -> &mut ChildStdin {
        self.stdin.as_mut().expect("closed by stop alone")
    }

    /// What it writes.
    pub fn stdout(&mut self) -> &mut ChildStdout {
        &mut self.stdout
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn try_wait(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Closes its input, which asks it to end; after `patience` it is killed.
    ///
    /// # Errors
    /// When the system does not tell how it ended.
    pub fn stop(mut self, patience: Duration) -> std::io::Result<ExitStatus> {
        self.stdin = None;
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // one that was stopped is known to be gone, and this does nothing
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(unsafe_code, reason = "the death signal and ignored signals can only be set in the child itself")]
fn shield(command: &mut Command) {
    let parent = rustix::process::getpid();
    let shield = move || {
        // From before the exec on, and for good: ignored signals stay ignored over an exec.
        for signal in StopSignal::ALL {
            ignore(signal.signal())?;
        }
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // the parent may have died before the line above
        match rustix::process::getppid() {
            Some(now) if now == parent => Ok(()),
            _ => Err(std::io::Error::from_raw_os_error(nix::libc::ESRCH)),
        }
    };
    // SAFETY: between fork and exec the closure makes system calls only; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(shield) };
}

#[expect(unsafe_code, reason = "a disposition is set by an unsafe call, which is safe for SIG_IGN")]
fn ignore(signal: Signal) -> std::io::Result<()> {
    // SAFETY: SIG_IGN runs no code.
    let set = unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigIgn) };
    set.map(drop).map_err(Into::into)
}

type Answer = Sender<std::io::Result<Child>>;

/// The death signal comes when the *thread* that spawned the child ends, so one that never does spawns them all. It has
/// the stop signals blocked, and the child inherits that.
fn spawn_from_lasting_thread(command: Command) -> std::io::Result<Child> {
    static SPAWNER: OnceLock<Option<Sender<(Command, Answer)>>> = OnceLock::new();
    let start = || {
        let (requests, inbox) = channel::<(Command, Answer)>();
        let spawn = move || {
            let stop: SigSet = StopSignal::ALL.into_iter().map(StopSignal::signal).collect();
            let _unlikely_and_harmless = stop.thread_block();
            for (mut command, answer) in inbox {
                let _asker_is_gone = answer.send(command.spawn());
            }
        };
        std::thread::Builder::new().name("spawn-workers".to_owned()).spawn(spawn).ok().map(|_| requests)
    };
    let gone = || std::io::Error::other("the thread that spawns workers could not be started");
    let spawner = SPAWNER.get_or_init(start).as_ref().ok_or_else(gone)?;
    let (answer, answered) = channel();
    spawner.send((command, answer)).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}
