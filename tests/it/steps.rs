//! What a step does when: publishing, evaluating, exporting.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use insta::assert_snapshot;
use piton_agent::{
    BoxError, BoxFuture, FinishReason, GenerateRequest, Generation, Reward, RolloutController,
};
use piton_checkpoint::Stage;
use piton_tests::SmallRun;
use piton_trainer::{
    Controllers, FitContext, FitOutcome, ResumeRequest, RunContext, SaveRequest, TrainController, TrainSample,
};
use serde_json::{Value, json};

/// Learner and engine in one: the engine holds the version of the weights that was published last.
#[derive(Clone, Default)]
struct Pair {
    published: Arc<AtomicU64>,
    /// The step whose export fails; 0 for none.
    fails_export_at: u64,
    step: u64,
}

impl RolloutController for Pair {
    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Generation, BoxError>> {
        Box::pin(async move {
            // Every fourth prompt of an evaluation fails, the others are right in the first sample.
            let is_eval = &*request.task == "held_out";
            if is_eval && request.group_id % 4 == 3 {
                return Err("out of memory".into());
            }
            Ok(Generation {
                response: "ok".to_owned(),
                response_ids: vec![100],
                logprobs: vec![-0.5],
                model_steps: vec![self.published.load(Ordering::Relaxed)],
                finish_reason: FinishReason::Stop,
                reward: Some(Reward::new(if request.index == 0 { 1.0 } else { 0.0 })),
            })
        })
    }
}

impl TrainController for Pair {
    fn fit(&mut self, _: &[TrainSample], context: FitContext<'_>) -> Result<FitOutcome, BoxError> {
        self.step = context.step;
        Ok(FitOutcome::Trained([].into()))
    }

    fn save(&mut self, stage: &mut Stage, _: SaveRequest) -> Result<(), BoxError> {
        Ok(stage.write("weights.txt", b"")?)
    }

    fn resume(&mut self, request: ResumeRequest<'_>) -> Result<(), BoxError> {
        self.published.store(request.model_step, Ordering::Relaxed);
        Ok(())
    }

    fn save_hf(&mut self, dir: &Path) -> Result<(), BoxError> {
        std::fs::write(dir.join("config.json"), self.step.to_string())?;
        if self.step == self.fails_export_at { Err("the disk is gone".into()) } else { Ok(()) }
    }

    fn update_weights(&mut self, model_step: u64) -> Result<(), BoxError> {
        self.published.store(model_step, Ordering::Relaxed);
        Ok(())
    }
}

/// Runs a configuration to its end on `pair`; gives the experiment.
fn fit(config: Value, pair: Pair) -> Result<PathBuf, (String, PathBuf)> {
    let controllers = Controllers { train: Box::new(pair.clone()), rollout: Arc::new(pair) };
    let mut trainer = SmallRun::config(config).build_with(controllers, RunContext::default()).unwrap();
    trainer.fit().map(|_| trainer.exp_dir()).map_err(|error| (error.to_string(), trainer.exp_dir()))
}

fn with(mut config: Value, keys: Value) -> Value {
    config.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    config
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn weights_are_published_every_sync_interval() {
    let run = SmallRun::new();
    let keys = json!({ "sync_weights_interval": 2, "checkpoint_interval": 2 });
    let pairs = |exp_dir: &Path, steps: std::ops::RangeInclusive<u64>| -> Vec<(u64, u64)> {
        let generated_by = |step: u64| {
            let samples = lines(&exp_dir.join(format!("train_rollout/train_rollout_{step}.jsonl")));
            samples[1]["response_model_steps"][0].as_u64().unwrap()
        };
        steps.map(|step| (step, generated_by(step))).collect()
    };
    let exp_dir = fit(with(run.config_json(3, false), keys.clone()), Pair::default()).unwrap();
    assert_eq!(pairs(&exp_dir, 1..=3), [(1, 0), (2, 0), (3, 2)]);

    // The last checkpoint lies off the interval: the engine goes on with the weights of step 2.
    let exp_dir = fit(with(run.config_json(5, true), keys), Pair::default()).unwrap();
    assert_eq!(pairs(&exp_dir, 1..=5), [(1, 0), (2, 0), (3, 2), (4, 2), (5, 4)]);
}

#[test]
fn each_evaluation_happens_once_however_often_the_run_is_resumed() {
    let run = SmallRun::new();
    let config = |steps, resume| {
        let mut config = run.config_json(steps, resume);
        let mut task = config["agent_loop_manager_cfg"].clone();
        task["tasks"][0]["task_name"] = "held_out".into();
        config = with(
            config,
            json!({ "enable_evaluate": true, "enable_initial_evaluate": true, "evaluate_step": 2 }),
        );
        with(config, json!({ "eval_agent_loop_manager_cfg": task }))
    };
    fit(config(1, false), Pair::default()).unwrap();
    fit(config(3, true), Pair::default()).unwrap();
    let exp_dir = fit(config(4, true), Pair::default()).unwrap();
    let tracker = lines(&exp_dir.join("logs/exp_tracking/tracker.jsonl"));
    let evaluated: Vec<(u64, bool)> = tracker
        .iter()
        .map(|line| (line["step"].as_u64().unwrap(), line.get("eval/accuracy").is_some()))
        .collect();
    // Steps 1 and 3 were the last of their runs; 0 is before the first.
    assert_eq!(evaluated, [(0, true), (1, true), (2, true), (3, true), (4, true)]);

    // Eight prompts, two samples each: the first sample of six prompts is right, two prompts fail and count as wrong.
    let last = &tracker[4];
    assert_eq!(last["eval/accuracy"], json!(6.0 / 16.0));
    assert_eq!(last["eval/failed_samples"], json!(4.0));
    assert_eq!(last["eval/pass@1"], json!(6.0 / 8.0));
}

#[test]
fn an_export_is_complete_or_absent() {
    let run = SmallRun::new();
    let keys = json!({ "hf_interval": 1 });
    let exports = |exp_dir: &Path| -> Vec<String> {
        let entries = walkdir::WalkDir::new(exp_dir.join("hf")).min_depth(1).sort_by_file_name().into_iter();
        entries
            .map(|entry| entry.unwrap().path().strip_prefix(exp_dir).unwrap().display().to_string())
            .collect()
    };
    let pair = Pair { fails_export_at: 2, ..Pair::default() };
    let (error, exp_dir) = fit(with(run.config_json(3, false), keys.clone()), pair).unwrap_err();
    assert_snapshot!(error, @"train controller: save_hf failed at step 2");
    assert_eq!(exports(&exp_dir), ["hf/hf-step-1", "hf/hf-step-1/config.json"]);

    // The checkpoint of step 2 was durable before: the resumed run makes the export up and goes on.
    fit(with(run.config_json(3, true), keys), Pair { step: 2, ..Pair::default() }).unwrap();
    let steps: Vec<String> = exports(&exp_dir).into_iter().filter(|path| !path.ends_with(".json")).collect();
    assert_eq!(steps, ["hf/hf-step-1", "hf/hf-step-2", "hf/hf-step-3"]);
}
