//! A process that saves in a loop is killed at random moments.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use piton_checkpoint::Overwrite;

use crate::support::{assert_filled, fill, last, names, no_pins, open, read};

const ROOT: &str = "PITON_KILL_ROOT";
const KEEP: &str = "PITON_KILL_KEEP";
/// Kills for each setting; the default takes a few seconds.
const KILLS: &str = "PITON_KILLS";

/// Not a test by itself: the process that [`survives`] starts and kills. Writes `ack N` after each save.
#[test]
#[ignore = "the victim that the other tests here start: cargo test -p piton-checkpoint kill"]
fn victim() {
    let Some(root) = std::env::var_os(ROOT) else { return };
    let keep = std::env::var(KEEP).unwrap().parse().unwrap();
    let mut store = open(Path::new(&root));
    let newest = store.latest().unwrap();
    if let Some(newest) = &newest {
        assert_filled(newest);
    }
    // A kill between a save and its prune leaves one too many; without this, each such kill would add one.
    store.prune(last(keep), &no_pins()).unwrap();
    let first = newest.map_or(1, |newest| newest.step() + 1);
    for step in first.. {
        store.save(step, Overwrite::Refuse, |stage| fill(stage, step)).unwrap();
        if step % 4 == 0 {
            store.save(step, Overwrite::Exchange, |stage| fill(stage, step)).unwrap();
        }
        let mut out = std::io::stdout();
        writeln!(out, "ack {step}").unwrap();
        out.flush().unwrap();
        let pruned = store.prune(last(keep), &no_pins()).unwrap();
        assert!(pruned.problems.is_empty(), "{:?}", pruned.problems);
    }
}

fn acknowledged(output: &str) -> Option<u64> {
    // A line without its end was cut by the kill, so its number may be too.
    let (lines, _cut) = output.rsplit_once('\n')?;
    lines.lines().filter_map(|line| line.strip_prefix("ack ")?.parse().ok()).next_back()
}

fn survives(keep: usize) {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    let kills: u64 = std::env::var(KILLS).map_or(30, |kills| kills.parse().unwrap());
    let mut newest_ack = 0;
    let mut mid_save = 0;
    let mut seed = 0x9e37_79b9_u64 + keep as u64;
    for kill in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::victim", "--ignored", "--nocapture"])
            .env(ROOT, root)
            .env(KEEP, keep.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Killed so many acknowledgements after its start, and a little later: the pace of the machine does not matter.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (wanted, later_us) = ((seed >> 33) % 4, (seed >> 40) % 20_000);
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut output = String::new();
        while (output.matches("ack ").count() as u64) < wanted && stdout.read_line(&mut output).unwrap() > 0 {
        }
        std::thread::sleep(Duration::from_micros(later_us));
        child.kill().unwrap();
        stdout.read_to_string(&mut output).unwrap();
        let mut complaint = String::new();
        child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        let ended = child.wait().unwrap();
        assert!(ended.code().is_none(), "kill {kill}: the victim ended by itself: {output}{complaint}");
        newest_ack = acknowledged(&output).unwrap_or(newest_ack);

        mid_save += usize::from(names(root).iter().any(|name| name.starts_with(".tmp-")));
        let reader = read(root);
        let steps = reader.steps().unwrap();
        steps.iter().for_each(|step| assert_filled(&reader.at(*step).unwrap()));
        let newest = steps.last().copied().unwrap_or(0);
        assert!(newest >= newest_ack, "kill {kill}: {newest_ack} was acknowledged, {newest} is the newest");
        assert!(steps.len() <= keep + 1, "kill {kill}: keep {keep}, found {steps:?}");
    }
    assert!(newest_ack >= kills, "only {newest_ack} saves in {kills} kills");
    assert!(mid_save > 0, "no kill met a save");
    let store = open(root);
    assert!(names(root).iter().all(|name| name.starts_with("ckpt-step-")), "{:?}", names(root));
    assert_filled(&store.latest().unwrap().unwrap());
}

#[test]
fn sigkill_never_loses_an_acknowledged_step_with_keep_1() {
    survives(1);
}

#[test]
fn sigkill_never_loses_an_acknowledged_step_with_keep_2() {
    survives(2);
}
