//! SIGKILL at every system call of opening, resuming, saving and pruning.
//!
//! The subject kills itself through the seam in the file layer, in place of its Nth call, for N = 0, 1, .. until it comes
//! through; where strace is there, the kernel does it at the Nth call of each kind, so that calls which pass the seam by
//! are met too.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::check;
use crate::proof::{Outcome, Setting};
use crate::scenario::{SCENARIOS, STEPS, Scenario, copy};

/// The calls that change something, or on whose answer something is changed.
const SYSCALLS: [&str; 18] = [
    "openat",
    "mkdirat",
    "write",
    "pwrite64",
    "fsync",
    "ftruncate",
    "fallocate",
    "renameat2",
    "unlinkat",
    "linkat",
    "flock",
    "getdents64",
    "close",
    "fstat",
    "newfstatat",
    "read",
    "fchmod",
    "fdatasync",
];

pub(crate) fn run(setting: &Setting) -> Result<Outcome> {
    let strace = Command::new("strace").arg("-V").output().is_ok_and(|tried| tried.status.success());
    let stride = if setting.long { 1 } else { 31 };
    let (mut points, mut violations) = (0, Vec::new());
    for (index, scenario) in SCENARIOS.iter().enumerate() {
        let base = setting.scratch()?;
        scenario.prepare(&base.path().join("store"))?;
        let mut sweep = Sweep { setting, scenario, base: base.path(), points: 0, violations: Vec::new() };
        // in the sampled form the scenarios meet different calls
        sweep.along(index % stride, stride, "call", |root, at| {
            let args = scenario.subject(root, STEPS)?;
            let mut command = Command::new(&args[0]);
            command.args(&args[1..]).arg("--die-at").arg(at.to_string());
            Ok(command)
        })?;
        for syscall in SYSCALLS.iter().filter(|_| strace) {
            sweep.along(1 + index % stride, stride, syscall, |root, at| {
                let mut command = Command::new("strace");
                command.args(["-f", "-qq", "-o", "/dev/null", "-e"]).arg(format!("trace={syscall}"));
                command.arg("-e").arg(format!("inject={syscall}:signal=KILL:when={at}"));
                command.args(scenario.subject(root, STEPS)?);
                Ok(command)
            })?;
        }
        points += sweep.points;
        violations.extend(sweep.violations);
    }
    let by = if strace { "by the file layer and by strace" } else { "by the file layer; strace is not here" };
    Ok(Outcome::of(points, format!("killed {by}, keep 1 and 2"), violations))
}

struct Sweep<'a> {
    setting: &'a Setting,
    scenario: &'a Scenario,
    base: &'a Path,
    points: u64,
    violations: Vec<String>,
}

impl Sweep<'_> {
    /// Kills at `first`, `first + stride`, .. until a subject comes through.
    fn along(
        &mut self,
        first: usize,
        stride: usize,
        what: &str,
        command: impl Fn(&Path, usize) -> Result<Command>,
    ) -> Result<()> {
        for at in (first..).step_by(stride) {
            let scratch = self.setting.scratch()?;
            let root = scratch.path().join("store");
            copy(&self.base.join("store"), &root)?;
            let watched = self.scenario.watch(&mut command(&root, at)?)?;
            if watched.ended {
                return Ok(());
            }
            self.points += 1;
            let large = self.scenario.large;
            let found = check::visible(&root, watched.acked, large)
                .and_then(|()| check::recovers(&root, watched.acked, large));
            if let Err(error) = found {
                self.violations.push(format!("{} {what} {at}: {error:#}", self.scenario));
            }
            if !watched.complaint.is_empty() {
                self.violations.push(format!("{} {what} {at}: it said {}", self.scenario, watched.complaint));
            }
        }
        Ok(())
    }
}
