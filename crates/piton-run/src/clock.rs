//! The only place of this crate that reads a clock.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// Where time comes from: [`SystemClock`] in a run, [`FixedClock`] in a test.
pub trait Clock: Debug + Send + Sync {
    /// The moment now, in UTC.
    fn now(&self) -> Timestamp;

    /// Seconds since some fixed moment; never goes back, unlike [`now`](Self::now).
    fn monotonic_s(&self) -> f64;
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic_s(&self) -> f64 {
        Duration::from_nanos(monotonic_ns()).as_secs_f64()
    }
}

/// A clock that stands still until it is told to move.
#[derive(Debug)]
pub struct FixedClock {
    start: Timestamp,
    elapsed_ms: AtomicU64,
}

impl FixedClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self { start, elapsed_ms: AtomicU64::new(0) }
    }

    /// Moves both the time of day and the monotonic time forward.
    pub fn advance_ms(&self, ms: u32) {
        self.elapsed_ms.fetch_add(u64::from(ms), Ordering::Relaxed);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        let elapsed = Duration::from_millis(self.elapsed_ms.load(Ordering::Relaxed));
        self.start.saturating_add(elapsed).unwrap_or(self.start)
    }

    fn monotonic_s(&self) -> f64 {
        Duration::from_millis(self.elapsed_ms.load(Ordering::Relaxed)).as_secs_f64()
    }
}

/// `2026-11-30T20:48:24.120Z`: RFC 3339 in UTC with milliseconds.
pub fn rfc3339(moment: Timestamp) -> String {
    format!("{moment:.3}")
}

/// `20261130204824`: the name of an experiment that starts at this moment, in UTC.
pub fn stamp(moment: Timestamp) -> String {
    moment.strftime("%Y%m%d%H%M%S").to_string()
}

/// Nanoseconds of CLOCK_MONOTONIC. Async-signal-safe: one clock_gettime, no lock, no allocation.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec.cast_unsigned())
}
