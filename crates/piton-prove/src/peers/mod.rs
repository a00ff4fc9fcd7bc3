//! The same kills and power cuts for what people use: told beside the store's results, and no proof of anything here.

mod server;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use piton_rng::Seed;

use self::server::Server;
use crate::power::mount::{self, Kind};
use crate::power::rig::Recording;
use crate::proof::{Outcome, Setting};

/// Saves in a loop. The kill comes at any moment of it.
const SAVES: u64 = 6;

/// What became of the last acknowledged step.
#[derive(Debug, Default)]
struct Tally {
    points: u64,
    /// An older step was loaded.
    lost: u64,
    /// Nothing could be loaded, though something was acknowledged.
    broken: u64,
}

impl Tally {
    fn add(&mut self, acked: u64, loaded: &Result<u64, String>) {
        self.points += 1;
        match loaded {
            Ok(step) if *step < acked => self.lost += 1,
            Err(_) if acked > 0 => self.broken += 1,
            Ok(_) | Err(_) => {}
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { points, lost, broken } = self;
        match lost + broken {
            0 => write!(f, "0 of {points}"),
            all => write!(f, "{all} of {points} ({broken} unloadable, {lost} an older step)"),
        }
    }
}

pub(crate) fn run(setting: &Setting) -> Result<Outcome> {
    let mut server = match Server::start(setting) {
        Ok(server) => server,
        Err(error) => return Ok(Outcome::Skipped { why: format!("{error:#}") }),
    };
    if server.peers.is_empty() {
        return Ok(Outcome::Skipped { why: server.missing.join("; ") });
    }
    let (mut points, mut notes) = (0, Vec::new());
    for peer in server.peers.clone() {
        let kills = kills(setting, &mut server, &peer)?;
        points += kills.points;
        let mut note = format!("{peer}: kills {kills}");
        for kind in [Kind::Ext4, Kind::Xfs] {
            match mount::refused(setting).or_else(|| kind.missing()) {
                Some(why) => note.push_str(&format!(", {} skipped: {why}", kind.name())),
                None => {
                    let cuts = cuts(setting, kind, &mut server, &peer)?;
                    points += cuts.points;
                    note.push_str(&format!(", power cuts on {} {cuts}", kind.name()));
                }
            }
        }
        notes.push(note);
    }
    notes.extend(server.missing.iter().map(|why| format!("skipped: {why}")));
    Ok(Outcome::Seen { points, notes })
}

fn kills(setting: &Setting, server: &mut Server, peer: &str) -> Result<Tally> {
    let whole = {
        let scratch = setting.scratch()?;
        let started = Instant::now();
        ensure!(saved(server, peer, scratch.path(), None)?.1, "{peer} cannot save");
        started.elapsed()
    };
    let mut tally = Tally::default();
    let count = if setting.long { 300 } else { 20 };
    for index in 0..count {
        let scratch = setting.scratch()?;
        let mut rng = Seed(setting.seed).stream("kill", [index, 0, 0]);
        let (acked, _) = saved(server, peer, scratch.path(), Some(whole.mul_f64(rng.next_f64())))?;
        let loaded = server.load(peer, scratch.path())?;
        tally.add(acked, &loaded);
    }
    Ok(tally)
}

/// Saves in a loop, killed after a while if so wished. The last acknowledged step, and whether it came through.
fn saved(server: &mut Server, peer: &str, root: &Path, kill_after: Option<Duration>) -> Result<(u64, bool)> {
    let mark = root.join("acknowledged");
    fs::write(&mark, "")?;
    let pid = server.save(peer, root, SAVES, &mark)?;
    if let Some(after) = kill_after {
        thread::sleep(after);
        server::kill(pid);
    }
    let whole = server.end()?;
    let told = fs::read_to_string(&mark)?;
    let acked = told.lines().filter_map(|line| line.strip_prefix("ack ")?.parse().ok()).next_back();
    Ok((acked.unwrap_or(0), whole))
}

fn cuts(setting: &Setting, kind: Kind, server: &mut Server, peer: &str) -> Result<Tally> {
    let recording = Recording::of(setting, kind, |writer| {
        server.save(peer, writer.root, SAVES, writer.mark)?;
        ensure!(server.end()?, "{peer} cannot save");
        Ok(())
    })?;
    let count = match (setting.long, kind) {
        (false, _) => 20,
        (true, Kind::Ext4) => 300,
        (true, Kind::Xfs) => 100,
    };
    let mut tally = Tally::default();
    let (_, unexpected) = recording.replay(count, setting.seed, |root, acked| {
        let loaded = server.load(peer, root)?;
        tally.add(acked, &loaded);
        Ok(())
    })?;
    match unexpected.first() {
        None => Ok(tally),
        Some(first) => Err(anyhow::anyhow!("{first}")).context("the rig went wrong"),
    }
}
