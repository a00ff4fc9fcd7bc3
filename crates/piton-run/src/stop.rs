//! Stop as an event: asked for by a signal or by the program, polled by everything that takes long.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use nix::sys::signal::Signal;

use crate::signals::{StopSignal, is_ignored, unblock_stop_signals};
use crate::{Error, Result, clock};

/// Signals closer together than this are one request.
///
/// `timeout` and some schedulers signal a process and then its group, so one request arrives twice within
/// microseconds; a person's second Ctrl-C takes longer than this.
pub const SAME_REQUEST_MS: u64 = 100;

/// Tells the whole run that it has been asked to stop, and how urgently. Cheap to clone and to poll.
///
/// ```
/// use piton_run::Stop;
///
/// let stop = Stop::manual(); // in a program: Stop::install()?
/// assert_eq!(stop.requested(), None);
/// stop.request("time limit reached");
/// assert_eq!(stop.requested().unwrap().to_string(), "time limit reached");
/// ```
#[derive(Clone, Debug)]
pub struct Stop {
    state: Arc<State>,
}

/// Why a run was asked to stop; displayed as `SIGTERM` or as the program's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The signal that came first.
    Signal(StopSignal),
    /// What [`Stop::request`] was given.
    Asked(String),
}

impl Stop {
    /// Catches SIGTERM, SIGINT, SIGUSR1 and SIGHUP from here on, then unblocks them in this thread.
    ///
    /// Signals that were held back over an `exec` by [`block_stop_signals`](crate::block_stop_signals) are seen
    /// at once. Call it first in `main`, before other threads start. SIGHUP is left alone where it is ignored, so
    /// `nohup` keeps working; otherwise a closed terminal saves the run (printing may fail from then on). SIGPIPE
    /// and SIGXFSZ no longer kill the process: the write that caused them returns an error instead. Programs that
    /// this one starts get the default behaviour of all of these.
    ///
    /// Handlers belong to the process: every call gives a clone of the same `Stop`.
    pub fn install() -> Result<Self> {
        static INSTALLED: Mutex<Option<Stop>> = Mutex::new(None);
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        let stop = match &*installed {
            Some(stop) => stop.clone(),
            None => {
                let stop = Self::manual();
                stop.catch()?;
                installed.insert(stop).clone()
            }
        };
        unblock_stop_signals()?;
        Ok(stop)
    }

    /// One without handlers, for tests and for programs that have their own.
    pub fn manual() -> Self {
        Self { state: Arc::new(State::default()) }
    }

    /// Asks the run to stop. Only the first reason counts, and a signal after it is not yet a second one.
    pub fn request(&self, reason: impl Into<String>) {
        if self.state.text.set(reason.into()).is_ok() {
            self.state.set_first(ASKED);
        }
    }

    /// Makes the request urgent, as a second signal does; without one before it, it is also the first.
    pub fn urge(&self, reason: impl Into<String>) {
        self.request(reason);
        self.state.urgent.store(true, Ordering::Relaxed);
    }

    /// The reason to stop, if there is one: a single relaxed load while there is none.
    #[inline]
    pub fn requested(&self) -> Option<StopReason> {
        if self.state.first.load(Ordering::Relaxed) == NOTHING { None } else { Some(self.state.reason()) }
    }

    /// True once a stop was asked for; the form of [`requested`](Self::requested) for inner loops.
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.state.first.load(Ordering::Relaxed) != NOTHING
    }

    /// True after a second signal, more than [`SAME_REQUEST_MS`] after the first: save no new work, just end.
    #[inline]
    pub fn is_urgent(&self) -> bool {
        self.state.urgent.load(Ordering::Relaxed)
    }

    fn catch(&self) -> Result<()> {
        clock::monotonic_ns(); // rustix looks the vDSO up on the first call: not in a handler
        for signal in StopSignal::ALL {
            if signal == StopSignal::Hup && is_ignored(signal)? {
                continue;
            }
            let state = Arc::clone(&self.state);
            on_signal(signal, move || state.notice(signal.number(), clock::monotonic_ns()))?;
        }
        // A handler, not "ignore": children inherit what is ignored, and not what is handled.
        for signal in [Signal::SIGPIPE, Signal::SIGXFSZ] {
            signal_hook::flag::register(signal as i32, Arc::new(AtomicBool::new(false)))
                .map_err(|source| Error::Signal { op: "catch SIGPIPE and SIGXFSZ", source })?;
        }
        Ok(())
    }
}

impl StopReason {
    /// The signal's name, or the program's own words.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Signal(signal) => signal.name(),
            Self::Asked(text) => text,
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const NOTHING: i32 = 0;
const ASKED: i32 = -1;

#[derive(Debug, Default)]
struct State {
    /// [`NOTHING`], [`ASKED`], or the number of the first signal.
    first: AtomicI32,
    /// When the first signal came, in monotonic nanoseconds; 0 before that.
    signal_ns: AtomicU64,
    urgent: AtomicBool,
    text: OnceLock<String>,
}

impl State {
    /// Runs inside signal handlers: atomics only.
    fn notice(&self, signal: i32, now_ns: u64) {
        let now_ns = now_ns.max(1);
        match self.signal_ns.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => self.set_first(signal),
            Err(first_ns) if now_ns.saturating_sub(first_ns) > SAME_REQUEST_MS * 1_000_000 => {
                self.urgent.store(true, Ordering::Relaxed);
            }
            Err(_) => {}
        }
    }

    fn set_first(&self, what: i32) {
        // Losing this race is right: somebody else's reason came first.
        let _ = self.first.compare_exchange(NOTHING, what, Ordering::Release, Ordering::Relaxed);
    }

    #[cold]
    fn reason(&self) -> StopReason {
        let first = self.first.load(Ordering::Acquire);
        match StopSignal::ALL.into_iter().find(|signal| signal.number() == first) {
            Some(signal) => StopReason::Signal(signal),
            None => StopReason::Asked(self.text.get().cloned().unwrap_or_default()),
        }
    }
}

#[expect(
    unsafe_code,
    reason = "signal-hook has no safe action that knows when the first of two signals came"
)]
fn on_signal(signal: StopSignal, action: impl Fn() + Send + Sync + 'static) -> Result<()> {
    // SAFETY: `action` is `State::notice` with `clock::monotonic_ns`: it stores and exchanges atomics and calls
    // clock_gettime, all async-signal-safe; it takes no lock, allocates nothing and cannot panic.
    unsafe { signal_hook::low_level::register(signal.number(), action) }
        .map_err(|source| Error::Signal { op: "catch the stop signals", source })?;
    Ok(())
}
