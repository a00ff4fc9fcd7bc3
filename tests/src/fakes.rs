//! Stand-ins for the two expensive boundaries, the learner and the rollout engine; everything else in a test is real.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use piton_agent::{
    BoxError, BoxFuture, FinishReason, GenerateRequest, Generation, Reward, RolloutController,
};
use piton_checkpoint::Stage;
use piton_trainer::{FitContext, FitOutcome, ResumeRequest, SaveRequest, TrainController, TrainSample};

/// Answers every prompt with "ok"; samples with an even id are worth 1, the others 0.5.
#[derive(Debug, Default)]
pub struct FakeRollout;

impl RolloutController for FakeRollout {
    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Generation, BoxError>> {
        let score = if request.rollout_id.is_multiple_of(2) { 1.0 } else { 0.5 };
        Box::pin(async move {
            Ok(Generation {
                response: "ok".to_owned(),
                response_ids: vec![100, 101],
                logprobs: vec![-0.5, -0.25],
                model_steps: vec![0, 0],
                finish_reason: FinishReason::Stop,
                reward: Some(Reward::new(score)),
            })
        })
    }
}

/// What happened to a [`FakeTrain`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Steps trained, in order.
    pub fit_steps: Vec<u64>,
    /// Ids of the samples trained on, step by step.
    pub rollout_ids: Vec<Vec<u64>>,
    /// Checkpoints resumed from.
    pub resumed_from: Vec<PathBuf>,
    /// Steps whose weights were published.
    pub published: Vec<u64>,
}

/// A learner that only records. Its whole state is one text file.
#[derive(Debug, Default)]
pub struct FakeTrain {
    recorded: Arc<Mutex<Recorded>>,
}

impl FakeTrain {
    /// Name of the one file it writes into a checkpoint.
    pub const FILE: &str = "fake_train_controller_checkpoint.txt";

    /// What happened so far; stays readable when the trainer owns the fake.
    pub fn recorded(&self) -> impl Fn() -> Recorded + use<> {
        let recorded = Arc::clone(&self.recorded);
        move || recorded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record(&self, change: impl FnOnce(&mut Recorded)) {
        change(&mut self.recorded.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl TrainController for FakeTrain {
    fn fit(&mut self, batch: &[TrainSample], context: FitContext<'_>) -> Result<FitOutcome, BoxError> {
        self.record(|recorded| {
            recorded.fit_steps.push(context.step);
            recorded.rollout_ids.push(batch.iter().map(|sample| sample.rollout_id).collect());
        });
        Ok(FitOutcome::Trained([("entropy/train".to_owned(), 0.0)].into()))
    }

    fn save(&mut self, stage: &mut Stage, request: SaveRequest) -> Result<(), BoxError> {
        let text = format!("no_save_optimizer={}", request.no_save_optimizer);
        Ok(stage.write(Self::FILE, text.as_bytes())?)
    }

    fn resume(&mut self, request: ResumeRequest<'_>) -> Result<(), BoxError> {
        request.checkpoint.read(Self::FILE)?;
        self.record(|recorded| recorded.resumed_from.push(request.checkpoint.path().to_owned()));
        Ok(())
    }

    fn save_hf(&mut self, dir: &Path) -> Result<(), BoxError> {
        Ok(std::fs::write(dir.join("config.json"), "{}\n")?)
    }

    fn update_weights(&mut self, model_step: u64) -> Result<(), BoxError> {
        self.record(|recorded| recorded.published.push(model_step));
        Ok(())
    }
}
