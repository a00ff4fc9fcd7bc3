//! The learner's part of a checkpoint.
//!
//! ```text
//! weights/model.safetensors      the policy, by Hugging Face names
//! weights/optimizer.safetensors  exp_avg.<name> and exp_avg_sq.<name>; the step count in the header
//! weights/rollout.safetensors    what the rollout engine holds, when that is an older step's weights
//! ```

use std::collections::BTreeMap;
use std::io::Write;

use piton_checkpoint::{Checkpoint, Stage};
use piton_lm::{ModelConfig, Weights};
use piton_torch::{AdamW, check_finite, read_safetensors, write_safetensors};
use piton_trainer::{ResumeRequest, SaveRequest};
use tch::Tensor;

use crate::publish::PublishWeights;
use crate::{Error, Result};

/// The policy's weights in a checkpoint.
pub const MODEL_FILE: &str = "weights/model.safetensors";
/// The optimizer's state in a checkpoint.
pub const OPTIMIZER_FILE: &str = "weights/optimizer.safetensors";
/// The rollout engine's weights in a checkpoint, where they differ from the policy's.
pub const ROLLOUT_FILE: &str = "weights/rollout.safetensors";

/// Writes the state; same state, same bytes. Nothing is written when a tensor is not finite.
pub(crate) fn save(
    stage: &mut Stage,
    request: SaveRequest,
    params: &BTreeMap<String, Tensor>,
    optimizer: &AdamW,
    rollout: &dyn PublishWeights,
) -> Result<()> {
    let step = request.step;
    check_finite(&format!("save: weights after train step {step}"), params)?;
    check_finite(&format!("save: optimizer state after train step {step}"), &optimizer.state())?;
    write(stage, MODEL_FILE, params, &BTreeMap::new())?;
    if !request.no_save_optimizer {
        write(stage, OPTIMIZER_FILE, &optimizer.state(), &optimizer.state_metadata())?;
    }
    if request.model_step != step {
        let (weights, held) = rollout.published()?;
        if held != request.model_step {
            return Err(Error::WrongVersion { operation: "save", found: held, expected: request.model_step });
        }
        write(stage, ROLLOUT_FILE, weights.tensors(), &BTreeMap::new())?;
    }
    Ok(())
}

/// A checked state that fits the learner.
pub(crate) struct Loaded {
    /// The policy's weights.
    pub(crate) policy: Weights,
    /// The optimizer at its step.
    pub(crate) optimizer: AdamW,
    /// What the rollout engine is to hold; the policy's weights when absent.
    pub(crate) rollout: Option<Weights>,
}

/// Reads and checks a whole state; changes nothing. `fresh` is an optimizer at step 0 for the learner's parameters.
pub(crate) fn load(request: ResumeRequest<'_>, model: &ModelConfig, mut fresh: AdamW) -> Result<Loaded> {
    let checkpoint = request.checkpoint;
    let policy = weights(checkpoint, MODEL_FILE, model)?;
    if request.load_optimizer_states {
        require(
            checkpoint,
            OPTIMIZER_FILE,
            "write load_optimizer_states = false to start the optimizer anew",
        )?;
        let (bytes, origin) = read(checkpoint, OPTIMIZER_FILE)?;
        let file = read_safetensors(&bytes, &origin)?;
        check_finite(&origin, &file.tensors)?;
        fresh.load_state(&file.tensors, &file.metadata)?;
    }
    let rollout = if request.model_step == checkpoint.step() {
        None
    } else {
        require(
            checkpoint,
            ROLLOUT_FILE,
            "the rollout engine's weights are of another step; resume from another checkpoint",
        )?;
        Some(weights(checkpoint, ROLLOUT_FILE, model)?)
    };
    Ok(Loaded { policy, optimizer: fresh, rollout })
}

fn weights(checkpoint: &Checkpoint, path: &'static str, model: &ModelConfig) -> Result<Weights> {
    let (bytes, origin) = read(checkpoint, path)?;
    let file = read_safetensors(&bytes, &origin)?;
    check_finite(&origin, &file.tensors)?;
    Ok(Weights::new(model, file.tensors, &origin)?)
}

fn read(checkpoint: &Checkpoint, path: &str) -> Result<(Vec<u8>, String)> {
    let bytes = checkpoint.read(path)?;
    Ok((bytes, checkpoint.path().join(path).display().to_string()))
}

fn require(checkpoint: &Checkpoint, path: &str, advice: &str) -> Result<()> {
    if checkpoint.files().any(|file| file == path) {
        return Ok(());
    }
    let fault = format!("there is no {path} in this checkpoint: {advice}");
    Err(Error::Resume { path: checkpoint.path().to_path_buf(), fault })
}

fn write(
    stage: &mut Stage,
    path: &str,
    tensors: &BTreeMap<String, Tensor>,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let mut file = stage.create(path)?;
    write_safetensors(tensors, metadata, &mut file)?;
    file.flush().map_err(|source| Error::Io { action: "write", path: path.into(), source })?;
    Ok(file.finish()?)
}
