//! A disk that is full for a while: the run goes on, says so, and saves again once there is room.

use std::path::Path;
use std::sync::Arc;

use piton_agent::BoxError;
use piton_checkpoint::{Error, Op, Stage};
use piton_run::{Event, read_events};
use piton_tests::{FakeRollout, FakeTrain, SmallRun};
use piton_trainer::{
    ColocateTrainer, Controllers, FitContext, FitOutcome, ResumeRequest, RunContext, SaveRequest,
    TrainController, TrainSample,
};
use serde_json::json;

/// A learner in whose saves of `full` the store finds too little room.
struct FullAt {
    full: &'static [u64],
    train: FakeTrain,
}

impl TrainController for FullAt {
    fn fit(&mut self, batch: &[TrainSample], context: FitContext<'_>) -> Result<FitOutcome, BoxError> {
        self.train.fit(batch, context)
    }

    fn save(&mut self, stage: &mut Stage, request: SaveRequest) -> Result<(), BoxError> {
        if self.full.contains(&request.step) {
            let path = stage.dir().to_path_buf();
            return Err(Error::NoSpace { op: Op::Create, path, needed: 2, free: 1 }.into());
        }
        self.train.save(stage, request)
    }

    fn resume(&mut self, request: ResumeRequest<'_>) -> Result<(), BoxError> {
        self.train.resume(request)
    }

    fn save_hf(&mut self, dir: &Path) -> Result<(), BoxError> {
        self.train.save_hf(dir)
    }

    fn update_weights(&mut self, model_step: u64) -> Result<(), BoxError> {
        self.train.update_weights(model_step)
    }
}

/// Four steps, each of them saved where there is room; two failed saves in a row are one too many.
fn trainer(run: &SmallRun, full: &'static [u64]) -> ColocateTrainer {
    let mut config = run.config_json(4, false);
    config["checkpoint_failures_allowed"] = json!(1);
    let train = Box::new(FullAt { full, train: FakeTrain::default() });
    let controllers = Controllers { train, rollout: Arc::new(FakeRollout) };
    SmallRun::config(config).build_with(controllers, RunContext::default()).unwrap()
}

#[test]
fn a_run_outlives_a_full_disk_and_tells_of_it() {
    let run = SmallRun::new();
    let mut trainer = trainer(&run, &[2]);
    let exp_dir = trainer.exp_dir();
    let report = trainer.fit().unwrap();
    assert_eq!((report.cur_step, report.failed_saves), (4, 1));
    assert!(!SmallRun::checkpoint(&exp_dir, 2).exists());
    assert_eq!(report.checkpoint, Some(SmallRun::checkpoint(&exp_dir, 4)));

    let (events, _) = read_events(&exp_dir.join("logs/events.jsonl")).unwrap();
    let warned = events.iter().any(|timed| match &timed.event {
        Event::Warning { reason } => {
            reason.contains("saving step 2 failed") && reason.contains("needed 2 bytes, 1 free")
        }
        _ => false,
    });
    assert!(warned, "{events:?}");
}

#[test]
fn a_disk_that_stays_full_ends_the_run_and_leaves_the_checkpoint_before() {
    let run = SmallRun::new();
    let mut trainer = trainer(&run, &[2, 3]);
    let exp_dir = trainer.exp_dir();
    let error = trainer.fit().unwrap_err().to_string();
    assert!(error.contains("saving step 3 failed"), "{error}");
    assert!(SmallRun::checkpoint(&exp_dir, 1).exists());
}
