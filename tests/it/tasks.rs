//! Several tasks in one run, on the prompts of three tasks of `reasoning-gym`.

use std::collections::BTreeMap;

use piton_tests::{SmallRun, fixtures};
use piton_trainer::RunContext;
use serde_json::{Value, json};

fn task(name: &str, weight: f64) -> Value {
    json!({
        "task_name": name,
        "weight": weight,
        "agent_loop_config": {"type": "single_turn"},
        "sampler_config": {
            "prompt_repeat_k": 2,
            "dataloader_cfg": {"dataset_config_list": [
                {"dataset": {"anno_path": fixtures().join(format!("prompts/{name}/train.jsonl"))}},
            ]},
        },
    })
}

fn run(run: &SmallRun, steps: u64, auto_resume: bool) -> Vec<Vec<(String, u64)>> {
    let mut config = run.config_json(steps, auto_resume);
    config["train_batch_size"] = json!(4);
    config["agent_loop_manager_cfg"]["tasks"] =
        json!([task("chain_sum", 2.0), task("spell_backward", 1.0), task("letter_counting", 1.0)]);
    let (mut trainer, _) = run.build(SmallRun::config(config), RunContext::default()).unwrap();
    trainer.fit().unwrap();
    (1..=steps)
        .map(|step| {
            let path = trainer.exp_dir().join(format!("train_rollout/train_rollout_{step}.jsonl"));
            let text = std::fs::read_to_string(path).unwrap();
            let samples = text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
            samples
                .map(|sample| {
                    let task = sample["task_name"].as_str().unwrap().to_owned();
                    (task, sample["group_id"].as_u64().unwrap())
                })
                .collect()
        })
        .collect()
}

#[test]
fn a_batch_is_shared_out_by_weight_and_every_task_goes_on_after_a_resume() {
    let whole = SmallRun::new();
    let at_once = run(&whole, 6, false);
    let resumed = SmallRun::new();
    run(&resumed, 2, false);
    assert_eq!(run(&resumed, 6, true), at_once);

    let mut groups: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (task, group) in at_once.iter().flatten() {
        groups.entry(task).or_default().push(*group);
    }
    // Two samples a group; weights 2:1:1 of four groups a step; ids count on, step after step.
    let twice = |upto: u64| (0..upto).flat_map(|group| [group, group]).collect::<Vec<_>>();
    assert_eq!(groups["chain_sum"], twice(12));
    assert_eq!(groups["spell_backward"], twice(6));
    assert_eq!(groups["letter_counting"], twice(6));
}
