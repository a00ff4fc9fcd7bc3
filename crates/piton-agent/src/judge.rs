//! Judgers: what a response is worth.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use piton_data::Row;

use crate::config::{JudgerConfig, RuleJudgerConfig};
use crate::error::LoopError;
use crate::rollout::BoxError;
use crate::sample::Reward;

/// Scores one response. Runs on a rayon thread, so it may compute, but should not wait for a network.
pub trait Judger: Send + Sync {
    /// Scores `response`, an answer to the prompt of `row`.
    ///
    /// # Errors
    /// Whatever makes a judgement impossible: the sample then fails, the run goes on.
    fn judge(&self, response: &str, row: &Row) -> Result<Reward, BoxError>;

    /// How long one judgement may take.
    fn timeout(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// Compares the response, white space trimmed, with the row's `reward_model.ground_truth`.
#[derive(Debug, Clone, Default)]
pub struct RuleJudger {
    config: RuleJudgerConfig,
}

impl RuleJudger {
    /// A judger with these scores.
    pub fn new(config: RuleJudgerConfig) -> Self {
        Self { config }
    }
}

impl Judger for RuleJudger {
    fn judge(&self, response: &str, row: &Row) -> Result<Reward, BoxError> {
        let right = response.trim() == label(row).trim();
        Ok(Reward::new(if right { self.config.score } else { self.config.wrong_score }))
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.config.request_timeout)
    }
}

/// What a right answer to the row is, as text: a ground truth that is no string is its JSON text.
pub fn label(row: &Row) -> Cow<'_, str> {
    match row.reward_model.ground_truth.as_str() {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(row.reward_model.ground_truth.to_string()),
    }
}

/// The judger a configuration names.
pub(crate) fn build(config: &JudgerConfig) -> Arc<dyn Judger> {
    match config {
        JudgerConfig::Rule(rule) => Arc::new(RuleJudger::new(rule.clone())),
    }
}

/// Judges one response on the rayon pool, for at most the judger's timeout; a panic in the judger is an error.
pub(crate) async fn judge(
    judger: Arc<dyn Judger>,
    response: String,
    row: Arc<Row>,
    rollout_id: u64,
) -> Result<Reward, LoopError> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    let timeout = judger.timeout();
    rayon::spawn(move || {
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| judger.judge(&response, &row)))
            .unwrap_or_else(|_| Err("the judger panicked".into()));
        // The receiver is gone when the deadline has passed; nobody wants the answer then.
        let _late = answer.send(judged);
    });
    match tokio::time::timeout(timeout, answered).await {
        Err(_) => Err(LoopError::JudgeTimeout { rollout_id, seconds: timeout.as_secs_f64() }),
        Ok(Err(_)) => Err(LoopError::Judge { rollout_id, source: "the judger's thread ended".into() }),
        Ok(Ok(Err(source))) => Err(LoopError::Judge { rollout_id, source }),
        Ok(Ok(Ok(reward))) if !reward.score.is_finite() => Err(LoopError::Judge {
            rollout_id,
            source: format!("the score is {}, not a number", reward.score).into(),
        }),
        Ok(Ok(Ok(reward))) => Ok(reward),
    }
}
