//! Checkpoints whose every byte is a function of the step, so that a checker needs no memory.

use anyhow::{Result, ensure};
use piton_checkpoint::{Checkpoint, Error, Stage};

/// Writes step `step`'s files; `large` is the size of the largest in bytes, give or take a few hundred.
pub(crate) fn fill(stage: &mut Stage, step: u64, large: usize) -> Result<(), Error> {
    stage.write("train_state.json", format!("{{\"cur_step\": {step}}}\n").as_bytes())?;
    stage.write("weights/model.bin", &model(step, large))?;
    stage.write("tasks/sum/empty", b"")
}

/// Fails unless `checkpoint` holds, to the byte, what [`fill`] wrote for its step.
pub(crate) fn examine(checkpoint: &Checkpoint, large: usize) -> Result<()> {
    let step = checkpoint.step();
    let state = checkpoint.read("train_state.json")?;
    ensure!(
        state == format!("{{\"cur_step\": {step}}}\n").as_bytes(),
        "train_state.json is not step {step}'s"
    );
    ensure!(checkpoint.read("weights/model.bin")? == model(step, large), "model.bin is not step {step}'s");
    ensure!(checkpoint.read("tasks/sum/empty")?.is_empty(), "tasks/sum/empty is not empty");
    Ok(())
}

fn model(step: u64, large: usize) -> Vec<u8> {
    let mut state = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..large / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.chain((0..step % 509).map(|at| at.to_le_bytes()[0])).collect()
}
