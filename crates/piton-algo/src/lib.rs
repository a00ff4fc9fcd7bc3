//! Advantages, schedules and staleness arithmetic on plain slices.
