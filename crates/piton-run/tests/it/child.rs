//! A test that needs a second process runs this test binary again, with one ignored test as its `main`.
//!
//! Child and parent talk in lines: the child's stderr (libtest writes to stdout) and the child's stdin.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub(crate) struct Running {
    child: Child,
    lines: BufReader<ChildStderr>,
}

/// The command that runs the ignored test `name` as a program.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--ignored", "--nocapture", "--test-threads=1"]).env(MARK, "1");
    command
}

/// False when somebody runs all ignored tests by hand: then the programs have nothing to do.
pub(crate) fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

pub(crate) fn say(line: &str) {
    std::io::stderr().write_all(format!("say {line}\n").as_bytes()).unwrap();
}

/// Blocks until the parent says `go`.
pub(crate) fn wait_for_go() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    assert_eq!(line, "go\n");
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Its own group: a signal meant for it must not reach the test runner.
        command.process_group(0);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Self { child, lines }
    }

    pub(crate) fn start_in(name: &str, dir: &Path) -> Self {
        let mut command = program(name);
        command.env(DIR, dir);
        Self::start(command)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line that the child said.
    pub(crate) fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the child ended without another word");
            if let Some(said) = line.strip_prefix("say ") {
                return said.trim_end().to_owned();
            }
        }
    }

    pub(crate) fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    pub(crate) fn end(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

/// A failed test leaves no process behind. After `end` this does nothing: the child is known to be gone.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder given to [`Running::start_in`].
pub(crate) fn dir() -> std::path::PathBuf {
    std::env::var_os(DIR).unwrap().into()
}

const MARK: &str = "PITON_RUN_TEST_CHILD";
const DIR: &str = "PITON_RUN_TEST_DIR";
