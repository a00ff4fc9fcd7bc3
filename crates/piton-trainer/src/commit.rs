//! Making a step's state durable, and removing what newer checkpoints make superfluous.
//!
//! A save begins with a copy of the state and becomes durable beside the training that goes on. What is said about it
//! (event, progress, report, pruning) is said once it is.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use piton_checkpoint::{Overwrite, Pruned, SaveError, SaveHandle, Saved};
use piton_run::Event;

use crate::colocate::{ColocateTrainer, Held};
use crate::config::MaxKeep;
use crate::error::Error;
use crate::progress::ProgressEvent;

/// A step, and whether its checkpoint lacks an evaluation.
pub(crate) type State = (u64, bool);

/// A save that is not known to be durable yet.
#[derive(Debug)]
pub(crate) struct InFlight {
    handle: SaveHandle,
    state: State,
    started: Instant,
}

impl ColocateTrainer {
    /// Begins to make the snapshot durable, unless it already is or is being made so; waits for the save before it.
    pub(crate) fn commit(&mut self) -> Result<(), Error> {
        let state = self.state();
        if self.saved == Some(state) || self.in_flight.as_ref().is_some_and(|save| save.state == state) {
            return Ok(());
        }
        self.settle()?;
        let started = Instant::now();
        match self.begin_save() {
            Ok(handle) => self.in_flight = Some(InFlight { handle, state, started }),
            Err(SaveError::Store(error)) => self.save_failed(state.0, error)?,
            Err(SaveError::Content(source)) => match source.downcast::<piton_checkpoint::Error>() {
                // the store's own words on the way through `fill`: too little room, say
                Ok(error) => self.save_failed(state.0, *error)?,
                Err(source) => return Err(Error::Save { step: state.0, source }),
            },
        }
        self.last_save_s = Some(started.elapsed().as_secs_f64());
        if self.config.checkpoint_background { Ok(()) } else { self.settle() }
    }

    /// Makes the snapshot durable and says where it is; a failure is an error, however many may fail.
    pub(crate) fn commit_durably(&mut self) -> Result<PathBuf, Error> {
        self.failed_save = None;
        self.commit()?;
        self.settle()?;
        match (&self.report.checkpoint, self.failed_save.take()) {
            (Some(path), None) => Ok(path.clone()),
            (_, Some((step, error))) => Err(Error::Save { step, source: error.into() }),
            (None, None) => unreachable!("a save ended, and neither well nor badly"),
        }
    }

    /// Waits for the save under way and says how it ended.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        let Some(InFlight { handle, state, started }) = self.in_flight.take() else { return Ok(()) };
        match handle.wait() {
            Ok(saved) => self.durable(state, started, saved),
            Err(error) => self.save_failed(state.0, error),
        }
    }

    /// As [`settle`](Self::settle), if there is nothing to wait for.
    pub(crate) fn settle_if_done(&mut self) -> Result<(), Error> {
        match self.in_flight.as_ref().is_some_and(|save| save.handle.is_done()) {
            true => self.settle(),
            false => Ok(()),
        }
    }

    fn state(&self) -> State {
        (self.snapshot.cur_step, self.snapshot.pending.is_some())
    }

    fn durable(&mut self, state: State, started: Instant, saved: Saved) -> Result<(), Error> {
        let Saved { checkpoint, pruned } = saved;
        let seconds = started.elapsed().as_secs_f64();
        let path = checkpoint.path().to_owned();
        let bytes = checkpoint.manifest().files.iter().map(|file| file.size).sum();
        let step = state.0;
        self.saved = Some(state);
        self.saves_failed_in_a_row = 0;
        self.expected_bytes = bytes;
        self.report.checkpoint = Some(path.clone());
        self.events.append(Event::Save { step, path: self.experiment.relative(&path), bytes, seconds })?;
        self.progress.event(ProgressEvent::Saved { step, path: &path });
        match pruned {
            Some(Ok(pruned)) => self.tell_pruned(pruned)?,
            Some(Err(error)) => self.warn(&format!("old checkpoints could not be pruned: {error}"))?,
            None => {}
        }
        piton_run::Meta::refresh(self.experiment.work_dir())?;
        Ok(())
    }

    /// Goes on after a failed save, as often as the configuration allows.
    fn save_failed(&mut self, step: u64, error: piton_checkpoint::Error) -> Result<(), Error> {
        self.saves_failed_in_a_row += 1;
        self.report.failed_saves += 1;
        let allowed = self.config.checkpoint_failures_allowed;
        if self.saves_failed_in_a_row > allowed {
            return Err(Error::Save { step, source: error.into() });
        }
        self.warn(&format!(
            "saving step {step} failed ({} in a row, more than {allowed} end the run): {error}",
            self.saves_failed_in_a_row
        ))?;
        self.failed_save = Some((step, error));
        Ok(())
    }

    fn warn(&mut self, text: &str) -> Result<(), Error> {
        self.progress.event(ProgressEvent::Warning { text });
        self.events.append(Event::Warning { reason: text.to_owned() })?;
        Ok(())
    }

    fn begin_save(&mut self) -> Result<SaveHandle, SaveError<piton_agent::BoxError>> {
        let request = crate::controller::SaveRequest {
            step: self.snapshot.cur_step,
            model_step: self.snapshot.model_step,
            no_save_optimizer: self.config.checkpoint_no_save_optimizer,
        };
        let save_buffer = !self.config.checkpoint_no_save_replay_buffer;
        let overwrite = match self.saved {
            Some((saved, _)) if saved == request.step => Overwrite::Exchange,
            _ => Overwrite::Refuse,
        };
        let Some(Held { store, .. }) = &mut self.held else {
            unreachable!("fit holds the store while it runs")
        };
        let (snapshot, train, bytes) = (&self.snapshot, &mut self.train, self.expected_bytes);
        store.save(request.step, overwrite, |stage| {
            stage.expect_bytes(bytes)?;
            snapshot.write(stage, save_buffer)?;
            train.save(stage, request)
        })
    }

    /// A process that died between a save and its prune left one checkpoint too many.
    pub(crate) fn prune_surplus(&mut self) -> Result<(), Error> {
        let MaxKeep::Last(keep) = self.config.checkpoint_maxkeep else { return Ok(()) };
        let Some(Held { store, .. }) = &mut self.held else {
            unreachable!("fit holds the store while it runs")
        };
        if store.reader().steps()?.len() <= keep.get() {
            return Ok(());
        }
        let pruned = store.store()?.prune(piton_checkpoint::Keep::Last(keep), &BTreeSet::new())?;
        self.tell_pruned(pruned)?;
        piton_run::Meta::refresh(self.experiment.work_dir())?;
        Ok(())
    }

    fn tell_pruned(&mut self, pruned: Pruned) -> Result<(), Error> {
        for step in pruned.removed {
            let path = self.experiment.checkpoints_dir().join(piton_checkpoint::checkpoint_name(step));
            self.events.append(Event::Prune { step, path: self.experiment.relative(&path) })?;
        }
        for problem in pruned.problems {
            self.warn(&format!("an old checkpoint could not be removed: {problem}"))?;
        }
        Ok(())
    }
}
