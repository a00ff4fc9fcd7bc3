//! Every system call fails, once and from then on, with every error that a disk, a quota or a limit gives.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, anyhow, ensure};
use piton_checkpoint::{BackgroundStore, Error, FileHook, Keep, Op, Overwrite, Stage, Store, Verdict};
use rustix::io::Errno;

use crate::content;
use crate::proof::{Outcome, Setting};
use crate::scenario::{BEFORE, SCENARIOS, Scenario, copy};
use crate::subject::options;
use crate::{check, proof};

/// What a call answers instead of doing its work, by name.
const FAULTS: [(&str, Verdict); 8] = [
    ("EIO", Verdict::Fail(Errno::IO.raw_os_error())),
    ("ENOSPC", Verdict::Fail(Errno::NOSPC.raw_os_error())),
    ("EDQUOT", Verdict::Fail(Errno::DQUOT.raw_os_error())),
    ("EROFS", Verdict::Fail(Errno::ROFS.raw_os_error())),
    ("EMFILE", Verdict::Fail(Errno::MFILE.raw_os_error())),
    ("EINTR", INTERRUPTED),
    ("one byte", Verdict::Short(1)),
    ("4095 bytes", Verdict::Short(4095)),
];

const INTERRUPTED: Verdict = Verdict::Fail(Errno::INTR.raw_os_error());

/// How often a call is interrupted or cut short at most: for ever would be a machine that does nothing else.
const INTERRUPTIONS: usize = 50;

/// Answers a verdict at one call, or from it on.
#[derive(Debug)]
struct Fault {
    at: usize,
    lasts: bool,
    verdict: Verdict,
    calls: AtomicUsize,
    given: AtomicUsize,
    syncs: Mutex<BTreeMap<PathBuf, usize>>,
}

impl FileHook for Fault {
    fn before(&self, op: Op, path: &Path) -> Verdict {
        if op == Op::Sync {
            *self.syncs.lock().unwrap_or_else(PoisonError::into_inner).entry(path.to_owned()).or_default() +=
                1;
        }
        let index = self.calls.fetch_add(1, Ordering::Relaxed);
        let meant = index == self.at || (self.lasts && index > self.at);
        let hinders = matches!(self.verdict, Verdict::Short(_)) || self.verdict == INTERRUPTED;
        if !meant || (hinders && self.given.load(Ordering::Relaxed) == INTERRUPTIONS) {
            return Verdict::Go;
        }
        self.given.fetch_add(1, Ordering::Relaxed);
        self.verdict
    }
}

pub(crate) fn run(setting: &Setting) -> Result<Outcome> {
    let stride = if setting.long { 1 } else { 29 };
    let (mut points, mut violations) = (0, Vec::new());
    for (index, scenario) in SCENARIOS.iter().enumerate() {
        let base = setting.scratch()?;
        scenario.prepare(&base.path().join("store"))?;
        for (name, verdict) in FAULTS {
            for lasts in [false, true] {
                for at in (index % stride..).step_by(stride) {
                    let scratch = setting.scratch()?;
                    let root = scratch.path().join("store");
                    copy(&base.path().join("store"), &root)?;
                    let (met, found) = try_out(scenario, &root, verdict, lasts, at);
                    if !met {
                        break;
                    }
                    points += 1;
                    if let Err(error) = found {
                        let once = if lasts { "from" } else { "at" };
                        violations.push(format!("{scenario}, {name} {once} call {at}: {error:#}"));
                    }
                }
            }
        }
    }
    let note = "EIO, ENOSPC, EDQUOT, EROFS, EMFILE, EINTR and short writes, once and lasting";
    Ok(proof::Outcome::of(points, note, violations))
}

/// Runs one writer with a fault; says whether it was met.
fn try_out(scenario: &Scenario, root: &Path, verdict: Verdict, lasts: bool, at: usize) -> (bool, Result<()>) {
    let hook = Arc::new(Fault {
        at,
        lasts,
        verdict,
        calls: AtomicUsize::new(0),
        given: AtomicUsize::new(0),
        syncs: Mutex::default(),
    });
    let open_before = open_files();
    let result = write(scenario, root, Arc::clone(&hook));
    let open_after = open_files();
    let met = hook.given.load(Ordering::Relaxed) > 0;
    let judge = || {
        if verdict == INTERRUPTED || matches!(verdict, Verdict::Short(_)) {
            ensure!(result.is_ok(), "it is no error, but {result:?}");
        }
        ensure!(open_before == open_after, "{open_before} files were open before and {open_after} after");
        let syncs = hook.syncs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((path, count)) = syncs.iter().find(|(_, count)| **count > 1) {
            ensure!(verdict == INTERRUPTED, "{} was synced {count} times", path.display());
        }
        let acked = match &result {
            Ok(()) => BEFORE + 1,
            // a file that cannot be read is damage: an older checkpoint is taken, or the start refused
            Err(Error::NoValidCheckpoint { .. } | Error::AlreadyExists { .. })
                if verdict == Verdict::Fail(Errno::IO.raw_os_error()) =>
            {
                BEFORE
            }
            Err(error) => {
                told(error, verdict)?;
                BEFORE
            }
        };
        check::visible(root, acked, scenario.large)?;
        check::recovers(root, acked, scenario.large)
    };
    (met, judge())
}

/// The error says which call on which path failed, and how.
fn told(error: &Error, verdict: Verdict) -> Result<()> {
    let Verdict::Fail(errno) = verdict else {
        return Err(anyhow!("a short write is no error, but: {error}"));
    };
    ensure!(
        error.errno() == Some(errno),
        "errno {errno} was given, the error says {:?}: {error}",
        error.errno()
    );
    ensure!(error.to_string().contains('/'), "the error names no path: {error}");
    Ok(())
}

/// Resumes, saves the next step and prunes. Errors that the store only reports count as errors.
fn write(scenario: &Scenario, root: &Path, hook: Arc<Fault>) -> Result<(), Error> {
    let mut store = Store::open(root, options().hook(hook))?;
    let step = store.latest()?.map_or(0, |newest| newest.step()) + 1;
    let fill = |stage: &mut Stage| content::fill(stage, step, scenario.large);
    let mut store = if scenario.background {
        let mut background = BackgroundStore::new(store)?;
        background.save(step, Overwrite::Refuse, fill)?.wait()?;
        background.close()?
    } else {
        store.save(step, Overwrite::Refuse, fill)?;
        store
    };
    let keep = Keep::Last(scenario.keep.try_into().unwrap_or(std::num::NonZeroUsize::MIN));
    // what could not be removed is tried again later, and is no failure of the save
    store.prune(keep, &std::collections::BTreeSet::new())?;
    Ok(())
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}
