//! The colocated trainer: rollout and training take turns.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use piton_agent::{ColocateManager, ManagerContext, RolloutController, Tokenizers};
use piton_checkpoint::{Checkpoint, Store};
use piton_run::{
    Clock, EnvironmentRecord, Event, EventLog, Experiment, JsonlTracker, RunLock, Stop, SystemClock,
};

use crate::config::{ColocateTrainerConfig, MaxKeep};
use crate::controller::{ResumeRequest, TrainController};
use crate::error::Error;
use crate::open::{Identity, Opened, open};
use crate::progress::{Progress, ProgressEvent, Silent};
use crate::state::Snapshot;

/// The engines a trainer works with.
pub struct Controllers {
    /// The learner.
    pub train: Box<dyn TrainController>,
    /// The rollout engine.
    pub rollout: Arc<dyn RolloutController>,
}

impl std::fmt::Debug for Controllers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controllers").finish_non_exhaustive()
    }
}

/// What surrounds a run: everything that comes from outside the configuration.
pub struct RunContext {
    /// Asks the run to end early.
    pub stop: Stop,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Hears what happens.
    pub progress: Box<dyn Progress>,
    /// What the user ran; told to whoever finds the work_dir locked.
    pub command: String,
    /// What exactness depends on (libtorch, processor level, threads); stands in every manifest.
    pub environment: BTreeMap<String, String>,
    /// The machine, written to `logs/environment.json`.
    pub record: Option<EnvironmentRecord>,
    /// Keys whose change a resume accepts although it alters the course of training.
    pub allow_change: Vec<String>,
}

impl Default for RunContext {
    /// No signals, no output, the system's clock.
    fn default() -> Self {
        Self {
            stop: Stop::manual(),
            clock: Arc::new(SystemClock),
            progress: Box::new(Silent),
            command: "a program using piton-trainer".to_owned(),
            environment: BTreeMap::new(),
            record: None,
            allow_change: Vec::new(),
        }
    }
}

impl std::fmt::Debug for RunContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunContext").field("command", &self.command).finish_non_exhaustive()
    }
}

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
    /// Wall seconds of the last save, for the next step's line.
    pub(crate) last_save_s: Option<f64>,
    pub(crate) report: FitReport,
    /// Locks of the work_dir; given back when `fit` ends.
    pub(crate) held: Option<Held>,
}

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) store: Store,
    _lock: RunLock,
}

/// What came of [`ColocateTrainer::fit`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FitReport {
    /// Steps completed, those of earlier processes included.
    pub cur_step: u64,
    /// Steps of the whole run.
    pub total_train_steps: u64,
    /// Steps trained by this process.
    pub trained_steps: u64,
    /// Wall seconds in `fit`.
    pub seconds: f64,
    /// What asked for the stop, if the run ended early.
    pub stopped_by: Option<String>,
    /// The newest checkpoint.
    pub checkpoint: Option<PathBuf>,
    /// The newest export of this process.
    pub export: Option<PathBuf>,
    /// Step and metrics of this process's first evaluation.
    pub first_evaluation: Option<(u64, BTreeMap<String, f64>)>,
    /// Step and metrics of its last evaluation.
    pub last_evaluation: Option<(u64, BTreeMap<String, f64>)>,
    /// The tracker line of its last step.
    pub last_metrics: BTreeMap<String, f64>,
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
        let ended = self.run();
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
            Err(error) => Event::Error { step, reason: chain(error) },
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

    /// Makes the snapshot durable, unless the newest checkpoint already is it.
    pub(crate) fn commit(&mut self) -> Result<PathBuf, Error> {
        let step = self.snapshot.cur_step;
        let state = (step, self.snapshot.pending.is_some());
        if let (true, Some(path)) = (self.saved == Some(state), &self.report.checkpoint) {
            return Ok(path.clone());
        }
        let started = Instant::now();
        let checkpoint = self.save()?;
        let seconds = started.elapsed().as_secs_f64();
        let path = checkpoint.path().to_owned();
        let bytes = checkpoint.manifest().files.iter().map(|file| file.size).sum();
        self.saved = Some(state);
        self.last_save_s = Some(seconds);
        self.report.checkpoint = Some(path.clone());
        self.events.append(Event::Save { step, path: self.experiment.relative(&path), bytes, seconds })?;
        self.progress.event(ProgressEvent::Saved { step, path: &path });
        self.prune()?;
        piton_run::Meta::refresh(self.experiment.work_dir())?;
        Ok(path)
    }

    fn save(&mut self) -> Result<Checkpoint, Error> {
        let step = self.snapshot.cur_step;
        let request = crate::controller::SaveRequest {
            step,
            model_step: self.snapshot.model_step,
            no_save_optimizer: self.config.checkpoint_no_save_optimizer,
        };
        let save_buffer = !self.config.checkpoint_no_save_replay_buffer;
        let Some(held) = &mut self.held else { unreachable!("fit holds the store while it runs") };
        let (snapshot, train) = (&self.snapshot, &mut self.train);
        let overwrite = match self.saved {
            Some((saved, _)) if saved == step => piton_checkpoint::Overwrite::Exchange,
            _ => piton_checkpoint::Overwrite::Refuse,
        };
        held.store
            .save(step, overwrite, |stage| {
                snapshot.write(stage, save_buffer)?;
                train.save(stage, request)
            })
            .map_err(|error| match error {
                piton_checkpoint::SaveError::Content(source) => Error::Save { step, source },
                piton_checkpoint::SaveError::Store(source) => Error::Save { step, source: source.into() },
            })
    }

    /// A process that died between a save and its prune left one checkpoint too many.
    pub(crate) fn prune_surplus(&mut self) -> Result<(), Error> {
        let MaxKeep::Last(keep) = self.config.checkpoint_maxkeep else { return Ok(()) };
        let Some(held) = &self.held else { unreachable!("fit holds the store while it runs") };
        if held.store.reader().steps()?.len() <= keep.get() {
            return Ok(());
        }
        self.prune()?;
        piton_run::Meta::refresh(self.experiment.work_dir())?;
        Ok(())
    }

    fn prune(&mut self) -> Result<(), Error> {
        let keep = match self.config.checkpoint_maxkeep {
            MaxKeep::All => piton_checkpoint::Keep::All,
            MaxKeep::Last(count) => piton_checkpoint::Keep::Last(count),
        };
        let Some(held) = &mut self.held else { unreachable!("fit holds the store while it runs") };
        let pruned = held.store.prune(keep, &BTreeSet::new())?;
        for step in pruned.removed {
            let path = self.experiment.checkpoints_dir().join(piton_checkpoint::checkpoint_name(step));
            self.events.append(Event::Prune { step, path: self.experiment.relative(&path) })?;
        }
        for problem in pruned.problems {
            let text = format!("an old checkpoint could not be removed: {problem}");
            self.progress.event(ProgressEvent::Warning { text: &text });
            self.events.append(Event::Warning { reason: text })?;
        }
        Ok(())
    }
}

/// An error with all its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
