//! What a user is told when something that he gave cannot be used.
//!
//! Each start goes on with a run that has a checkpoint; [`Started::refused`] holds that nothing of it changes.

use std::path::{Path, PathBuf};
use std::process::Command;

use insta::assert_snapshot;
use piton_tests::{fixtures, program};
use serde_json::Value;

use crate::start::{DATASET, Started, trainer};

const ROW: &str = r#"{"data_source":"unit","prompt":[{"role":"user","content":"1 + 1 ="}],"reward_model":{"style":"rule","ground_truth":"2"},"extra_info":{"index":0}}"#;

/// Two good rows with a bad one between them.
fn with(line: impl AsRef<[u8]>) -> Vec<u8> {
    [ROW.as_bytes(), b"\n", line.as_ref(), b"\n", ROW.as_bytes(), b"\n"].concat()
}

#[test]
fn a_malformed_line_is_named() {
    let run = Started::new();
    assert_snapshot!(run.refuses_prompts(with("{'prompt': 1}")), @r#"
    error: task "chain_sum": cannot use the prompts in [DIR]/prompts.jsonl: 1 fault
      line 2, column 2: found text that is not JSON (key must be a string), expected a JSON object; write keys and strings in double quotes: a Python dict is not JSON, use json.dumps
    "#);
    assert_snapshot!(run.refuses_prompts(with(&ROW[..40])), @r#"
    error: task "chain_sum": cannot use the prompts in [DIR]/prompts.jsonl: 1 fault
      line 2, column 40: found the end of the line (EOF while parsing a value), expected the rest of a JSON object; complete the line, or delete it: was the file cut while it was written?
    "#);
    assert_snapshot!(run.refuses_prompts(with("[]")), @r#"
    error: task "chain_sum": cannot use the prompts in [DIR]/prompts.jsonl: 1 fault
      line 2: found an array, expected a JSON object; write a row such as {"data_source": "chain_sum", "prompt": [{"role": "user", "content": "1 + 1 ="}], "reward_model": {"style": "rule", "ground_truth": "2"}}
    "#);
    assert_snapshot!(run.refuses_prompts(with("null")), @r#"
    error: task "chain_sum": cannot use the prompts in [DIR]/prompts.jsonl: 1 fault
      line 2: found null, expected a JSON object; write a row such as {"data_source": "chain_sum", "prompt": [{"role": "user", "content": "1 + 1 ="}], "reward_model": {"style": "rule", "ground_truth": "2"}}
    "#);
    assert_snapshot!(run.refuses_prompts(with(ROW.replace(r#""data_source":"unit","#, ""))), @r#"
    error: task "chain_sum": cannot use the prompts in [DIR]/prompts.jsonl: 1 fault
      line 2, data_source: found no such key, expected a string; name the source, for example "chain_sum"
    "#);
    assert_snapshot!(run.refuses_prompts(with(ROW.replace(r#""1 + 1 =""#, "2"))), @r#"
    error: task "chain_sum": cannot use the prompts in [DIR]/prompts.jsonl: 1 fault
      line 2, prompt[0].content: found a number, expected a string; write the text of the message
    "#);
    assert_snapshot!(run.refuses_prompts(with(b"{\"data_source\":\"caf\xE9\"}")), @r#"
    error: task "chain_sum": cannot use the prompts in [DIR]/prompts.jsonl: 1 fault
      line 2, column 20: found byte 0xE9, which is not UTF-8, expected UTF-8 text; save the file as UTF-8
    "#);
    assert_snapshot!(run.refuses_prompts(with(ROW.replace("1 + 1", r"\ud83d"))), @r#"
    error: task "chain_sum": cannot use the prompts in [DIR]/prompts.jsonl: 1 fault
      line 2, column 65: found half of a surrogate pair, expected a JSON object; write both halves, as in \ud83d\ude00, or the character itself
    "#);
    assert_snapshot!(run.refuses_prompts(format!("\u{feff}{ROW}\n")), @r#"
    error: task "chain_sum": cannot use the prompts in [DIR]/prompts.jsonl: 1 fault
      line 1, column 1: found a byte order mark (EF BB BF), expected a JSON object; save the file as UTF-8 without BOM, or remove it with: sed -i '1s/^\xEF\xBB\xBF//' FILE
    "#);
}

#[test]
fn prompts_that_do_not_make_a_batch_are_refused() {
    let run = Started::new();
    assert_snapshot!(run.refuses_prompts(""), @r#"error: task "chain_sum": no prompts in [DIR]/prompts.jsonl: found an empty file, expected one JSON object a line; check how the file was made"#);
    assert_snapshot!(run.refuses_prompts(format!("{ROW}\n")), @"error: train_batch_size is 2, more than the usable prompts of all tasks together (1): write at most 1, or add prompts");
    assert_snapshot!(run.refuses_set(&format!("{DATASET}.tokenize_fn.max_length=3")), @r#"error: task "chain_sum": no prompts left of [FIXTURES]/recipes/../prompts/chain_sum/train.jsonl: all 4096 are longer than max_length = 3 tokens; the shortest has 13, so raise max_length to at least that"#);
    let short = format!("{DATASET}.tokenize_fn.max_length=15");
    let strict = format!("{DATASET}.dataset.disable_filter=true");
    let fresh = run.dir.path().join("fresh");
    assert_snapshot!(run.refused_in(&fresh, &["--set", &short, "--set", &strict]), @r#"error: task "chain_sum": 2674 of 4096 prompts in [FIXTURES]/recipes/../prompts/chain_sum/train.jsonl are longer than tokenize_fn.max_length, and disable_filter is true: raise max_length, or leave disable_filter out to skip them"#);
    let nowhere = run.dir.path().join("nowhere.jsonl");
    assert_snapshot!(run.refuses_set(&format!("{DATASET}.dataset.anno_path={}", nowhere.display())), @r#"error: task "chain_sum": cannot read [DIR]/nowhere.jsonl: No such file or directory (os error 2); check that the file exists and may be read"#);
}

#[test]
fn a_key_that_means_nothing_is_named() {
    let run = Started::new();
    assert_snapshot!(run.refuses_set("train_worker_cfg.optim_cfg.learning_rate=1e-4"), @"error: recipe [FIXTURES]/recipes/chain-sum.toml with --set: there is no key train_worker_cfg.optim_cfg.learning_rate; the keys of train_worker_cfg.optim_cfg are lr, weight_decay, betas, eps, max_grad_norm, skip_grad_norm_threshold, on_non_finite");
    assert_snapshot!(run.refuses_set("checkpoint_intervall=5"), @"error: recipe [FIXTURES]/recipes/chain-sum.toml with --set: there is no key checkpoint_intervall; did you mean checkpoint_interval?");
    assert_snapshot!(run.refuses_set("total_train_steps=many"), @r#"error: recipe [FIXTURES]/recipes/chain-sum.toml with --set: total_train_steps is the string "many": write a whole number, 0 or more"#);
    assert_snapshot!(run.refuses_set("train_worker_cfg.optim_cfg.betas=0.9"), @"error: recipe [FIXTURES]/recipes/chain-sum.toml with --set: train_worker_cfg.optim_cfg.betas is the number 0.9: write a list of two numbers, as in [0.9, 0.95]");
    assert_snapshot!(run.refuses_set("train_worker_cfg.loss_cfg.policy_loss_cfg.loss_type=gspo"), @r#"error: recipe [FIXTURES]/recipes/chain-sum.toml with --set: train_worker_cfg.loss_cfg.policy_loss_cfg.loss_type is "gspo"; write vanilla"#);
    assert_snapshot!(run.refuses_set("rollout_config.tensor_parallel_size=2"), @"error: recipe [FIXTURES]/recipes/chain-sum.toml with --set: rollout_config.tensor_parallel_size: 2 has no meaning in this trainer; write 1 or leave the key out");
    assert_snapshot!(run.refuses_set("seed"), @"error: --set seed: write KEY=VALUE, for example --set seed=7");
    assert_snapshot!(run.refuses_set("seed.more=1"), @"error: --set seed.more=1: seed is a value (42), not a table; write --set seed=VALUE");
}

#[test]
fn a_value_that_means_nothing_is_named() {
    let run = Started::new();
    assert_snapshot!(run.refused(&["--set", "sync_weights_interval=2", "--set", "checkpoint_interval=5"]), @"
    error: recipe [FIXTURES]/recipes/chain-sum.toml with --set:
      checkpoint_interval is 5, not a multiple of sync_weights_interval (2): write 4 or 6
    ");
    assert_snapshot!(run.refuses_set("checkpoint_maxkeep=0"), @r#"error: recipe [FIXTURES]/recipes/chain-sum.toml with --set: checkpoint_maxkeep: 0 checkpoints cannot be kept: write "all" to keep every one, or a positive number"#);
    assert_snapshot!(run.refuses_set("checkpoint_maxkeep=-1"), @r#"error: recipe [FIXTURES]/recipes/chain-sum.toml with --set: checkpoint_maxkeep: -1 checkpoints cannot be kept: write "all" to keep every one, or a positive number"#);
    assert_snapshot!(run.refuses_set("checkpoint_interval=0"), @"error: recipe [FIXTURES]/recipes/chain-sum.toml with --set: checkpoint_interval: 0 is not an interval: write a positive number of steps, or -1 (or leave the key out) for never");
    assert_snapshot!(run.refuses_set("train_worker_cfg.optim_cfg.lr=-1e-4"), @"
    error: recipe [FIXTURES]/recipes/chain-sum.toml with --set:
      train_worker_cfg.optim_cfg.lr is -0.0001: write 0 or a positive number, such as 1e-5
    ");
    assert_snapshot!(run.refuses_set("agent_loop_manager_cfg.tasks.agent_loop_config.sample_params.max_tokens=0"), @"
    error: recipe [FIXTURES]/recipes/chain-sum.toml with --set:
      agent_loop_manager_cfg.tasks[0].agent_loop_config.sample_params.max_tokens is 0: write the number of tokens a response may have
    ");
    let fresh = run.dir.path().join("fresh");
    assert_snapshot!(run.refused_in(&fresh, &["--set", "train_worker_cfg.pack_max_length=20"]), @r#"
    error: configuration:
      train_worker_cfg.pack_max_length is 20, and a sample of task "chain_sum" may have 25 tokens (a prompt of 17, a response of 8): write at least 25, or lower sample_params.max_tokens or tokenize_fn.max_length
    "#);
    assert_snapshot!(run.refused_in(&fresh, &["--set", "rollout_config.context_length=10"]), @r#"
    error: configuration:
      rollout_config.context_length is 10, and the longest prompt of task "chain_sum" has 17 tokens: write at least 18, or leave long prompts out with tokenize_fn.max_length
    "#);
    assert!(!fresh.exists(), "a run that cannot start leaves no directory");
    assert_snapshot!(run.refuses_set("rollout_config.context_length=4096"), @"
    error: configuration:
      rollout_config.context_length is 4096: write 1 to 256, the model's max_position_embeddings, or leave the key out
    ");
    assert_snapshot!(run.refuses_set("device=gpu"), @r#"
    error: configuration:
      device is "gpu": write "cpu" or "cuda:N", such as "cuda:0"
    "#);
    assert_snapshot!(run.refuses_set("train_worker_cfg.loss_cfg.policy_loss_cfg.cliprange_low=0.3"), @"
    error: the configuration differs from the one this run was started with in what a resume cannot change:
      train_worker_cfg.loss_cfg.policy_loss_cfg.cliprange_low: 0.2 in the run, 0.3 now
    start a new run (another work_dir, or without auto_resume), set these keys back, or, for what alters the course of training only, allow the change by name (allow_change, --allow-change KEY)
    ");
}

#[test]
fn a_recipe_that_cannot_be_read_is_named() {
    let run = Started::new();
    let recipe = |recipe: &str| {
        let output = Command::new(program("piton-llm"))
            .args(["train", recipe])
            .current_dir(run.dir.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(std::fs::read_dir(run.dir.path()).unwrap().count(), 1, "no directory is made");
        run.readable(&String::from_utf8(output.stderr).unwrap())
    };
    assert_snapshot!(recipe("chain-sun"), @r#"error: there is no recipe named "chain-sun": write one of: chain-sum; or the path of a TOML file"#);
    assert_snapshot!(recipe("no/such.toml"), @"error: there is no recipe file no/such.toml: write the path of a TOML file, or one of: chain-sum");
    let path = run.work_dir().join("recipe.toml");
    std::fs::write(&path, "load_from = \"model\"\ntrain_batch_size: 2\n").unwrap();
    assert_snapshot!(recipe("work/recipe.toml"), @"
    error: recipe work/recipe.toml is not valid TOML: TOML parse error at line 2, column 19
      |
    2 | train_batch_size: 2
      |                   ^
    key with no value, expected `=`
    ");
    std::fs::write(&path, "load_from = \"model\"\n").unwrap();
    assert_snapshot!(recipe("work/recipe.toml"), @"error: recipe work/recipe.toml: train_batch_size is missing: write it");
}

#[test]
fn a_model_that_does_not_fit_is_named() {
    let run = Started::new();
    let model = |edit: &dyn Fn(&Path)| {
        let dir = run.dir.path().join("model");
        copy_model(&dir);
        edit(&dir);
        run.refused(&["--set", &format!("load_from={}", dir.display())])
    };
    assert_snapshot!(run.refuses_set(&format!("load_from={}", run.dir.path().join("nowhere").display())), @"error: recipe [FIXTURES]/recipes/chain-sum.toml with --set: load_from is [DIR]/nowhere, which is not a directory: write the path of a Hugging Face model, with config.json, model.safetensors and tokenizer.json in it");
    assert_snapshot!(model(&|dir| std::fs::remove_file(dir.join("config.json")).unwrap()), @"error: recipe [FIXTURES]/recipes/chain-sum.toml with --set: load_from is [DIR]/model, which has no config.json: put it there, or write another path");
    assert_snapshot!(model(&|dir| std::fs::remove_file(dir.join("model.safetensors")).unwrap()), @"error: recipe [FIXTURES]/recipes/chain-sum.toml with --set: load_from is [DIR]/model, which has no model.safetensors and no model.safetensors.index.json: put it there, or write another path");
    assert_snapshot!(model(&|dir| std::fs::remove_file(dir.join("tokenizer.json")).unwrap()), @"error: recipe [FIXTURES]/recipes/chain-sum.toml with --set: load_from is [DIR]/model, which has no tokenizer.json: put it there, or write another path");
    assert_snapshot!(model(&|dir| edit_tensors(dir, |header| {
        header.as_object_mut().unwrap().remove("model.norm.weight").unwrap();
    })), @"
    error: [DIR]/model: the weights do not fit the configuration:
      missing model.norm.weight: expected shape [128]
    ");
    assert_snapshot!(model(&|dir| edit_tensors(dir, |header| {
        header["model.layers.0.mlp.up_proj.weight"]["shape"].as_array_mut().unwrap().reverse();
    })), @"
    error: [DIR]/model: the weights do not fit the configuration:
      mis-shaped model.layers.0.mlp.up_proj.weight: expected [256, 128], found [128, 256]
    ");
    assert_snapshot!(model(&|dir| {
        let file = std::fs::OpenOptions::new().write(true).open(dir.join("model.safetensors")).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    }), @"error: [DIR]/model/model.safetensors: not a valid safetensors file: incomplete metadata, file not fully covered; copy or download it again");
    assert_snapshot!(model(&|dir| std::fs::write(dir.join("model.safetensors"), "").unwrap()), @"error: [DIR]/model/model.safetensors: not a valid safetensors file: header too small; copy or download it again");
    assert_snapshot!(model(&|dir| {
        let rows = 100;
        edit_json(&dir.join("config.json"), |config| config["vocab_size"] = rows.into());
        edit_tensors(dir, |header| {
            let embedding = &mut header["model.embed_tokens.weight"];
            let [start, width] = [&embedding["data_offsets"][0], &embedding["shape"][1]].map(|n| n.as_u64().unwrap());
            embedding["shape"][0] = rows.into();
            embedding["data_offsets"][1] = (start + 4 * rows * width).into();
        });
    }), @"error: the tokenizer can produce ids up to 324, but the model has 100 embedding rows (ids 0 to 99); use the tokenizer the model was made with, or a model with vocab_size of at least 325");
}

#[test]
fn a_work_dir_that_cannot_be_written_is_named() {
    let run = Started::new();
    let file = run.prompts("not a directory");
    assert_snapshot!(run.refused_in::<&str>(&file.join("work"), &[]), @"error: cannot create folder `[DIR]/prompts.jsonl`: File exists (os error 17); a file is in the way: rename it or choose another work_dir");
}

#[test]
fn a_disk_that_takes_no_more_leaves_the_checkpoints() {
    // Room for the first checkpoint of 6 MB, not for the second.
    let full = on_a_disk_of_9_mb("");
    let Some(full) = full else { return };
    let machine = [
        (r"\d{14}", "[EXP]"),
        (r"/\.tmp-[^/ ]+", "/[STAGE]"),
        (r"\d+ bytes, \d+ free", "[N] bytes, [N] free"),
    ];
    insta::with_settings!({filters => machine}, {
        assert_snapshot!(full, @"error: saving step 3 failed; the checkpoints before it stand: create [DIR]/run/[EXP]/checkpoints/[STAGE] failed: no space left on device: needed [N] bytes, [N] free; make room (the earlier checkpoints are intact)");
    });
    let read_only = on_a_disk_of_9_mb("mount -o remount,ro $disk").unwrap();
    assert_snapshot!(read_only, @"error: cannot open lock `[DIR]/run/run.lock`: Read-only file system (os error 30); choose a work_dir that this user can write");
}

/// What is said when a run on a small disk is resumed after `change`; `None` where a test may not mount one.
fn on_a_disk_of_9_mb(change: &str) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        r#"
        disk=$1; shift
        mount -t tmpfs -o size=9m tmpfs $disk || exit 77
        "$@" >/dev/null 2>&1 || exit 78
        checkpoints() {{ find $disk -type f -path '*/ckpt-step-*' -exec sha256sum {{}} + | sort; }}
        before=$(checkpoints)
        {change}
        "$@" --set total_train_steps=3; code=$?
        test "$before" = "$(checkpoints)" || exit 79
        exit $code
        "#
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]).arg(dir.path());
    let trainer = trainer(&dir.path().join("run"));
    let output = command.arg(trainer.get_program()).args(trainer.get_args()).output().ok()?;
    let stderr = String::from_utf8(output.stderr).unwrap();
    if output.status.code() == Some(77) || stderr.starts_with("unshare: ") {
        say(&format!("skipped: this machine lets a test mount no disk of its own: {stderr}"));
        return None;
    }
    assert_eq!(output.status.code(), Some(1), "78: no first run; 79: a checkpoint changed: {stderr}");
    let said = stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or(&stderr);
    Some(said.replace(&dir.path().display().to_string(), "[DIR]"))
}

#[test]
fn what_only_looks_wrong_is_taken() {
    let run = Started::new();
    let rows = format!("{ROW}\r\n{ROW}\r\n");
    let crlf = format!("{DATASET}.dataset.anno_path={}", run.prompts(rows).display());
    for set in [&*crlf, "train_worker_cfg.optim_cfg.lr=0"] {
        let fresh = run.dir.path().join("fresh");
        let output = trainer(&fresh).args(["--set", set]).output().unwrap();
        assert!(output.status.success(), "{set}: {}", String::from_utf8_lossy(&output.stderr));
        std::fs::remove_dir_all(fresh).unwrap();
    }
}

#[expect(clippy::print_stderr, reason = "a test that cannot run says so")]
fn say(text: &str) {
    eprintln!("{text}");
}

/// The model of the fixtures, in a directory of its own.
fn copy_model(dir: &Path) {
    if dir.exists() {
        std::fs::remove_dir_all(dir).unwrap();
    }
    std::fs::create_dir(dir).unwrap();
    for entry in std::fs::read_dir(fixtures().join("models/chain-sum")).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        std::fs::copy(&path, dir.join(path.file_name().unwrap())).unwrap();
    }
}

fn edit_json(path: &Path, edit: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    edit(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}

/// Changes the header of a safetensors file: names, types, shapes and places; the data moves up where a tensor is gone.
fn edit_tensors(dir: &Path, edit: impl FnOnce(&mut Value)) {
    let path = dir.join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let (header, data) = bytes[8..].split_at(usize::try_from(length).unwrap());
    let mut header: Value = serde_json::from_slice(header).unwrap();
    edit(&mut header);
    let mut kept = Vec::new();
    for (name, tensor) in header.as_object_mut().unwrap() {
        if name == "__metadata__" {
            continue;
        }
        let offset = |index: usize| usize::try_from(tensor["data_offsets"][index].as_u64().unwrap()).unwrap();
        let (start, end) = (offset(0), offset(1));
        tensor["data_offsets"] = vec![kept.len(), kept.len() + end - start].into();
        kept.extend_from_slice(&data[start..end]);
    }
    let header = header.to_string();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &kept].concat();
    std::fs::write(path, file).unwrap();
}
