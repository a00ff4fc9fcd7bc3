//! What transformers, safetensors, blake3 and reasoning-gym make of this project's files.
//!
//! They need the Python of `cargo xtask test --interop`, named by PITON_PYTHON. Without it each test says so and passes; with it,
//! whatever is wrong is a failure. What is compared is said in the scripts of `fixtures/python`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use piton_data::{Dataset, Message, Tokenizer};
use piton_tests::{fixtures, program};
use serde_json::{Value, json};
use walkdir::WalkDir;

use crate::start::trainer;

#[test]
fn the_starting_model_is_in_transformers_what_it_is_here() {
    let Some(python) = Python::of_the_environment() else { return };
    let dir = tempfile::tempdir().unwrap();
    let run = Run::of(&starting_model(), 1, dir.path());
    let mut said = said_of(&starting_model());
    // the first step's answers were sampled from the starting weights
    said["sampled"] = answers(&run.exp_dir.join("train_rollout/train_rollout_1.jsonl"));
    let said = write_json(dir.path(), &said);
    let golden = fixtures().join("golden/lm/chain-sum.json");
    python.run("fixtures/python/check_export.py", &[&starting_model(), &said, &golden]);
}

#[test]
fn an_export_is_the_model_that_was_trained() {
    let Some(python) = Python::of_the_environment() else { return };
    let dir = tempfile::tempdir().unwrap();
    check_export(&python, &Run::of(&starting_model(), 2, dir.path()));
}

#[test]
fn an_export_of_a_model_unlike_the_default_is_the_model_that_was_trained() {
    let Some(python) = Python::of_the_environment() else { return };
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    python.run("fixtures/python/make_model.py", &[&model, &starting_model()]);
    check_export(&python, &Run::of(&model, 1, dir.path()));
}

#[test]
fn prompts_and_tokenizer_are_what_the_pinned_packages_make() {
    let Some(python) = Python::of_the_environment() else { return };
    let dir = tempfile::tempdir().unwrap();
    python.run("fixtures/prompts/make_prompts.py", &[dir.path()]);
    assert_committed(dir.path(), &fixtures().join("prompts"), &["make_prompts.py", "mixed.jsonl"]);
    let dir = tempfile::tempdir().unwrap();
    python.run("fixtures/models/make_tokenizer.py", &[dir.path()]);
    assert_committed(dir.path(), &starting_model(), &["model.safetensors"]);
}

/// A finished run of the trainer, exported at its last step.
struct Run {
    source: PathBuf,
    exp_dir: PathBuf,
    steps: u64,
}

impl Run {
    /// Trains a model for real; weights decay, so that they change even where every answer is wrong.
    fn of(source: &Path, steps: u64, dir: &Path) -> Self {
        let work_dir = dir.join("work");
        let mut command = trainer(&work_dir);
        let sets = [
            format!("load_from={}", source.display()),
            format!("total_train_steps={steps}"),
            format!("hf_interval={steps}"),
            format!("evaluate_step={steps}"),
            "enable_evaluate=true".to_owned(),
            "enable_initial_evaluate=false".to_owned(),
            "evaluator_config.eval_sample_num=24".to_owned(),
            "train_worker_cfg.optim_cfg.weight_decay=0.1".to_owned(),
        ];
        command.args(sets.iter().flat_map(|set| ["--set", set]));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let [experiment] = &piton_run::experiments(&work_dir).unwrap()[..] else {
            panic!("one run, one experiment")
        };
        Self { source: source.to_owned(), exp_dir: experiment.dir(), steps }
    }

    fn checkpoint(&self) -> PathBuf {
        self.exp_dir.join(format!("checkpoints/ckpt-step-{}", self.steps))
    }

    fn export(&self) -> PathBuf {
        self.exp_dir.join(format!("hf/hf-step-{}", self.steps))
    }
}

/// The export has the source's files with the checkpoint's weights, and answers in transformers as the trainer evaluated it;
/// the checkpoint opens without this project.
fn check_export(python: &Python, run: &Run) {
    assert_committed(&run.export(), &run.source, &["model.safetensors"]);

    // Ours, by the checkpoint's weights beside the source's other files.
    let weights = run.checkpoint().join("weights/model.safetensors");
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files(&run.source) {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    fs::copy(&weights, dir.path().join("model.safetensors")).unwrap();
    let mut said = said_of(dir.path());
    said["greedy"] = answers(&run.exp_dir.join(format!("eval_rollout/eval_rollout_{}.jsonl", run.steps)));
    said["tensors"] = json!(weights);
    said["changed_from"] = json!(run.source.join("model.safetensors"));
    let said = write_json(dir.path(), &said);
    python.run("fixtures/python/check_export.py", &[&run.export(), &said]);
    python.run("fixtures/python/check_checkpoint.py", &[&run.checkpoint()]);
}

/// What this project says about a model directory: its tokenizer, its chats, its logits.
fn said_of(model: &Path) -> Value {
    let tokenizer = Tokenizer::from_dir(model).unwrap();
    let held_out = Dataset::read_jsonl(fixtures().join("prompts/chain_sum/heldout.jsonl")).unwrap();
    let by_hand = [
        vec![Message::new("system", "Be brief."), Message::new("user", "  naïve 漢字 😀\r\n <|im_end|>")],
        vec![Message::new("user", ""), Message::new("assistant", "7"), Message::new("user", "And 3 + 4 =")],
    ];
    let chats: Vec<_> =
        held_out.rows().iter().take(30).map(|row| row.prompt.clone()).chain(by_hand).collect();
    let chats: Vec<_> = chats
        .iter()
        .flat_map(|messages| [(messages, true), (messages, false)])
        .map(|(messages, open)| {
            let text = tokenizer.render_chat(messages, open).unwrap();
            let ids = tokenizer.encode_chat(messages, open).unwrap();
            json!({"messages": messages, "add_generation_prompt": open, "text": text, "ids": ids})
        })
        .collect();
    let ids: Vec<&[Value]> = chats[..8].iter().map(|chat| &chat["ids"].as_array().unwrap()[..8]).collect();
    let mut said = logits(model, &json!(ids));
    said["chats"] = json!(chats);
    said["vocab_size"] = json!(tokenizer.vocab_size());
    said["eos_ids"] = json!(tokenizer.eos_ids());
    said
}

/// `ids` and `logits`, by this project's model.
fn logits(model: &Path, ids: &Value) -> Value {
    let mut command = Command::new(program("piton-llm"));
    let mut child =
        command.arg("logits").arg(model).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    serde_json::to_writer(child.stdin.take().unwrap(), ids).unwrap();
    let said = io::read_to_string(child.stdout.take().unwrap()).unwrap();
    assert!(child.wait().unwrap().success());
    serde_json::from_str(&said).unwrap()
}

/// The answers in a file of trajectories, whose first line is a summary.
fn answers(trajectories: &Path) -> Value {
    let text = fs::read_to_string(trajectories).unwrap();
    let answers: Vec<Value> = text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(answers.len() >= 16, "{} answers", answers.len());
    Value::from(answers)
}

fn starting_model() -> PathBuf {
    fixtures().canonicalize().unwrap().join("models/chain-sum")
}

fn write_json(dir: &Path, value: &Value) -> PathBuf {
    let path = dir.join("said.json");
    fs::write(&path, value.to_string()).unwrap();
    path
}

/// Files by path, `not_made` aside, are the same in both folders.
fn assert_committed(made: &Path, committed: &Path, not_made: &[&str]) {
    let [made, committed] = [made, committed].map(|dir| {
        let mut files = files(dir);
        files.retain(|path, _| !not_made.contains(&path.as_str()));
        files
    });
    assert!(made.keys().eq(committed.keys()), "{:?}, expected {:?}", made.keys(), committed.keys());
    let changed: Vec<_> =
        committed.iter().filter(|(path, bytes)| made[*path] != **bytes).map(|file| file.0).collect();
    assert!(changed.is_empty(), "made with other bytes: {changed:?}");
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries =
        WalkDir::new(dir).into_iter().map(Result::unwrap).filter(|entry| entry.file_type().is_file());
    entries
        .map(|entry| {
            let path = entry.path().strip_prefix(dir).unwrap().display().to_string();
            (path, fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// An interpreter with the packages of `fixtures/python/requirements.txt`.
struct Python(PathBuf);

#[expect(clippy::print_stdout, reason = "figures, and that a test did nothing")]
impl Python {
    fn of_the_environment() -> Option<Self> {
        let python = std::env::var_os("PITON_PYTHON").map(|python| Self(python.into()));
        if python.is_none() {
            println!("skipped: PITON_PYTHON is not set, cargo xtask test --interop sets it");
        }
        python
    }

    /// Runs a script of this repository; fails with what it says unless it exits 0.
    fn run(&self, script: &str, args: &[&Path]) {
        let root = fixtures().canonicalize().unwrap().parent().unwrap().to_owned();
        let mut command = Command::new(&self.0);
        command.arg(script).args(args).current_dir(root);
        command
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("HF_HUB_OFFLINE", "1")
            .env("CUDA_VISIBLE_DEVICES", "");
        let output =
            command.output().unwrap_or_else(|error| panic!("{} does not run: {error}", self.0.display()));
        let [said, complained] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success(), "{script} {args:?}: {}\n{said}{complained}", output.status);
        println!("{script}\n{said}");
    }
}
