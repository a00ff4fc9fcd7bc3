//! Starts the real trainer as a user does, on the smallest run that saves a checkpoint.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use piton_tests::{fixtures, program};

/// Where the one prompt file that is trained on stands in the recipe.
pub(crate) const DATASET: &str =
    "agent_loop_manager_cfg.tasks.sampler_config.dataloader_cfg.dataset_config_list.0";

/// A temporary directory with a run in it: two steps, checkpointed.
pub(crate) struct Started {
    pub(crate) dir: tempfile::TempDir,
}

impl Started {
    /// Trains two steps.
    pub(crate) fn new() -> Self {
        let started = Self { dir: tempfile::tempdir().unwrap() };
        let output = started.train::<&str>(&[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(started.files().keys().any(|path| path.ends_with("ckpt-step-2/MANIFEST.json")));
        started
    }

    pub(crate) fn work_dir(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// The trainer, told to go on with this run; a `--set` in `args` wins over those of [`trainer`].
    pub(crate) fn train<A: AsRef<OsStr>>(&self, args: &[A]) -> Output {
        trainer(&self.work_dir()).args(args).output().unwrap()
    }

    /// What `--set` gives a wrong value, and what is said about it; see [`Self::refused`].
    pub(crate) fn refuses_set(&self, set: &str) -> String {
        self.refused(&["--set", set])
    }

    /// What is said about prompts with these bytes.
    pub(crate) fn refuses_prompts(&self, bytes: impl AsRef<[u8]>) -> String {
        self.refuses_set(&format!("{DATASET}.dataset.anno_path={}", self.prompts(bytes).display()))
    }

    /// A prompt file with these bytes.
    pub(crate) fn prompts(&self, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join("prompts.jsonl");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Starts the trainer with an argument it must refuse, and gives what stands on stderr.
    ///
    /// Whatever is refused: the exit code is 1, stdout is empty, nothing panicked, and no file of the earlier run changed, none
    /// was added.
    pub(crate) fn refused<A: AsRef<OsStr>>(&self, args: &[A]) -> String {
        self.refused_in(&self.work_dir(), args)
    }

    /// The same with another work_dir.
    pub(crate) fn refused_in<A: AsRef<OsStr>>(&self, work_dir: &Path, args: &[A]) -> String {
        let before = self.files();
        let output = trainer(work_dir).args(args).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "{stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("RUST_BACKTRACE"), "{stderr}");
        assert!(stderr.starts_with("error: ") && !stderr[1..].contains("error: "), "one message: {stderr}");
        let after = self.files();
        let changed: Vec<_> = after.iter().filter(|(path, bytes)| before.get(*path) != Some(bytes)).collect();
        assert!(changed.is_empty() && after.len() == before.len(), "{:?}", changed.iter().map(|c| c.0));
        self.readable(&stderr)
    }

    /// Every file of the work_dir, but the lock's holder note, with its bytes.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        walkdir::WalkDir::new(self.work_dir())
            .into_iter()
            .map(Result::unwrap)
            .filter(|entry| entry.file_type().is_file() && entry.file_name() != "run.lock")
            .map(|entry| (entry.path().to_owned(), std::fs::read(entry.path()).unwrap()))
            .collect()
    }

    /// Text without what differs between two machines.
    pub(crate) fn readable(&self, text: &str) -> String {
        let fixtures = fixtures().canonicalize().unwrap();
        text.replace(&self.dir.path().display().to_string(), "[DIR]")
            .replace(&fixtures.display().to_string(), "[FIXTURES]")
            .trim_end()
            .to_owned()
    }
}

/// `piton-llm train` on the default recipe, cut down to two steps of two prompts, without evaluation and export.
pub(crate) fn trainer(work_dir: &Path) -> Command {
    let mut command = Command::new(program("piton-llm"));
    let recipe = fixtures().canonicalize().unwrap().join("recipes/chain-sum.toml");
    command.arg("train").arg(recipe).arg("--auto-resume").arg("--work-dir").arg(work_dir);
    for set in
        ["threads=1", "total_train_steps=2", "train_batch_size=2", "enable_evaluate=false", "hf_interval=-1"]
    {
        command.args(["--set", set]);
    }
    command.env("RUST_BACKTRACE", "0");
    command
}
