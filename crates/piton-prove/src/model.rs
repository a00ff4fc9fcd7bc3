//! Random histories of a store against a model of what must be there: saves in the foreground and the background,
//! pruning by random policies, pins, crashes in the middle of a save or a prune, damage, rollbacks, second writers.
//!
//! A crash is a file layer in which, from a random call on, nothing has any effect: what a killed process leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail, ensure};
use piton_checkpoint::{
    BackgroundStore, Error, FileHook, Keep, Listed, Op, Overwrite, Retention, Store, Verdict,
    checkpoint_name, plan,
};

use crate::content;
use crate::proof::{Outcome, Setting};
use crate::subject::options;

/// Bytes of the largest file; now and then one that is written past the page cache.
const LARGE: usize = 3000;
/// Commands of one history.
const COMMANDS: usize = 40;

pub(crate) fn run(setting: &Setting) -> Result<Outcome> {
    let histories = if setting.long { 2000 } else { 40 };
    let (mut points, mut violations) = (0, Vec::new());
    for history in 0..histories {
        let seed = setting.seed.wrapping_mul(1_000_003).wrapping_add(history);
        let scratch = setting.in_memory()?;
        let mut world = World::new(scratch.path().join("store"), seed);
        for _ in 0..COMMANDS {
            points += 1;
            if let Err(error) = world.step() {
                violations.push(format!("seed {seed}, after{}: {error:#}", world.told));
                break;
            }
        }
    }
    Ok(Outcome::of(
        points,
        format!("commands of {histories} histories, the model compared after each"),
        violations,
    ))
}

/// Lets calls through up to a point, and none after it.
#[derive(Debug)]
struct Crash {
    at: usize,
    calls: AtomicUsize,
}

impl FileHook for Crash {
    fn before(&self, _op: Op, _path: &Path) -> Verdict {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if call < self.at { Verdict::Go } else { Verdict::Fail(5) }
    }
}

/// What the model knows of one checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Acknowledged, and must be there whole.
    Good,
    /// Harmed by us, and must be refused.
    Damaged,
}

struct World {
    root: PathBuf,
    random: u64,
    /// What must be visible.
    known: BTreeMap<u64, Known>,
    pins: BTreeSet<u64>,
    foreign: Vec<PathBuf>,
    told: String,
}

impl World {
    fn new(root: PathBuf, seed: u64) -> Self {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self {
            root,
            random,
            known: BTreeMap::new(),
            pins: BTreeSet::new(),
            foreign: Vec::new(),
            told: String::new(),
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % below
    }

    fn step(&mut self) -> Result<()> {
        match self.draw(14) {
            0..=3 => self.save(None)?,
            4 => self.save_in_background()?,
            5 => self.overwrite()?,
            6 | 7 => self.prune(None)?,
            8 => {
                let at = usize::try_from(self.draw(90))?;
                self.save(Some(at))?;
            }
            9 => {
                let at = usize::try_from(self.draw(60))?;
                self.prune(Some(at))?;
            }
            10 => self.pin()?,
            11 => self.damage()?,
            12 => self.roll_back()?,
            _ => self.foreign()?,
        }
        self.compare()
    }

    fn tell(&mut self, what: &str) {
        let _ = write!(self.told, " {what};");
    }

    fn next_step(&mut self) -> u64 {
        let gap = 1 + self.draw(3);
        self.known.keys().next_back().copied().unwrap_or(0) + gap
    }

    /// Opens the store as the next process would: newer damaged ones are set aside, as a resume does.
    fn open(&mut self, crash: Option<usize>) -> Result<Option<Store>> {
        let options = match crash {
            Some(at) => options().hook(Arc::new(Crash { at, calls: AtomicUsize::new(0) })),
            None => options(),
        };
        match Store::open(&self.root, options) {
            Ok(store) => Ok(Some(store)),
            Err(_) if crash.is_some() => Ok(None),
            Err(error) => Err(error).context("open"),
        }
    }

    fn save(&mut self, crash: Option<usize>) -> Result<()> {
        let step = self.next_step();
        self.tell(&format!("save {step}{}", crash.map_or(String::new(), |at| format!(" and crash at {at}"))));
        let Some(mut store) = self.open(crash)? else { return Ok(()) };
        match store.save(step, Overwrite::Refuse, |stage| content::fill(stage, step, LARGE)) {
            Ok(saved) => {
                ensure!(saved.step() == step, "saved {step}, got {}", saved.step());
                self.known.insert(step, Known::Good);
            }
            Err(_) if crash.is_some() => {
                drop(store);
                self.settle(step)?;
            }
            Err(error) => return Err(error).context("save"),
        }
        Ok(())
    }

    /// After a crash: the step may be there, whole, or not at all.
    fn settle(&mut self, step: u64) -> Result<()> {
        let reader = Store::open_read_only(&self.root)?;
        if reader.steps()?.contains(&step) {
            content::examine(&reader.at(step).context("visible after a crash and bad")?, LARGE)?;
            self.known.insert(step, Known::Good);
        }
        Ok(())
    }

    fn save_in_background(&mut self) -> Result<()> {
        let steps = [self.next_step(), self.next_step() + 5];
        self.tell(&format!("save {steps:?} in the background"));
        let Some(store) = self.open(None)? else { return Ok(()) };
        let mut store = BackgroundStore::new(store)?;
        for step in steps {
            // the handle is dropped: what is not told there is told by the next call
            drop(store.save(step, Overwrite::Refuse, |stage| content::fill(stage, step, LARGE + 2_000_000))?);
            drop(store.reader().steps()?);
        }
        let mut store = store.close()?;
        for step in steps {
            let saved = store.reader().at(step)?;
            content::examine(&saved, LARGE + 2_000_000)?;
        }
        // from here on the model wants the usual size: the last one is written once more
        for step in steps {
            self.known.insert(step, Known::Good);
        }
        let last = steps[1];
        store.save(last, Overwrite::Exchange, |stage| content::fill(stage, last, LARGE))?;
        let only = Retention::from(Keep::EverySteps(last.try_into()?));
        let pins =
            self.pins.iter().copied().chain(self.known.keys().copied().filter(|step| *step != steps[0]));
        store.prune(only, &pins.collect())?;
        if !self.pins.contains(&steps[0]) {
            self.known.remove(&steps[0]);
        }
        Ok(())
    }

    fn overwrite(&mut self) -> Result<()> {
        let Some((&step, Known::Good)) = self.known.iter().next_back() else { return Ok(()) };
        self.tell(&format!("overwrite {step}"));
        let Some(mut store) = self.open(None)? else { return Ok(()) };
        let refused = store.save(step, Overwrite::Refuse, |_| -> Result<(), Error> { Ok(()) });
        ensure!(refused.is_err(), "step {step} was overwritten without being told to");
        store.save(step, Overwrite::Exchange, |stage| content::fill(stage, step, LARGE))?;
        Ok(())
    }

    fn prune(&mut self, crash: Option<usize>) -> Result<()> {
        let count = std::num::NonZeroUsize::new(usize::try_from(1 + self.draw(4))?).context("not zero")?;
        let policy = match self.draw(3) {
            0 => Retention::from(Keep::Last(count)),
            1 => Keep::Last(count).or(Keep::EverySteps((3 + self.draw(4)).try_into()?)),
            _ => Retention::from(Keep::All),
        };
        self.tell(&format!(
            "prune to {policy}{}",
            crash.map_or(String::new(), |at| format!(", crash at {at}"))
        ));
        // a prune reads the newest in full and of older ones the sizes: bits that flipped there are found when they are read
        let newest = self.known.iter().rev().find(|(_, known)| **known == Known::Good).map(|(step, _)| *step);
        let counted = self.known.keys().filter(|step| Some(**step) <= newest);
        let valid: BTreeMap<u64, Listed> = counted.map(|step| (*step, Listed::default())).collect();
        let wanted = plan(&valid, &policy, &self.pins, 0);
        let Some(mut store) = self.open(crash)? else { return Ok(()) };
        match store.prune(policy, &BTreeSet::new()) {
            Ok(pruned) if crash.is_none() => {
                let removed: BTreeSet<u64> = pruned.removed.iter().copied().collect();
                ensure!(removed == wanted.remove, "removed {removed:?}, the policy says {:?}", wanted.remove);
                self.known.retain(|step, _| !removed.contains(step));
            }
            Err(error) if crash.is_none() => return Err(error).context("prune"),
            _ => {
                drop(store);
                let there: BTreeSet<u64> = Store::open_read_only(&self.root)?.steps()?.into_iter().collect();
                let gone: BTreeSet<u64> =
                    self.known.keys().filter(|step| !there.contains(step)).copied().collect();
                ensure!(gone.is_subset(&wanted.remove), "{gone:?} are gone, of {:?} that may", wanted.remove);
                self.known.retain(|step, _| !gone.contains(step));
            }
        }
        Ok(())
    }

    fn pin(&mut self) -> Result<()> {
        let steps: Vec<u64> =
            self.known.iter().filter(|(_, known)| **known == Known::Good).map(|(step, _)| *step).collect();
        if steps.is_empty() {
            return Ok(());
        }
        let step = steps[usize::try_from(self.draw(steps.len() as u64))?];
        let reader = Store::open_read_only(&self.root)?;
        if self.pins.contains(&step) {
            self.tell(&format!("unpin {step}"));
            ensure!(reader.unpin(step)?, "step {step} was pinned and is not");
            self.pins.remove(&step);
        } else {
            self.tell(&format!("pin {step}"));
            reader.pin(step, "by the model")?;
            self.pins.insert(step);
        }
        Ok(())
    }

    fn damage(&mut self) -> Result<()> {
        // one good one stays, or there is nothing left to prove
        let good: Vec<u64> =
            self.known.iter().filter(|(_, known)| **known == Known::Good).map(|(step, _)| *step).collect();
        if good.len() < 2 {
            return Ok(());
        }
        let step = good[usize::try_from(self.draw(good.len() as u64))?];
        self.tell(&format!("damage {step}"));
        let file = self.root.join(checkpoint_name(step)).join("weights/model.bin");
        let mut bytes = std::fs::read(&file)?;
        let at = usize::try_from(self.draw(bytes.len() as u64))?;
        bytes[at] ^= 1 << self.draw(8);
        std::fs::write(&file, bytes)?;
        self.known.insert(step, Known::Damaged);
        Ok(())
    }

    fn roll_back(&mut self) -> Result<()> {
        let good: Vec<u64> =
            self.known.iter().filter(|(_, known)| **known == Known::Good).map(|(step, _)| *step).collect();
        let Some(&to) = good.get(good.len().saturating_sub(2)) else { return Ok(()) };
        self.tell(&format!("roll back to {to}"));
        let Some(mut store) = self.open(None)? else { return Ok(()) };
        store.set_aside_after(to)?;
        self.known.retain(|step, _| *step <= to);
        self.pins.retain(|step| *step <= to);
        Ok(())
    }

    fn foreign(&mut self) -> Result<()> {
        if self.root.exists() {
            let name =
                ["notes.txt", "ckpt-step-07", "ckpt-step-3.bak", "best"][usize::try_from(self.draw(4))?];
            let path = self.root.join(name);
            self.tell(&format!("foreign {name}"));
            std::fs::write(&path, name)?;
            if !self.foreign.contains(&path) {
                self.foreign.push(path);
            }
        }
        Ok(())
    }

    /// Everything that must hold at every moment.
    fn compare(&mut self) -> Result<()> {
        if !self.root.exists() {
            return Ok(());
        }
        {
            let reader = Store::open_read_only(&self.root)?;
            let there = reader.steps()?;
            let expected: Vec<u64> = self.known.keys().copied().collect();
            ensure!(there == expected, "visible are {there:?}, expected {expected:?}");
            let newest =
                self.known.iter().rev().find(|(_, known)| **known == Known::Good).map(|(step, _)| *step);
            match (reader.latest(), newest) {
                (Ok(Some(found)), Some(newest)) => {
                    ensure!(found.step() == newest, "resumed from {}, expected {newest}", found.step());
                    content::examine(&found, LARGE)?;
                }
                (Ok(None), None) if expected.is_empty() => {}
                (Err(Error::NoValidCheckpoint { .. }), None) => {}
                (found, newest) => bail!("latest is {found:?}, expected {newest:?}"),
            }
            let pins: BTreeSet<u64> = reader.pins()?.into_keys().collect();
            ensure!(pins == self.pins, "pinned are {pins:?}, expected {:?}", self.pins);
        }
        for path in &self.foreign {
            ensure!(path.exists(), "{} is gone and was not the store's", path.display());
        }
        let _held = Store::open(&self.root, options())?;
        // a taken lock is waited for, for a moment, so it is not asked for each time
        if self.draw(32) == 0 {
            let second = Store::open(&self.root, options());
            ensure!(matches!(second, Err(Error::Locked { .. })), "two writers at once");
        }
        for entry in std::fs::read_dir(&self.root)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            ensure!(
                !name.starts_with(".tmp-") && !name.starts_with(".trash-"),
                "{name} is left over after an open"
            );
        }
        Ok(())
    }
}
