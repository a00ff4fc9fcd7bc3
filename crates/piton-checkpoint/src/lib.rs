//! Checkpoint directories that are complete or absent.
