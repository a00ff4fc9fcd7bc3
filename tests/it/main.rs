//! End-to-end tests.

mod architecture;
mod colocate_checkpoint;
