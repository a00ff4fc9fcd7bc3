//! The ways in which the subject saves.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// What a subject is told to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// Checkpoints to keep.
    pub keep: usize,
    /// Size of the largest file in bytes.
    pub large: usize,
    /// Every fourth step is saved twice.
    pub exchange: bool,
    /// Saves run in the background.
    pub background: bool,
}

/// Small and large files, one and two kept, in the foreground and in the background.
pub(crate) const SCENARIOS: [Scenario; 6] = [
    Scenario { keep: 1, large: 50_000, exchange: false, background: false },
    Scenario { keep: 2, large: 50_000, exchange: true, background: false },
    Scenario { keep: 1, large: 50_000, exchange: false, background: true },
    Scenario { keep: 1, large: 5_000_000, exchange: true, background: false },
    Scenario { keep: 2, large: 5_000_000, exchange: false, background: false },
    Scenario { keep: 2, large: 5_000_000, exchange: false, background: true },
];

/// Steps that are there before anything happens to the subject, and steps that it then saves.
pub(crate) const BEFORE: u64 = 2;
/// See [`BEFORE`].
pub(crate) const STEPS: u64 = 2;

impl Scenario {
    /// Arguments of a subject that saves `steps` steps in `root`.
    pub(crate) fn subject(&self, root: &Path, steps: u64) -> Result<Vec<std::ffi::OsString>> {
        let mut args: Vec<std::ffi::OsString> = vec![
            std::env::current_exe().context("cannot tell where this program is")?.into(),
            "subject".into(),
            "--root".into(),
            root.into(),
        ];
        let numbers = [
            ("--keep", self.keep.to_string()),
            ("--large", self.large.to_string()),
            ("--steps", steps.to_string()),
        ];
        for (name, value) in numbers {
            args.extend([name.into(), value.into()]);
        }
        if self.exchange {
            args.push("--exchange".into());
        }
        if self.background {
            args.push("--background".into());
        }
        Ok(args)
    }

    /// Makes the store that subjects start from.
    pub(crate) fn prepare(&self, root: &Path) -> Result<()> {
        let args = self.subject(root, BEFORE)?;
        let ended = Command::new(&args[0]).args(&args[1..]).output().context("cannot start a subject")?;
        ensure!(
            ended.status.success(),
            "an untouched subject failed: {}",
            String::from_utf8_lossy(&ended.stderr)
        );
        Ok(())
    }

    /// Runs a program around a subject to its end, whatever that is; gives the last step it acknowledged, and whether it
    /// ended by itself.
    pub(crate) fn watch(&self, command: &mut Command) -> Result<Watched> {
        let ended = command.stdin(Stdio::null()).output().context("cannot start a subject")?;
        let output = String::from_utf8_lossy(&ended.stdout);
        // a line without its end was cut by the kill, and its number may be too
        let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let acked = whole.lines().filter_map(|line| line.strip_prefix("ack ")?.parse().ok()).next_back();
        Ok(Watched {
            acked: acked.unwrap_or(BEFORE),
            ended: ended.status.success(),
            complaint: String::from_utf8_lossy(&ended.stderr).trim().to_owned(),
        })
    }
}

/// What was seen of a subject.
#[derive(Debug)]
pub(crate) struct Watched {
    pub acked: u64,
    pub ended: bool,
    pub complaint: String,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keep {}, {} kB", self.keep, self.large / 1000)?;
        if self.exchange {
            f.write_str(", overwriting")?;
        }
        if self.background {
            f.write_str(", in the background")?;
        }
        Ok(())
    }
}

/// A second store with the same checkpoints. Their files are shared: nobody ever writes to a committed one.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else if entry.file_name().to_string_lossy().starts_with('.') {
            std::fs::copy(entry.path(), target)?;
        } else {
            std::fs::hard_link(entry.path(), target)?;
        }
    }
    Ok(())
}
