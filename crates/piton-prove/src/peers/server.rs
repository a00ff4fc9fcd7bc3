//! The Python process that saves and loads with what people use.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::proof::Setting;

const SCRIPTS: [(&str, &str); 6] = [
    ("serve.py", include_str!("../../../../fixtures/python/peers/serve.py")),
    ("torch_save.py", include_str!("../../../../fixtures/python/peers/torch_save.py")),
    ("torch_save_replace.py", include_str!("../../../../fixtures/python/peers/torch_save_replace.py")),
    ("safetensors_file.py", include_str!("../../../../fixtures/python/peers/safetensors_file.py")),
    ("torch_dcp.py", include_str!("../../../../fixtures/python/peers/torch_dcp.py")),
    ("sb3_zip.py", include_str!("../../../../fixtures/python/peers/sb3_zip.py")),
];

/// A running `serve.py`.
#[derive(Debug)]
pub(super) struct Server {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// What can be tried here.
    pub(super) peers: Vec<String>,
    /// What cannot, and why.
    pub(super) missing: Vec<String>,
    _scripts: TempDir,
}

impl Server {
    pub(super) fn start(setting: &Setting) -> Result<Self> {
        let scripts = setting.scratch()?;
        for (name, text) in SCRIPTS {
            fs::write(scripts.path().join(name), text)?;
        }
        let mut command = Command::new(&setting.python);
        command.args(["-W", "ignore"]).arg(scripts.path().join("serve.py"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process =
            command.spawn().with_context(|| format!("{} does not start", setting.python.display()))?;
        let stdin = process.stdin.take();
        let stdout = BufReader::new(process.stdout.take().context("no pipe from Python")?);
        let (peers, missing) = (Vec::new(), Vec::new());
        let mut server = Self { process, stdin, stdout, peers, missing, _scripts: scripts };
        loop {
            let line = server.line()?;
            match line.split_once(' ') {
                Some(("has", peer)) => server.peers.push(peer.to_owned()),
                Some(("lacks", why)) => server.missing.push(why.to_owned()),
                _ => return Ok(server),
            }
        }
    }

    /// Starts a loop of `count` saves; the caller must wait for its [`end`](Self::end).
    pub(super) fn save(&mut self, peer: &str, root: &Path, count: u64, mark: &Path) -> Result<Pid> {
        self.say(&format!("save {peer} {} 1 {count} {}", root.display(), mark.display()))?;
        let line = self.line()?;
        let pid = line.strip_prefix("pid ").and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        pid.with_context(|| format!("Python answered {line}"))
    }

    /// Waits for the end of a loop; says whether it came through.
    pub(super) fn end(&mut self) -> Result<bool> {
        let line = self.line()?;
        ensure!(line.starts_with("ended "), "Python answered {line}");
        Ok(line == "ended 0")
    }

    /// The step that a user's script would go on from, or why it stops.
    pub(super) fn load(&mut self, peer: &str, root: &Path) -> Result<Result<u64, String>> {
        self.say(&format!("load {peer} {}", root.display()))?;
        let line = self.line()?;
        match line.split_once(' ') {
            Some(("step", step)) => Ok(Ok(step.parse()?)),
            Some(("bad", why)) => Ok(Err(why.to_owned())),
            _ => bail!("Python answered {line}"),
        }
    }

    fn say(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("no pipe to Python")?;
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).context("Python has ended")
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        ensure!(!line.is_empty(), "Python has ended");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stdin = None; // its loop ends
        let _ = self.process.wait();
    }
}

pub(super) fn kill(pid: Pid) {
    // It may have ended by itself; then it is not waited for yet, and its number is nobody else's.
    let _ = rustix::process::kill_process(pid, Signal::KILL);
}
