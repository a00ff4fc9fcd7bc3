//! Taking a work_dir: its lock, the experiment to work in, and the checkpoint to go on from.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use piton_checkpoint::{Checkpoint, Store, StoreOptions};
use piton_run::{
    Clock, Event, EventLog, Experiment, Holder, JsonlTracker, Keep, Meta, RunLock, set_aside_after,
};

use crate::config::ColocateTrainerConfig;
use crate::error::Error;
use crate::run_config;

/// Everything on disk that a running trainer holds.
pub(crate) struct Opened {
    pub(crate) experiment: Experiment,
    pub(crate) store: Store,
    pub(crate) tracker: JsonlTracker,
    pub(crate) events: EventLog,
    pub(crate) checkpoint: Option<Checkpoint>,
    /// What the user should read.
    pub(crate) warnings: Vec<String>,
    /// Held as long as the run.
    pub(crate) lock: RunLock,
}

/// What the caller knows about itself.
pub(crate) struct Identity<'a> {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) command: &'a str,
    pub(crate) environment: &'a BTreeMap<String, String>,
    pub(crate) allow_change: &'a [String],
}

/// Locks `work_dir`, finds or makes the experiment, and cuts its records back to the checkpoint that is resumed.
pub(crate) fn open(
    config: &ColocateTrainerConfig,
    work_dir: &Path,
    identity: &Identity<'_>,
) -> Result<Opened, Error> {
    let lock = RunLock::acquire(work_dir, &Holder::this_process(identity.command, &*identity.clock))?;
    let newest = if config.auto_resume { piton_run::experiments(work_dir)?.into_iter().next() } else { None };
    let (experiment, is_new) = match newest {
        Some(experiment) => (experiment, false),
        None => (Experiment::create(work_dir, identity.clock.now())?, true),
    };
    let mut warnings = Vec::new();
    if !is_new {
        follow_config(&experiment, config, identity, &mut warnings)?;
    }
    let mut events = EventLog::open(&experiment.events_path(), Arc::clone(&identity.clock))?;
    events.append(Event::Start { pid: std::process::id(), command: identity.command.to_owned() })?;
    let mut store = open_store(&experiment, config, identity)?;
    let checkpoint = find(&mut store, &experiment, &mut events, &mut warnings)?;
    let keep = match &checkpoint {
        Some(checkpoint) => Keep::UpTo(checkpoint.step()),
        None => Keep::Nothing,
    };
    set_aside(&experiment, keep, &mut events)?;
    let tracker = JsonlTracker::open(&experiment.tracker_path(), keep)?;
    if let Some(path) = &tracker.repair().set_aside {
        let reason = "tracker lines of steps that will be done again".to_owned();
        events.append(Event::SetAside { path: experiment.relative(path), reason })?;
    }
    run_config::write(&experiment, config)?;
    if let Some(checkpoint) = &checkpoint {
        name_differences(checkpoint, identity.environment, &mut warnings);
        let path = experiment.relative(checkpoint.path());
        events.append(Event::Resume { step: checkpoint.step(), path })?;
    }
    for warning in &warnings {
        events.append(Event::Warning { reason: warning.clone() })?;
    }
    Meta::refresh(work_dir)?;
    Ok(Opened { experiment, store, tracker, events, checkpoint, warnings, lock })
}

fn follow_config(
    experiment: &Experiment,
    config: &ColocateTrainerConfig,
    identity: &Identity<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    let Some(changes) = run_config::changes(experiment, config) else {
        let path = experiment.config_path();
        if path.exists() {
            warnings.push(format!("{} cannot be read; the configuration is not compared", path.display()));
        }
        return Ok(());
    };
    run_config::check(&changes, identity.allow_change)
}

fn open_store(
    experiment: &Experiment,
    config: &ColocateTrainerConfig,
    identity: &Identity<'_>,
) -> Result<Store, Error> {
    let clock = Arc::clone(&identity.clock);
    let now = move || u64::try_from(clock.now().as_millisecond()).unwrap_or(0);
    let options = StoreOptions::new(experiment.name(), run_config::config_digest(config), now)
        .environment(identity.environment.clone())
        .holder(identity.command);
    Ok(Store::open(experiment.checkpoints_dir(), options)?)
}

/// The newest valid checkpoint; the damaged ones passed over on the way are reported and moved out of the way.
fn find(
    store: &mut Store,
    experiment: &Experiment,
    events: &mut EventLog,
    warnings: &mut Vec<String>,
) -> Result<Option<Checkpoint>, Error> {
    let discovery = store.discover()?;
    if discovery.valid.is_none() && !discovery.rejected.is_empty() {
        let root = store.root().to_owned();
        return Err(piton_checkpoint::Error::NoValidCheckpoint { root, rejected: discovery.rejected }.into());
    }
    for rejected in &discovery.rejected {
        let reason = rejected.to_string();
        events
            .append(Event::Fallback { path: experiment.relative(&rejected.path), reason: reason.clone() })?;
        warnings.push(format!("damaged checkpoint passed over: {reason}"));
    }
    if let Some(checkpoint) = &discovery.valid {
        for path in store.set_aside_after(checkpoint.step())? {
            let reason = "newer than the checkpoint resumed".to_owned();
            events.append(Event::SetAside { path: experiment.relative(&path), reason })?;
        }
    }
    Ok(discovery.valid)
}

fn set_aside(experiment: &Experiment, keep: Keep, events: &mut EventLog) -> Result<(), Error> {
    for path in set_aside_after(experiment, keep)? {
        let reason = "trajectories of steps that will be done again".to_owned();
        events.append(Event::SetAside { path: experiment.relative(&path), reason })?;
    }
    Ok(())
}

/// Exactness depends on the engine, the processor and the thread count; a difference is named.
fn name_differences(checkpoint: &Checkpoint, now: &BTreeMap<String, String>, warnings: &mut Vec<String>) {
    for (key, then) in &checkpoint.manifest().environment {
        match now.get(key) {
            Some(value) if value == then => {}
            value => warnings.push(format!(
                "{key} was {then:?} when the checkpoint was written and is {:?} now: the resumed run is valid, but not \
                 byte for byte the one that would have gone on",
                value.map_or("unknown", String::as_str)
            )),
        }
    }
}
