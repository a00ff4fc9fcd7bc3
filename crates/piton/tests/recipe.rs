//! From a recipe and the arguments of `piton train` to a configuration.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails like the test")]

use std::path::Path;

use clap::Parser;
use insta::assert_snapshot;
use piton::{Cli, Command, Recipe, complaint, load_recipe};

/// Everything that has no default.
const RECIPE: &str = r#"
load_from = "model"
total_train_steps = 2
train_batch_size = 2
enable_evaluate = false

[train_worker_cfg]
pack_max_length = 64
loss_cfg = { policy_loss_cfg = { loss_type = "vanilla", cliprange_low = 0.2, cliprange_high = 0.2 } }

[[agent_loop_manager_cfg.tasks]]
task_name = "sums"
agent_loop_config = { type = "single_turn" }
sampler_config = { dataloader_cfg = { dataset_config_list = [{ dataset = { anno_path = "data/sums.jsonl" } }] } }
"#;

/// A folder with a recipe and the files of a model, empty: loading a recipe only looks whether they are there.
fn folder(recipe: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("model")).unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        std::fs::write(dir.path().join("model").join(file), "").unwrap();
    }
    std::fs::write(dir.path().join("sums.toml"), recipe).unwrap();
    dir
}

fn load(dir: &Path, args: &[&str]) -> anyhow::Result<Recipe> {
    let path = dir.join("sums.toml");
    let cli = Cli::parse_from(["piton", "train", path.to_str().unwrap()].iter().chain(args));
    let Command::Train(args) = cli.command else { unreachable!("train was asked for") };
    load_recipe(&args)
}

/// The recipe with these `--set` arguments.
fn set(sets: &[&str]) -> Recipe {
    let args: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    load(folder(RECIPE).path(), &args).unwrap()
}

/// What is said about a `--set` argument that cannot be used, without the recipe's path.
fn refused(set: &str) -> String {
    let dir = folder(RECIPE);
    let error = complaint(&load(dir.path(), &["--set", set]).unwrap_err());
    error.replace(&dir.path().display().to_string(), "[DIR]")
}

#[test]
fn set_takes_toml_and_bare_words() {
    let config = set(&[
        "seed=7",
        "train_worker_cfg.optim_cfg.lr = 1e-4",
        "train_worker_cfg.optim_cfg.betas=[0.8, 0.9]",
        "auto_resume=true",
        "device=cuda:0",
        "checkpoint_maxkeep=all",
        "rollout_config.model_name=\"with = sign\"",
    ])
    .config;
    assert_eq!(config.seed, 7);
    assert_eq!(
        (config.train_worker_cfg.optim_cfg.lr, config.train_worker_cfg.optim_cfg.betas),
        (1e-4, [0.8, 0.9])
    );
    assert!(config.auto_resume);
    assert_eq!(config.device, "cuda:0");
    assert_eq!(config.checkpoint_maxkeep, piton_trainer::MaxKeep::All);
    assert_eq!(config.rollout_config.model_name.as_deref(), Some("with = sign"));
}

#[test]
fn set_reaches_into_lists_and_makes_tables() {
    let config =
        set(&["agent_loop_manager_cfg.tasks.0.weight=2", "evaluator_config.eval_sample_num=5"]).config;
    assert_eq!(config.agent_loop_manager_cfg.tasks.iter().map(|task| task.weight).collect::<Vec<_>>(), [2.0]);
    assert_eq!(config.evaluator_config.eval_sample_num, 5);
    assert_snapshot!(refused("agent_loop_manager_cfg.tasks.1.weight=2"), @"error: --set agent_loop_manager_cfg.tasks.1.weight=2: agent_loop_manager_cfg.tasks is a list of 1, counted from 0, and has no element 1");
    assert_snapshot!(refused("agent_loop_manager_cfg.tasks.weight=2"), @"error: --set agent_loop_manager_cfg.tasks.weight=2: agent_loop_manager_cfg.tasks is a list of 1, counted from 0, and has no element weight");
    assert_snapshot!(refused("seed.more=1"), @"error: recipe [DIR]/sums.toml with --set: seed is a table: write a whole number, 0 or more");
    assert_snapshot!(refused("seed"), @"error: --set seed: write KEY=VALUE, for example --set seed=7");
    assert_snapshot!(refused("optim..lr=1"), @r#"error: --set optim..lr=1: "optim..lr" is not a key; write names with dots between, for example train_worker_cfg.optim_cfg.lr"#);
}

#[test]
fn the_last_set_of_a_key_counts() {
    assert_eq!(set(&["seed=1", "seed=2"]).config.seed, 2);
}

#[test]
fn paths_of_a_recipe_start_at_its_file_and_those_of_set_at_the_current_folder() {
    let dir = folder(RECIPE);
    let prompts = |recipe: &Recipe| {
        let loader = &recipe.config.agent_loop_manager_cfg.tasks[0].sampler_config.dataloader_cfg;
        loader.dataset_config_list[0].dataset.anno_path.clone()
    };
    let recipe = load(dir.path(), &[]).unwrap();
    assert_eq!(recipe.config.load_from, dir.path().join("model"));
    assert_eq!(prompts(&recipe), dir.path().join("data/sums.jsonl"));

    let key = "agent_loop_manager_cfg.tasks.0.sampler_config.dataloader_cfg.dataset_config_list.0.dataset.anno_path";
    let recipe = load(dir.path(), &["--set", &format!("{key}=mine.jsonl")]).unwrap();
    assert_eq!(prompts(&recipe), Path::new("./mine.jsonl"));
    let recipe = load(dir.path(), &["--set", &format!("{key}=/data/mine.jsonl")]).unwrap();
    assert_eq!(prompts(&recipe), Path::new("/data/mine.jsonl"));
}

#[test]
fn the_work_dir_is_named_after_the_recipe_unless_it_is_given() {
    let dir = folder(RECIPE);
    let work_dir = |args: &[&str]| load(dir.path(), args).unwrap().config.work_dir.unwrap();
    assert_eq!(work_dir(&[]), Path::new(".piton/sums"));
    assert_eq!(work_dir(&["--work-dir", "runs/a"]), Path::new("runs/a"));
    let dir = folder(&format!("work_dir = \"here\"\n{RECIPE}"));
    assert_eq!(load(dir.path(), &[]).unwrap().config.work_dir.unwrap(), dir.path().join("here"));
}

/// The configuration with these `--set` arguments, from wherever its recipe lay.
fn resolved(sets: &[&str]) -> piton_trainer::ColocateTrainerConfig {
    let anno_path = "agent_loop_manager_cfg.tasks.0.sampler_config.dataloader_cfg.dataset_config_list.0.dataset.anno_path=x";
    let mut config = set(&[sets, &[anno_path]].concat()).config;
    config.load_from = "model".into();
    config
}

#[test]
fn keys_without_meaning_here_are_taken_at_their_neutral_value_alone() {
    let neutral =
        ["rollout_config.tensor_parallel_size=1", "resources.accelerator=CPU", "debug_rollout=false"];
    assert_eq!(resolved(&neutral), resolved(&[]));
    let per_task = "agent_loop_manager_cfg.tasks.0.sampler_config.dataloader_cfg.pack_level=none";
    assert_eq!(resolved(&[per_task]), resolved(&[]));

    assert_snapshot!(refused("rollout_config.tensor_parallel_size=2"), @"error: recipe [DIR]/sums.toml with --set: rollout_config.tensor_parallel_size: 2 has no meaning in this trainer; write 1 or leave the key out");
    assert_snapshot!(refused("train_worker_cfg.fsdp_cfg.torch_compile=true"), @"error: recipe [DIR]/sums.toml with --set: train_worker_cfg.fsdp_cfg.torch_compile: true has no meaning in this trainer; write false or leave the key out");
    assert_snapshot!(refused("agent_loop_manager_cfg.tasks.0.sampler_config.dataloader_cfg.pack_level=soft"), @r#"error: recipe [DIR]/sums.toml with --set: agent_loop_manager_cfg.tasks.*.sampler_config.dataloader_cfg.pack_level: "soft" has no meaning in this trainer; write "none" or leave the key out"#);
}

#[test]
fn an_unknown_key_is_answered_with_the_nearest_or_with_all() {
    assert_snapshot!(refused("checkpoint_intervall=5"), @"error: recipe [DIR]/sums.toml with --set: there is no key checkpoint_intervall; did you mean checkpoint_interval?");
    assert_snapshot!(refused("agent_loop_manager_cfg.tasks.0.task_nmae=x"), @"error: recipe [DIR]/sums.toml with --set: there is no key agent_loop_manager_cfg.tasks[0].task_nmae; did you mean task_name?");
    assert_snapshot!(refused("train_worker_cfg.optim_cfg.momentum=0.9"), @"error: recipe [DIR]/sums.toml with --set: there is no key train_worker_cfg.optim_cfg.momentum; the keys of train_worker_cfg.optim_cfg are lr, weight_decay, betas, eps, max_grad_norm, skip_grad_norm_threshold, on_non_finite");
    assert_snapshot!(refused("train_worker_cfg.lr_cfg.lr_type=cosin"), @r#"error: recipe [DIR]/sums.toml with --set: train_worker_cfg.lr_cfg.lr_type is "cosin"; did you mean cosine?"#);
}

#[test]
fn a_wrong_type_is_said_in_plain_words() {
    assert_snapshot!(refused("seed=-1"), @"error: recipe [DIR]/sums.toml with --set: seed is the number -1: write a whole number, 0 or more");
    assert_snapshot!(refused("auto_resume=yes"), @r#"error: recipe [DIR]/sums.toml with --set: auto_resume is the string "yes": write true or false"#);
    assert_snapshot!(refused("total_train_steps=1.5"), @"error: recipe [DIR]/sums.toml with --set: total_train_steps is the number 1.5: write a whole number, 0 or more");
    assert_snapshot!(refused("train_worker_cfg.optim_cfg.betas=0.9"), @"error: recipe [DIR]/sums.toml with --set: train_worker_cfg.optim_cfg.betas is the number 0.9: write a list of two numbers, as in [0.9, 0.95]");
    assert_snapshot!(refused("train_worker_cfg=3"), @"error: recipe [DIR]/sums.toml with --set: train_worker_cfg is the number 3: write a table of keys");
    assert_snapshot!(refused("agent_loop_manager_cfg.tasks=3"), @"error: recipe [DIR]/sums.toml with --set: agent_loop_manager_cfg.tasks is the number 3: write a task or a list of tasks");
}

#[test]
fn faults_of_values_come_all_at_once() {
    let dir = folder(RECIPE);
    let sets = ["train_batch_size=0", "train_worker_cfg.optim_cfg.lr=-1", "evaluate_step=0"];
    let args: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let error = complaint(&load(dir.path(), &args).unwrap_err());
    assert_snapshot!(error.replace(&dir.path().display().to_string(), "[DIR]"), @"
    error: recipe [DIR]/sums.toml with --set:
      train_batch_size is 0: write the number of groups a step trains on
      evaluate_step is 0: write a positive number, or enable_evaluate = false
      train_worker_cfg.optim_cfg.lr is -1: write 0 or a positive number, such as 1e-5
    ");
}
