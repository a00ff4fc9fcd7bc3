//! Making a step's state durable, and removing what newer checkpoints make superfluous.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use piton_checkpoint::Checkpoint;
use piton_run::Event;

use crate::colocate::ColocateTrainer;
use crate::config::MaxKeep;
use crate::error::Error;
use crate::progress::ProgressEvent;

impl ColocateTrainer {
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
