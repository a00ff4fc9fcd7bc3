//! A judger that misbehaves fails its group, with a cause, and nothing else.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails like the test")]

use std::sync::Arc;
use std::time::Duration;

use insta::assert_snapshot;
use piton_agent::{
    AgentLoop, BoxError, BoxFuture, FinishReason, GenerateRequest, Generation, Judger, LoopContext,
    LoopError, LoopOutcome, Phase, Prompt, Reward, RolloutController, RuleJudger, SampleParams,
    SingleTurnAgentLoop,
};
use piton_data::{Dataset, Row};

const ROW: &str = r#"{"data_source":"unit","prompt":[{"role":"user","content":"1 + 1 ="}],"reward_model":{"style":"rule","ground_truth":"2"}}"#;

/// Answers with one text.
struct Says(&'static str);

impl RolloutController for Says {
    fn generate(&self, _: GenerateRequest) -> BoxFuture<'_, Result<Generation, BoxError>> {
        Box::pin(async {
            Ok(Generation {
                response: self.0.to_owned(),
                response_ids: vec![1],
                logprobs: vec![0.0],
                model_steps: vec![0],
                finish_reason: FinishReason::Stop,
                reward: None,
            })
        })
    }
}

/// A judger made of a function, and how long it may take.
struct By(fn(&str) -> Result<Reward, BoxError>, Duration);

impl Judger for By {
    fn judge(&self, response: &str, _: &Row) -> Result<Reward, BoxError> {
        (self.0)(response)
    }

    fn timeout(&self) -> Duration {
        self.1
    }
}

/// Runs the single-turn loop once, for two samples that say `response`.
fn run(response: &'static str, judger: impl Judger + 'static) -> Result<LoopOutcome, LoopError> {
    let row = Dataset::from_jsonl("one.jsonl", ROW.as_bytes()).unwrap().rows()[0].clone();
    let prompt =
        Prompt { task: "sums".to_owned(), group_id: 7, prompt_ids: Arc::from([1, 2]), row: Arc::new(row) };
    let context = LoopContext { rollout: Arc::new(Says(response)), phase: Phase::Train, prompt_repeat_k: 2 };
    let agent_loop = SingleTurnAgentLoop::new(SampleParams::default(), Some(Arc::new(judger)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(agent_loop.run(prompt, &context))
}

/// The error with its cause.
fn failure(judger: fn(&str) -> Result<Reward, BoxError>) -> String {
    failure_within(Duration::from_secs(30), judger)
}

fn failure_within(timeout: Duration, judger: fn(&str) -> Result<Reward, BoxError>) -> String {
    let error = run("2", By(judger, timeout)).unwrap_err();
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

#[test]
fn a_rule_judger_compares_with_the_ground_truth_and_trims_white_space() {
    for (response, score) in [("2", 1.0), (" 2\n", 1.0), ("3", 0.0), ("2.", 0.0), ("", 0.0)] {
        let LoopOutcome::Finished(group) = run(response, RuleJudger::default()).unwrap() else {
            panic!("aborted")
        };
        let scores: Vec<f64> = group.samples.iter().map(|sample| sample.reward.score).collect();
        assert_eq!(scores, [score, score], "{response:?}");
        let ids: Vec<u64> = group.samples.iter().map(|sample| sample.rollout_id).collect();
        assert_eq!(ids, [14, 15], "group_id * prompt_repeat_k + index");
    }
}

#[test]
fn a_judger_that_fails_panics_or_takes_too_long_fails_the_group() {
    assert_snapshot!(failure(|_| Err("no such rule".into())), @"judging sample 14 failed: no such rule");
    assert_snapshot!(failure(|_| panic!("index out of bounds")), @"judging sample 14 failed: the judger panicked");
    assert_snapshot!(failure(|_| Ok(Reward::new(f64::NAN))), @"judging sample 14 failed: the score is NaN, not a number");
    let slow = failure_within(Duration::from_millis(100), |_| {
        std::thread::sleep(Duration::from_secs(2));
        Ok(Reward::new(1.0))
    });
    assert_snapshot!(slow, @"judging sample 14 took longer than 0.1 s");
}
