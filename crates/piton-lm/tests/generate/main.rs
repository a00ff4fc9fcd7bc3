//! What the generation engine promises, held through its public API.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod batch_invariance;
mod golden;
mod lifecycle;
mod sampling;
mod support;
