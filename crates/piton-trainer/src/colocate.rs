//! The colocated trainer: rollout and training take turns.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use piton_agent::{ColocateManager, ManagerContext, RolloutController, Tokenizers};
use piton_checkpoint::{BackgroundStore, Checkpoint, Keep, Store};
use piton_run::{Event, EventLog, Experiment, JsonlTracker, RunLock, Stop};

use crate::commit::InFlight;
use crate::config::{ColocateTrainerConfig, MaxKeep};
use crate::context::{Controllers, FitReport, RunContext};
use crate::controller::{ResumeRequest, TrainController};
use crate::error::Error;
use crate::open::{Identity, Opened, open};
use crate::progress::{Progress, ProgressEvent};
use crate::state::Snapshot;

/// A colocated run, ready to train. Made by [`ColocateTrainerConfig::build_with`].
pub struct ColocateTrainer {
    pub(crate) config: ColocateTrainerConfig,
    pub(crate) total_train_steps: u64,
    pub(crate) train: Box<dyn TrainController>,
    pub(crate) rollout: Arc<dyn RolloutController>,
    pub(crate) manager: ColocateManager,
    pub(crate) eval_manager: Option<ColocateManager>,
    pub(crate) stop: Stop,
    pub(crate) progress: Box<dyn Progress>,
    pub(crate) experiment: Experiment,
    pub(crate) tracker: JsonlTracker,
    pub(crate) events: EventLog,
    /// The state to save: that of the last completed step.
    pub(crate) snapshot: Snapshot,
    /// The step of the newest checkpoint and whether it lacks an evaluation.
    pub(crate) saved: Option<(u64, bool)>,
    /// A save that is not known to be durable.
    pub(crate) in_flight: Option<InFlight>,
    /// The last save that failed since it was last asked for.
    pub(crate) failed_save: Option<(u64, piton_checkpoint::Error)>,
    pub(crate) saves_failed_in_a_row: u64,
    /// What the next checkpoint will need: the size of the newest.
    pub(crate) expected_bytes: u64,
    /// Wall seconds that the last save held training up, for the next step's line.
    pub(crate) last_save_s: Option<f64>,
    pub(crate) report: FitReport,
    /// Locks of the work_dir; given back when `fit` ends.
    pub(crate) held: Option<Held>,
}

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) store: BackgroundStore,
    _lock: RunLock,
}

impl std::fmt::Debug for ColocateTrainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColocateTrainer")
            .field("exp_dir", &self.experiment.dir())
            .field("cur_step", &self.snapshot.cur_step)
            .finish_non_exhaustive()
    }
}

impl ColocateTrainerConfig {
    /// Builds the trainer on the caller's engines: reads the data, takes the work_dir, resumes where there is something to
    /// resume.
    ///
    /// # Errors
    /// A wrong configuration, unusable data, a work_dir that another run holds, checkpoints none of which is valid.
    pub fn build_with(self, controllers: Controllers, context: RunContext) -> Result<ColocateTrainer, Error> {
        self.check().map_err(Error::Config)?;
        let Controllers { mut train, rollout } = controllers;
        let (mut manager, eval_manager) = self.managers(&rollout)?;
        let prompts: usize = manager.prompts().map(|(_, count)| count).sum();
        if prompts < self.train_batch_size {
            return Err(Error::TooFewPrompts { batch: self.train_batch_size, prompts });
        }
        crate::lengths::check(&self, &manager, eval_manager.as_ref()).map_err(Error::Config)?;
        let total_train_steps = self.total_steps(prompts);
        let work_dir = self.work_dir.clone().unwrap_or_else(|| PathBuf::from(".piton/colocate"));
        let identity = Identity {
            clock: Arc::clone(&context.clock),
            command: &context.command,
            environment: &context.environment,
            allow_change: &context.allow_change,
        };
        let opened = open(&self, &work_dir, &identity)?;
        if let Some(record) = &context.record {
            record.write(&opened.experiment.logs_dir())?;
        }
        train.update_rollout_info(&rollout.metadata()).map_err(|source| Error::Controller {
            controller: TRAIN,
            call: "update_rollout_info",
            step: 0,
            source,
        })?;
        let foreign = foreign_checkpoint(&self, &opened)?;
        let resumed = opened.checkpoint.as_ref().or(foreign.as_ref());
        let snapshot = match resumed {
            Some(checkpoint) => self.resume(checkpoint, &mut manager, &mut *train)?,
            None => Snapshot { cur_step: 0, model_step: 0, manager: manager.state(), pending: None },
        };
        let Opened { experiment, store, tracker, events, checkpoint, warnings, lock } = opened;
        let mut store = BackgroundStore::new(store)?;
        if let MaxKeep::Last(keep) = self.checkpoint_maxkeep {
            store.prune_to(Keep::Last(keep));
        }
        let expected_bytes = checkpoint
            .as_ref()
            .map_or(0, |checkpoint| checkpoint.manifest().files.iter().map(|file| file.size).sum());
        let mut progress = context.progress;
        for warning in &warnings {
            progress.event(ProgressEvent::Warning { text: warning });
        }
        Ok(ColocateTrainer {
            saved: checkpoint.as_ref().map(|checkpoint| (checkpoint.step(), snapshot.pending.is_some())),
            report: FitReport {
                cur_step: snapshot.cur_step,
                total_train_steps,
                checkpoint: checkpoint.map(|checkpoint| checkpoint.path().to_owned()),
                ..FitReport::default()
            },
            config: self,
            total_train_steps,
            train,
            rollout,
            manager,
            eval_manager,
            stop: context.stop,
            progress,
            experiment,
            tracker,
            events,
            snapshot,
            in_flight: None,
            failed_save: None,
            saves_failed_in_a_row: 0,
            expected_bytes,
            last_save_s: None,
            held: Some(Held { store, _lock: lock }),
        })
    }

    fn managers(
        &self,
        rollout: &Arc<dyn RolloutController>,
    ) -> Result<(ColocateManager, Option<ColocateManager>), Error> {
        let mut tokenizers = Tokenizers::default();
        let context = ManagerContext {
            rollout: Arc::clone(rollout),
            tokenizer_path: self.tokenizer_dir(),
            seed: self.seed,
            group_timeout: Duration::from_secs_f64(self.rollout_config.rollout_timeout),
        };
        let manager = ColocateManager::build(&self.agent_loop_manager_cfg, &context, &mut tokenizers)?;
        let eval = self.eval_agent_loop_manager_cfg.as_ref().filter(|_| self.enable_evaluate);
        let eval =
            eval.map(|config| ColocateManager::build(config, &context, &mut tokenizers)).transpose()?;
        Ok((manager, eval))
    }

    /// From epochs: every prompt is drawn at least `total_epochs` times.
    fn total_steps(&self, prompts: usize) -> u64 {
        self.total_train_steps.unwrap_or_else(|| {
            (prompts as u64 * self.total_epochs.unwrap_or(1)).div_ceil(self.train_batch_size as u64)
        })
    }

    fn resume(
        &self,
        checkpoint: &Checkpoint,
        manager: &mut ColocateManager,
        train: &mut dyn TrainController,
    ) -> Result<Snapshot, Error> {
        let tasks: Vec<String> = manager.prompts().map(|(task, _)| task.to_owned()).collect();
        let empty = manager.state().buffer;
        let snapshot = Snapshot::read(checkpoint, tasks.iter().map(String::as_str), empty)?;
        manager.restore(snapshot.manager.clone())?;
        let request = ResumeRequest {
            checkpoint,
            model_step: snapshot.model_step,
            load_optimizer_states: self.load_checkpoint_cfg.load_optimizer_states,
        };
        train.resume(request).map_err(|source| Error::Controller {
            controller: TRAIN,
            call: "resume",
            step: snapshot.cur_step,
            source,
        })?;
        Ok(snapshot)
    }
}

pub(crate) const TRAIN: &str = "train controller";
pub(crate) const ROLLOUT: &str = "rollout controller";

/// The checkpoint of `load_checkpoint_cfg`, where this work_dir has none of its own.
fn foreign_checkpoint(config: &ColocateTrainerConfig, opened: &Opened) -> Result<Option<Checkpoint>, Error> {
    let Some(path) =
        config.load_checkpoint_cfg.checkpoint_path.as_deref().filter(|_| opened.checkpoint.is_none())
    else {
        return Ok(None);
    };
    let step = path.file_name().and_then(piton_checkpoint::parse_checkpoint_name).ok_or_else(|| {
        Error::Config(vec![format!(
            "load_checkpoint_cfg.checkpoint_path is {}: write the path of a ckpt-step-N directory",
            path.display()
        )])
    })?;
    let root = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(Some(Store::open_read_only(root)?.at(step)?))
}

impl ColocateTrainer {
    /// The experiment's directory.
    pub fn exp_dir(&self) -> PathBuf {
        self.experiment.dir()
    }

    /// Completed train steps.
    pub fn cur_step(&self) -> u64 {
        self.snapshot.cur_step
    }

    /// Trains until `total_train_steps` or until the stop that the context carries is requested; both end with a durable
    /// checkpoint. The work_dir is free again afterwards.
    ///
    /// # Errors
    /// What made a step impossible. Checkpoints that were durable before still are.
    pub fn fit(&mut self) -> Result<FitReport, Error> {
        if self.held.is_none() {
            return Ok(self.report.clone());
        }
        let started = Instant::now();
        let mut ended = self.run();
        if ended.is_err() {
            // what was under way may still become durable; the first error is the one to tell
            let _later_error = self.settle();
        } else {
            ended = self.settle();
        }
        self.report.seconds = started.elapsed().as_secs_f64();
        self.report.cur_step = self.snapshot.cur_step;
        let step = self.snapshot.cur_step;
        let event = match &ended {
            Ok(()) if self.report.stopped_by.is_none() => Event::Finish { step },
            Ok(()) => Event::Stop {
                step,
                path: self.report.checkpoint.as_deref().map(|path| self.experiment.relative(path)),
                reason: self.report.stopped_by.clone().unwrap_or_default(),
            },
            Err(error) => Event::Error { step, reason: piton_agent::error_chain(error) },
        };
        let logged = self.events.append(event);
        self.held = None;
        ended?;
        logged?;
        Ok(self.report.clone())
    }

    /// Whether a stop was asked for.
    pub(crate) fn should_stop(&self) -> bool {
        self.stop.is_requested()
    }
}
