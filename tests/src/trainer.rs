//! `piton train` as a user starts it, on the default recipe cut down to about a second.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fixtures;
use crate::process::{Ended, Running};

/// Six steps of four prompts, with checkpoints, evaluations and exports on the way.
const SMALL: [&str; 7] = [
    "threads=1",
    "total_train_steps=6",
    "train_batch_size=4",
    "checkpoint_interval=2",
    "evaluate_step=3",
    "evaluator_config.eval_sample_num=16",
    "hf_interval=3",
];

/// A work_dir and the settings of the run in it.
#[derive(Debug)]
pub struct Trainer {
    dir: tempfile::TempDir,
    sets: Vec<String>,
    starts: AtomicUsize,
}

impl Trainer {
    /// A fresh work_dir. Each of `sets` is a `--set`, after those that make the run small.
    pub fn new(sets: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("the machine has a temporary directory");
        let sets = SMALL.iter().chain(sets).map(|set| (*set).to_owned()).collect();
        Self { dir, sets, starts: AtomicUsize::new(0) }
    }

    /// The same settings on a copy of the work_dir as it is now.
    pub fn copy(&self) -> Self {
        let copy = Self { sets: self.sets.clone(), ..Self::new(&[]) };
        copy_tree(&self.work_dir(), &copy.work_dir()).expect("the temporary directory is writable");
        copy
    }

    /// Where the run is.
    pub fn work_dir(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// All experiments in the work_dir.
    pub fn exp_dirs(&self) -> Vec<PathBuf> {
        let found = piton_run::experiments(&self.work_dir()).expect("the work_dir can be listed");
        found.iter().map(piton_run::Experiment::dir).collect()
    }

    /// The one experiment.
    ///
    /// # Panics
    /// When there are none or several.
    pub fn exp_dir(&self) -> PathBuf {
        let [exp_dir] = <[PathBuf; 1]>::try_from(self.exp_dirs()).expect("there is one experiment");
        exp_dir
    }

    /// `checkpoints/ckpt-step-<step>` of the one experiment.
    pub fn checkpoint(&self, step: u64) -> PathBuf {
        self.exp_dir().join(format!("checkpoints/ckpt-step-{step}"))
    }

    /// Steps of the one experiment's checkpoints, ascending.
    pub fn checkpoints(&self) -> Vec<u64> {
        let reader = piton_checkpoint::Store::open_read_only(self.exp_dir().join("checkpoints"));
        reader.and_then(|reader| reader.steps()).expect("the checkpoints can be listed")
    }

    /// Whether the tracker has the step's line.
    pub fn has_recorded(&self, step: u64) -> bool {
        let line = format!("{{\"step\":{step},");
        let holds = |exp_dir: PathBuf| {
            let tracker = fs::read_to_string(exp_dir.join("logs/exp_tracking/tracker.jsonl"));
            tracker.is_ok_and(|text| text.contains(&line))
        };
        self.exp_dirs().into_iter().any(holds)
    }

    /// `piton train` and these settings.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program("piton"));
        command.arg("train");
        self.arguments(&mut command, args);
        command
    }

    /// What comes after `train`.
    pub fn arguments(&self, command: &mut Command, args: &[&str]) {
        let recipe =
            fixtures().canonicalize().expect("the fixtures are there").join("recipes/chain-sum.toml");
        command.arg(recipe).arg("--work-dir").arg(self.work_dir());
        for set in &self.sets {
            command.args(["--set", set]);
        }
        command.args(args).current_dir(self.dir.path());
    }

    /// Starts the run, in a process group of its own.
    pub fn start(&self, args: &[&str]) -> Running {
        self.run(self.command(args))
    }

    /// Starts any command on this work_dir.
    pub fn run(&self, command: Command) -> Running {
        let number = self.starts.fetch_add(1, Ordering::Relaxed);
        let output = |kind: &str| {
            let path = self.dir.path().join(format!("{kind}-{number}.txt"));
            File::create(&path).expect("the temporary directory is writable");
            path
        };
        Running::spawn(command, output("stdout"), output("stderr"))
    }

    /// Resumes, or starts, and runs to the end.
    ///
    /// # Panics
    /// When the run fails.
    pub fn finish(&self, args: &[&str]) -> Ended {
        let ended = self.start(&[&["--auto-resume"], args].concat()).end();
        assert!(ended.status.success(), "{:?}: {}", ended.status, ended.stderr);
        ended
    }
}

/// A program that lies beside the folder of the test's own executable.
///
/// # Panics
/// When it was not built.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its executable");
    let program = test.ancestors().nth(2).expect("tests lie in target/<profile>/deps").join(name);
    assert!(
        program.is_file(),
        "{} is missing: `cargo xtask test` builds it first; by hand, cargo build -p piton -p piton-llm",
        program.display()
    );
    program
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
