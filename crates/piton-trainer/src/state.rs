//! The trainer's own documents in a checkpoint.
//!
//! ```text
//! train_state.json                {"cur_step": N}
//! agent_loop_manager_state.json   {"model_step": N, "replay_buffer_saved": true}
//! tasks/<task>/sampler.json       position in the task's prompts
//! replay_buffer/buffer.json       finished groups not yet trained on
//! pending_step.json               only after a stop during evaluation: what the step's tracker line lacks is the evaluation
//! ```

use std::collections::BTreeMap;

use piton_agent::{BoxError, ManagerState};
use piton_checkpoint::{Checkpoint, Stage};
use piton_replay::BufferState;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::metrics::is_volatile;

const TRAIN_STATE: &str = "train_state.json";
const MANAGER_STATE: &str = "agent_loop_manager_state.json";
const BUFFER: &str = "replay_buffer/buffer.json";
const PENDING: &str = "pending_step.json";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrainState {
    cur_step: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentLoopManagerState {
    model_step: u64,
    replay_buffer_saved: bool,
}

/// A trained step whose evaluation was cut short by a stop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PendingStep {
    /// The step's tracker line so far, clock values left out.
    pub(crate) metrics: BTreeMap<String, f64>,
}

impl PendingStep {
    pub(crate) fn new(metrics: &BTreeMap<String, f64>) -> Self {
        let kept = metrics.iter().filter(|(name, value)| !is_volatile(name) && value.is_finite());
        Self { metrics: kept.map(|(name, value)| (name.clone(), *value)).collect() }
    }
}

/// The trainer's state at the end of one step.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) cur_step: u64,
    pub(crate) model_step: u64,
    pub(crate) manager: ManagerState,
    pub(crate) pending: Option<PendingStep>,
}

impl Snapshot {
    /// Writes every document but the learner's.
    pub(crate) fn write(&self, stage: &mut Stage, save_buffer: bool) -> Result<(), BoxError> {
        stage.write_json(TRAIN_STATE, &TrainState { cur_step: self.cur_step })?;
        let manager = AgentLoopManagerState { model_step: self.model_step, replay_buffer_saved: save_buffer };
        stage.write_json(MANAGER_STATE, &manager)?;
        for (task, sampler) in &self.manager.samplers {
            stage.write_json(&sampler_path(task), sampler)?;
        }
        if save_buffer {
            stage.write_json(BUFFER, &self.manager.buffer)?;
        }
        if let Some(pending) = &self.pending {
            stage.write_json(PENDING, pending)?;
        }
        Ok(())
    }

    /// Reads them back. `tasks` are the configuration's; `empty` stands for a buffer that was not saved.
    pub(crate) fn read<'a>(
        checkpoint: &Checkpoint,
        tasks: impl Iterator<Item = &'a str>,
        empty: BufferState<piton_agent::Group>,
    ) -> Result<Self, Error> {
        let train: TrainState = checkpoint.read_json(TRAIN_STATE)?;
        if train.cur_step != checkpoint.step() {
            return Err(Error::State {
                path: checkpoint.path().join(TRAIN_STATE),
                message: format!(
                    "cur_step is {} in the checkpoint of step {}: the checkpoint was put together from two",
                    train.cur_step,
                    checkpoint.step()
                ),
            });
        }
        let manager: AgentLoopManagerState = checkpoint.read_json(MANAGER_STATE)?;
        let mut samplers = BTreeMap::new();
        for task in tasks {
            let path = sampler_path(task);
            if !checkpoint.files().any(|file| file == path) {
                return Err(Error::State {
                    path: checkpoint.path().join(path),
                    message: format!(
                        "missing: the checkpoint knows no task {task:?}. Use the tasks the run was started with, or a new work_dir"
                    ),
                });
            }
            samplers.insert(task.to_owned(), checkpoint.read_json(&path)?);
        }
        let buffer = if manager.replay_buffer_saved { checkpoint.read_json(BUFFER)? } else { empty };
        let pending = checkpoint
            .files()
            .any(|file| file == PENDING)
            .then(|| checkpoint.read_json(PENDING))
            .transpose()?;
        Ok(Self {
            cur_step: train.cur_step,
            model_step: manager.model_step,
            manager: ManagerState { samplers, buffer },
            pending,
        })
    }
}

fn sampler_path(task: &str) -> String {
    format!("tasks/{task}/sampler.json")
}
