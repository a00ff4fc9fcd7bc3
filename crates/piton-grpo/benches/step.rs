//! Whole GRPO steps by the real trainer: real files, each run in a process of its own.
//!
//! `cargo bench -p piton-grpo --bench step`, optionally with `-- THREADS STEPS CASE`. One line of JSON a case; all
//! figures are medians over steps. The same work by TRL: `benches/step_trl.py`.
//!
//! The program starts itself anew for every run, so that start-up and resume are those of a fresh process: the first
//! run trains, the second resumes it and saves after every step.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and stops where it fails")]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use piton_lm::{ExportDtype, ModelConfig, export, init};
use piton_rng::Seed;
use piton_run::{Event, read_events};
use piton_trainer::{ColocateTrainerConfig, Progress, ProgressEvent, RunContext};
use serde_json::{Value, json};
use tch::Device;

/// One measurement: a model and how much of it.
struct Case {
    name: &'static str,
    model: Model,
    prompts: usize,
    new_tokens: usize,
    min_new_tokens: usize,
}

/// Where weights and prompts come from.
#[derive(Clone, Copy)]
enum Model {
    /// The default recipe's, with its prompts of 16 tokens.
    ChainSum,
    /// 5 M parameters, random, with sums of 64 tokens.
    Middle,
}

/// Samples of a prompt.
const SAMPLES: usize = 8;

/// Numbers in a long sum: with the chat template it has 64 tokens.
const TERMS: usize = 28;

const CASES: [Case; 3] = [
    Case { name: "small-8", model: Model::ChainSum, prompts: 32, new_tokens: 8, min_new_tokens: 0 },
    Case { name: "small-64", model: Model::ChainSum, prompts: 32, new_tokens: 64, min_new_tokens: 64 },
    Case { name: "middle-64", model: Model::Middle, prompts: 8, new_tokens: 64, min_new_tokens: 64 },
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [run, config] = &arguments[..]
        && run == "run"
    {
        return train(config);
    }
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse().ok());
    let threads = numbers.next().unwrap_or_else(|| std::thread::available_parallelism().unwrap().get());
    let steps = numbers.next().unwrap_or(7);
    let named = |case: &&Case| {
        let mut words = arguments.iter().filter(|argument| argument.parse::<usize>().is_err()).peekable();
        words.peek().is_none() || words.any(|word| word == case.name)
    };
    for case in CASES.iter().filter(named) {
        println!("{}", measure(case, threads, steps));
    }
}

/// The child: one run, told line by line.
fn train(config: &str) {
    let config: ColocateTrainerConfig = serde_json::from_str(config).unwrap();
    let controllers = piton_grpo::build(&config).unwrap();
    let context = RunContext { progress: Box::new(Lines), ..RunContext::default() };
    config.build_with(controllers.into(), context).unwrap().fit().unwrap();
}

/// Tells the parent what happens.
struct Lines;

impl Progress for Lines {
    fn event(&mut self, event: ProgressEvent<'_>) {
        match event {
            ProgressEvent::Started { exp_dir, .. } => println!("{}", json!({"started": exp_dir})),
            ProgressEvent::Step { metrics, .. } => println!("{}", json!({"step": metrics})),
            _ => {}
        }
    }
}

fn measure(case: &Case, threads: usize, steps: usize) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let files = files(case.model, dir.path());
    let config = |total: usize, interval: i64| config(case, &files, dir.path(), (threads, total, interval));
    // the first step of a process also warms it up: it is told apart
    let fresh = run(&config(steps + 1, -1));
    let resumed = run(&config(steps + 4, 1));
    let (events, _) = read_events(&resumed.exp_dir.join("logs/events.jsonl")).unwrap();
    let saves: Vec<(f64, u64)> = events
        .into_iter()
        .filter_map(|timed| match timed.event {
            Event::Save { seconds, bytes, .. } => Some((seconds, bytes)),
            _ => None,
        })
        .collect();
    let of = |key: &str| median(fresh.steps[1..].iter().map(|line| line[key].as_f64().unwrap()));
    json!({
        "case": case.name,
        "by": "piton",
        "threads": threads,
        "steps": steps,
        "step_s": of("time/step"),
        "first_step_s": fresh.steps[0]["time/step"],
        "rollout_s": of("time/produce_batch"),
        "training_s": of("time/training"),
        "sync_s": of("time/sync_weight"),
        "rollout_tokens_per_s": of("throughput/rollout_tgs"),
        "training_tokens_per_s": of("throughput/training_tgs"),
        "mean_response_tokens": of("response/response_len/mean"),
        "save_s": median(saves.iter().map(|save| save.0)),
        "checkpoint_bytes": saves.last().unwrap().1,
        "start_s": fresh.start_s,
        "resume_s": resumed.start_s,
    })
}

/// What a child told.
struct Run {
    /// From before the process was started to just before its first step.
    start_s: f64,
    exp_dir: PathBuf,
    steps: Vec<Value>,
}

fn run(config: &ColocateTrainerConfig) -> Run {
    let started = Instant::now();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["run", &serde_json::to_string(config).unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut ready, mut steps) = (None, Vec::new());
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let mut line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if let Some(exp_dir) = line["started"].as_str() {
            ready = Some((started.elapsed().as_secs_f64(), PathBuf::from(exp_dir)));
        } else {
            steps.push(line["step"].take());
        }
    }
    assert!(child.wait().unwrap().success(), "a run failed");
    let (start_s, exp_dir) = ready.unwrap();
    Run { start_s, exp_dir, steps }
}

/// Paths of a model directory and of prompts.
struct Files {
    model: PathBuf,
    prompts: PathBuf,
}

fn files(model: Model, dir: &Path) -> Files {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let small = fixtures.join("models/chain-sum");
    match model {
        Model::ChainSum => Files { model: small, prompts: fixtures.join("prompts/chain_sum/train.jsonl") },
        Model::Middle => {
            let files = Files { model: dir.join("model"), prompts: dir.join("prompts.jsonl") };
            let config = ModelConfig::from_json(
                r#"{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 512,
                "hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4,
                "head_dim": 32, "intermediate_size": 1024, "max_position_embeddings": 256,
                "tie_word_embeddings": true, "eos_token_id": 324}"#,
            )
            .unwrap();
            let weights = init(&config, Seed(1), Device::Cpu).unwrap();
            export(&config, &weights, &small, ExportDtype::F32, &files.model).unwrap();
            std::fs::write(&files.prompts, (0..256).fold(String::new(), long_sum)).unwrap();
            files
        }
    }
}

/// Adds row `index`: a sum of many digits, the same as in `step_trl.py`.
fn long_sum(mut rows: String, index: usize) -> String {
    let digit = |at: usize| (index * 7 + at * 3 + index * at) % 10;
    let terms: Vec<String> = (0..TERMS).map(|at| digit(at).to_string()).collect();
    let content =
        format!("State the final answer to the following arithmetic problem: {}", terms.join(" + "));
    let answer: usize = (0..TERMS).map(digit).sum();
    let row = json!({
        "data_source": "chain_sum",
        "prompt": [{"role": "user", "content": content}],
        "reward_model": {"style": "rule", "ground_truth": answer.to_string()},
        "extra_info": {"index": index},
    });
    writeln!(rows, "{row}").unwrap();
    rows
}

fn config(case: &Case, files: &Files, dir: &Path, run: (usize, usize, i64)) -> ColocateTrainerConfig {
    let (threads, total_train_steps, checkpoint_interval) = run;
    serde_json::from_value(json!({
        "load_from": files.model,
        "work_dir": dir.join("runs"),
        "auto_resume": true,
        "threads": threads,
        "total_train_steps": total_train_steps,
        "train_batch_size": case.prompts,
        "checkpoint_interval": checkpoint_interval,
        "enable_evaluate": false,
        "train_worker_cfg": {
            "pack_max_length": 65536,
            "optim_cfg": {"lr": 1e-5, "weight_decay": 0.0},
            "loss_cfg": {"policy_loss_cfg": {"cliprange_low": 0.2, "cliprange_high": 0.2}},
        },
        "agent_loop_manager_cfg": {"tasks": [{
            "task_name": "sums",
            "agent_loop_config": {"type": "single_turn", "sample_params": {
                "max_tokens": case.new_tokens, "min_tokens": case.min_new_tokens,
            }},
            "judger_config": {"type": "rule"},
            "sampler_config": {
                "prompt_repeat_k": SAMPLES,
                "dataloader_cfg": {"dataset_config_list": [{
                    "dataset": {"name": "sums", "anno_path": files.prompts},
                    "tokenize_fn": {"max_length": 96},
                }]},
            },
        }]},
    }))
    .unwrap()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
