//! The colocated manager on real prompts and a scripted engine.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails like the test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use piton_agent::{
    AgentLoopManagerConfig, BoxError, BoxFuture, ColocateManager, FinishReason, GenerateRequest, Generation,
    ManagerContext, ProduceOutcome, Produced, Reward, RolloutController, Tokenizers,
};
use serde_json::json;

/// What the engine does with one request.
type Script = fn(&GenerateRequest) -> Answer;

enum Answer {
    After(Duration),
    Fail(&'static str),
    /// Goes on until the engine is paused.
    Never,
}

struct Engine {
    script: Script,
    paused: AtomicBool,
}

impl RolloutController for Engine {
    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Generation, BoxError>> {
        Box::pin(async move {
            let finish_reason = match (self.script)(&request) {
                Answer::Fail(why) => return Err(why.into()),
                Answer::After(time) => {
                    tokio::time::sleep(time).await;
                    FinishReason::Stop
                }
                Answer::Never => {
                    while !self.paused.load(Ordering::Relaxed) {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    FinishReason::Abort
                }
            };
            Ok(Generation {
                response: request.rollout_id.to_string(),
                response_ids: vec![1],
                logprobs: vec![0.0],
                model_steps: vec![0],
                finish_reason,
                reward: Some(Reward::new(1.0)),
            })
        })
    }

    fn pause_generation(&self) -> Result<(), BoxError> {
        self.paused.store(true, Ordering::Relaxed);
        Ok(())
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Two samples a prompt, on 256 prompts.
fn manager(script: Script) -> ColocateManager {
    let config: AgentLoopManagerConfig = serde_json::from_value(json!({ "tasks": {
        "task_name": "sums",
        "agent_loop_config": { "type": "single_turn" },
        "sampler_config": { "prompt_repeat_k": 2, "dataloader_cfg": { "dataset_config_list": [
            { "dataset": { "anno_path": fixtures().join("prompts/chain_sum/heldout.jsonl") } },
        ] } },
    } }))
    .unwrap();
    let context = ManagerContext {
        rollout: Arc::new(Engine { script, paused: AtomicBool::new(false) }),
        tokenizer_path: &fixtures().join("models/chain-sum"),
        seed: 42,
        group_timeout: Duration::from_secs(60),
    };
    ColocateManager::build(&config, &context, &mut Tokenizers::default()).unwrap()
}

fn batch(outcome: ProduceOutcome) -> Produced {
    match outcome {
        ProduceOutcome::Batch(produced) => produced,
        ProduceOutcome::Stopped => panic!("nobody stopped it"),
    }
}

fn ids(produced: &Produced) -> Vec<u64> {
    produced.groups.iter().map(|group| group.prompt.group_id).collect()
}

fn at_once(_: &GenerateRequest) -> Answer {
    Answer::After(Duration::ZERO)
}

#[test]
fn a_failed_group_is_replaced_by_the_next_prompt() {
    // One of the two samples failing is enough to lose the group.
    let mut manager = manager(|request| match (request.group_id, request.index) {
        (1, 0) | (3, 1) => Answer::Fail("out of memory"),
        _ => Answer::After(Duration::ZERO),
    });
    let produced = batch(manager.produce_batch(4, 1, &|| false).unwrap());
    assert_eq!(ids(&produced), [0, 2, 4, 5]);
    assert_eq!(produced.stats.failed_groups, 2);
    assert_snapshot!(produced.stats.last_failure.unwrap(), @"generating sample 7 failed: out of memory");
    assert_eq!(ids(&batch(manager.produce_batch(2, 2, &|| false).unwrap())), [6, 7], "no id comes twice");
}

#[test]
fn the_order_of_a_batch_does_not_depend_on_what_finishes_first() {
    let mut quick = manager(at_once);
    // The first prompts finish last, and of each group the second sample before the first.
    let mut uneven = manager(|request| {
        Answer::After(Duration::from_millis(40 - 10 * request.group_id.min(3) - 5 * request.index))
    });
    let (quick_batch, uneven_batch) =
        (quick.produce_batch(4, 1, &|| false), uneven.produce_batch(4, 1, &|| false));
    assert_eq!(batch(quick_batch.unwrap()).groups, batch(uneven_batch.unwrap()).groups);
    assert_eq!(quick.state(), uneven.state());
}

#[test]
fn a_restored_manager_goes_on_with_the_prompts_that_would_have_come() {
    let mut whole = manager(at_once);
    batch(whole.produce_batch(3, 1, &|| false).unwrap());
    let saved = whole.state();
    let expected = batch(whole.produce_batch(3, 2, &|| false).unwrap());

    let mut resumed = manager(at_once);
    resumed.restore(saved).unwrap();
    let produced = batch(resumed.produce_batch(3, 2, &|| false).unwrap());
    assert_eq!(ids(&produced), [3, 4, 5]);
    assert_eq!(produced.groups, expected.groups);
}

#[test]
fn failing_without_end_is_an_error_that_names_the_last_cause() {
    let mut manager = manager(|_| Answer::Fail("the engine is gone"));
    let error = manager.produce_batch(4, 1, &|| false).unwrap_err();
    assert_snapshot!(error, @r#"task "sums": 16 groups failed one after the other; the last one: generating sample 30 failed: the engine is gone"#);
}

#[test]
fn a_stop_during_production_is_answered_within_a_second() {
    let mut manager = manager(|_| Answer::Never);
    let started = Instant::now();
    let outcome = manager.produce_batch(4, 1, &|| started.elapsed() > Duration::from_millis(50)).unwrap();
    assert!(matches!(outcome, ProduceOutcome::Stopped));
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}

#[test]
fn an_evaluation_replaces_nothing_and_counts_what_failed() {
    let manager = manager(|request| match request.group_id % 4 {
        1 => Answer::Fail("out of memory"),
        _ => Answer::After(Duration::ZERO),
    });
    let before = manager.state();
    let produced = batch(manager.evaluate(Some(8), &|| false).unwrap());
    assert_eq!(ids(&produced), [0, 2, 3, 4, 6, 7]);
    assert_eq!(produced.stats.failed_groups, 2);
    assert_eq!(manager.state(), before, "an evaluation draws no training prompt");
}

#[test]
fn every_fault_of_the_tasks_is_reported_at_once() {
    let config: AgentLoopManagerConfig = serde_json::from_value(json!({ "tasks": [
        {
            "task_name": "a/b",
            "weight": -1.0,
            "agent_loop_config": { "type": "single_turn", "sample_params": { "max_tokens": 0 } },
            "judger_config": { "type": "rule", "request_timeout": -1.0 },
            "sampler_config": { "prompt_repeat_k": 0, "dataloader_cfg": { "dataset_config_list": [] } },
        },
    ] }))
    .unwrap();
    assert_snapshot!(config.check().unwrap_err().join("\n"), @r#"
    tasks[0].task_name is "a/b": write letters, digits, '-', '_' or '.', since it names a directory
    tasks[0].weight is -1: write 0 or a positive number
    tasks[0].sampler_config.prompt_repeat_k is 0: write the group size, at least 1
    tasks[0].sampler_config.dataloader_cfg.dataset_config_list is empty: name at least one file
    tasks[0].judger_config.request_timeout is -1: write a number of seconds above 0, such as 30
    tasks[0].agent_loop_config.sample_params.max_tokens is 0: write the number of tokens a response may have
    the weights of all tasks sum to 0: give at least one task a positive weight
    "#);
}
