//! What the generation engine promises, held through its public API.

mod batch_invariance;
mod golden;
mod lifecycle;
mod sampling;
mod support;
