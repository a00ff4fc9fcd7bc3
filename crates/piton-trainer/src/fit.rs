//! The step loop.
//!
//! One step, in order: produce, train, publish weights, evaluate when due, write trajectories and the step's one tracker line,
//! commit the checkpoint when due, export when due. Whatever moment a process dies at, the newest checkpoint's past is complete.

use std::collections::BTreeMap;
use std::time::Instant;

use piton_agent::{BoxError, ProduceOutcome, Produced};
use piton_run::write_lines_atomic;

use crate::batch::train_samples;
use crate::colocate::{ColocateTrainer, ROLLOUT, TRAIN};
use crate::controller::{FitContext, FitOutcome, Target, TrainSample};
use crate::error::Error;
use crate::metrics::{self, PhaseTimes};
use crate::progress::ProgressEvent;
use crate::state::{PendingStep, Snapshot};
use crate::{evaluate, export, trajectory};

/// Whether a phase came to its end or a stop came first.
enum Flow {
    Done,
    Stopped,
}

/// A trained step on its way to the tracker.
struct Trained {
    metrics: BTreeMap<String, f64>,
    times: PhaseTimes,
    started: Instant,
    produced: Produced,
    batch: Vec<TrainSample>,
}

impl ColocateTrainer {
    pub(crate) fn run(&mut self) -> Result<(), Error> {
        let exp_dir = self.experiment.dir();
        self.progress.event(ProgressEvent::Started {
            exp_dir: &exp_dir,
            cur_step: self.snapshot.cur_step,
            total_train_steps: self.total_train_steps,
        });
        self.prune_surplus()?;
        match self.steps()? {
            Flow::Done if !self.stop.is_requested() => Ok(()),
            // A stop that came while the last step was being saved is answered, too.
            Flow::Done => self.save_after_stop().map(drop),
            Flow::Stopped => {
                self.report.stopped_by = Some(self.save_after_stop()?);
                Ok(())
            }
        }
    }

    fn steps(&mut self) -> Result<Flow, Error> {
        if let Flow::Stopped = self.finish_resumed_step()? {
            return Ok(Flow::Stopped);
        }
        if self.snapshot.cur_step >= self.total_train_steps {
            return Ok(Flow::Done);
        }
        if let Flow::Stopped = self.initial_evaluation()? {
            return Ok(Flow::Stopped);
        }
        for step in self.snapshot.cur_step + 1..=self.total_train_steps {
            if self.should_stop() {
                return Ok(Flow::Stopped);
            }
            self.settle_if_done()?;
            if let Flow::Stopped = self.step(step)? {
                return Ok(Flow::Stopped);
            }
        }
        Ok(Flow::Done)
    }

    /// Once, before the first step, however often the run is resumed: its tracker line says that it was done.
    fn initial_evaluation(&mut self) -> Result<Flow, Error> {
        let is_due = self.config.enable_evaluate
            && self.config.enable_initial_evaluate
            && self.snapshot.cur_step == 0
            && self.tracker.last_step().is_none();
        if !is_due {
            return Ok(Flow::Done);
        }
        let mut line = BTreeMap::new();
        let started = Instant::now();
        if let Flow::Stopped = self.evaluate(0, &mut line)? {
            return Ok(Flow::Stopped);
        }
        line.insert("time/evaluation".to_owned(), started.elapsed().as_secs_f64());
        self.tracker.append(0, &line)?;
        Ok(Flow::Done)
    }

    fn step(&mut self, step: u64) -> Result<Flow, Error> {
        let started = Instant::now();
        let mut times = PhaseTimes::default();
        let stop = self.stop.clone();
        let stop_flag = || stop.is_requested();
        let batch_size = self.config.train_batch_size;
        let produced =
            times.measure("produce_batch", || self.manager.produce_batch(batch_size, step, &stop_flag))?;
        let ProduceOutcome::Batch(produced) = produced else { return Ok(Flow::Stopped) };
        if produced.groups.is_empty() {
            return Err(Error::EmptyBatch { step });
        }
        let batch = times.measure("prepare_data", || {
            train_samples(&produced.groups, &self.config.advantage_estimator_config)
        });
        let mut metrics = BTreeMap::new();
        metrics::response(&produced, &batch, &mut metrics);
        times.measure("onload", || self.onload_train(step))?;
        let context = FitContext { step, total_train_steps: self.total_train_steps, stop: &stop };
        let outcome = times.measure("training", || self.train.fit(&batch, context));
        match outcome.map_err(|source| train_failed("fit", step, source))? {
            FitOutcome::Trained(of_learner) => metrics.extend(of_learner),
            FitOutcome::Stopped => return Ok(Flow::Stopped),
        }
        times.measure("sync_weight", || self.publish(step))?;
        let lines = trajectory::lines(&produced.groups);
        write_lines_atomic(&self.experiment.train_rollout_path(step), lines)?;
        self.report.trained_steps += 1;
        if self.is_evaluation_due(step) {
            let evaluated = times.measure("evaluation", || self.evaluate(step, &mut metrics))?;
            if let Flow::Stopped = evaluated {
                self.snapshot.pending = Some(PendingStep::new(&metrics));
                return Ok(Flow::Stopped);
            }
        }
        self.record(step, Trained { metrics, times, started, produced, batch })?;
        self.save_when_due(step)?;
        Ok(Flow::Done)
    }

    /// The rollout engine gives its memory up, the learner takes it.
    fn onload_train(&mut self, step: u64) -> Result<(), Error> {
        self.rollout
            .check_and_shutdown_inactive_workers()
            .map_err(|source| rollout_failed("check_and_shutdown_inactive_workers", step, source))?;
        self.rollout.offload().map_err(|source| rollout_failed("offload", step, source))?;
        self.train.onload(Target::All).map_err(|source| train_failed("onload", step, source))
    }

    /// The other way round, with the new weights where a sync is due; takes the snapshot of the completed step.
    fn publish(&mut self, step: u64) -> Result<(), Error> {
        let train = |call| move |source| train_failed(call, step, source);
        let rollout = |call| move |source| rollout_failed(call, step, source);
        self.train.offload(Target::Optimizer).map_err(train("offload"))?;
        let is_last = step == self.total_train_steps && self.is_evaluation_due(step);
        let mut model_step = self.snapshot.model_step;
        self.rollout.restart_inactive_workers().map_err(rollout("restart_inactive_workers"))?;
        self.rollout.onload_weights().map_err(rollout("onload_weights"))?;
        if step.is_multiple_of(self.config.sync_weights_interval) || is_last {
            self.train.update_weights(step).map_err(train("update_weights"))?;
            model_step = step;
        }
        self.train.offload(Target::Model).map_err(train("offload"))?;
        self.rollout.onload_kvcache().map_err(rollout("onload_kvcache"))?;
        self.snapshot = Snapshot { cur_step: step, model_step, manager: self.manager.state(), pending: None };
        Ok(())
    }

    fn is_evaluation_due(&self, step: u64) -> bool {
        self.config.enable_evaluate
            && (step.is_multiple_of(self.config.evaluate_step) || step == self.total_train_steps)
    }

    /// Evaluates the engine's weights, writes the trajectories, and adds the metrics to the step's line.
    fn evaluate(&mut self, step: u64, line: &mut BTreeMap<String, f64>) -> Result<Flow, Error> {
        let Some(manager) = &self.eval_manager else { return Ok(Flow::Done) };
        self.progress.event(ProgressEvent::Evaluating { step });
        let prompts = manager.prompts().map(|(_, count)| count).max().unwrap_or(0);
        let limit = evaluate::limit(&self.config.evaluator_config, prompts);
        let stop = self.stop.clone();
        let ProduceOutcome::Batch(produced) = manager.evaluate(limit, &|| stop.is_requested())? else {
            return Ok(Flow::Stopped);
        };
        write_lines_atomic(&self.experiment.eval_rollout_path(step), trajectory::lines(&produced.groups))?;
        let metrics = evaluate::metrics(&produced);
        self.progress.event(ProgressEvent::Evaluated { step, metrics: &metrics });
        self.report.first_evaluation.get_or_insert_with(|| (step, metrics.clone()));
        self.report.last_evaluation = Some((step, metrics.clone()));
        line.extend(metrics);
        Ok(Flow::Done)
    }

    /// Writes the step's one line.
    fn record(&mut self, step: u64, trained: Trained) -> Result<(), Error> {
        let Trained { mut metrics, mut times, started, produced, batch } = trained;
        times.0.insert("step", started.elapsed().as_secs_f64());
        if let Some(seconds) = self.last_save_s.take() {
            times.0.insert("save_ckpt", seconds);
        }
        if self.report.failed_saves > 0 {
            metrics.insert("train_metrics/failed_saves".to_owned(), self.report.failed_saves as f64);
        }
        metrics::timing(&times, &produced, &batch, &mut metrics);
        self.tracker.append(step, &metrics)?;
        let total_train_steps = self.total_train_steps;
        self.progress.event(ProgressEvent::Step { step, total_train_steps, metrics: &metrics });
        self.report.last_metrics = metrics;
        Ok(())
    }

    fn save_when_due(&mut self, step: u64) -> Result<(), Error> {
        let is_last = step == self.total_train_steps;
        if is_last {
            self.commit_durably()?;
        } else if self.config.checkpoint_interval.is_due(step) {
            self.commit()?;
        }
        if self.is_export_due(step) {
            // an export of a step that a kill then takes back would be of weights that never were
            self.settle()?;
            self.export(step)?;
        }
        Ok(())
    }

    fn is_export_due(&self, step: u64) -> bool {
        let interval = self.config.hf_interval;
        interval.is_due(step) || (interval.steps().is_some() && step == self.total_train_steps)
    }

    fn export(&mut self, step: u64) -> Result<(), Error> {
        let hf_dir = self.experiment.hf_dir();
        let train = &mut self.train;
        let path = export::publish(&hf_dir, step, |dir| {
            train.save_hf(dir).map_err(|source| train_failed("save_hf", step, source))
        })?;
        export::prune(&hf_dir, self.config.hf_max_keep, step)?;
        let relative = self.experiment.relative(&path);
        self.events.append(piton_run::Event::Export { step, path: relative })?;
        self.progress.event(ProgressEvent::Exported { step, path: &path });
        self.report.export = Some(path);
        piton_run::Meta::refresh(self.experiment.work_dir())?;
        Ok(())
    }

    /// A resumed run's first act: what the step of its checkpoint still lacks, an evaluation or an export.
    fn finish_resumed_step(&mut self) -> Result<Flow, Error> {
        if let Some(pending) = self.snapshot.pending.take() {
            if let Flow::Stopped = self.finish_pending(&pending)? {
                self.snapshot.pending = Some(pending);
                return Ok(Flow::Stopped);
            }
            return Ok(Flow::Done);
        }
        // The process before this one died between the checkpoint and the export.
        let step = self.snapshot.cur_step;
        if step > 0 && self.is_export_due(step) && !self.experiment.hf_path(step).exists() {
            if self.should_stop() {
                return Ok(Flow::Stopped);
            }
            self.export(step)?;
        }
        Ok(Flow::Done)
    }

    /// The evaluation that a stop cut short, then the step's line.
    fn finish_pending(&mut self, pending: &PendingStep) -> Result<Flow, Error> {
        let step = self.snapshot.cur_step;
        // The line stands when a process died between writing it and replacing the checkpoint.
        if self.tracker.last_step() != Some(step) {
            let mut metrics = pending.metrics.clone();
            let started = Instant::now();
            if let Flow::Stopped = self.evaluate(step, &mut metrics)? {
                return Ok(Flow::Stopped);
            }
            metrics.insert("time/evaluation".to_owned(), started.elapsed().as_secs_f64());
            self.tracker.append(step, &metrics)?;
        }
        self.save_when_due(step)?;
        Ok(Flow::Done)
    }

    /// Makes the state durable and says where it is; returns what asked for the stop.
    fn save_after_stop(&mut self) -> Result<String, Error> {
        let reason = self.stop.requested().map_or_else(|| "stop".to_owned(), |reason| reason.to_string());
        if let Some(piton_run::StopReason::Signal(signal)) = self.stop.requested() {
            self.events.append(piton_run::Event::Signal { signal: signal.name().to_owned() })?;
        }
        let path = self.commit_durably()?;
        let step = self.snapshot.cur_step;
        self.progress.event(ProgressEvent::SavedAfterStop { step, path: &path, reason: &reason });
        Ok(reason)
    }
}

fn train_failed(call: &'static str, step: u64, source: BoxError) -> Error {
    Error::Controller { controller: TRAIN, call, step, source }
}

fn rollout_failed(call: &'static str, step: u64, source: BoxError) -> Error {
    Error::Controller { controller: ROLLOUT, call, step, source }
}
