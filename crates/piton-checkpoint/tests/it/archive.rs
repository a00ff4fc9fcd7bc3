//! Archive pairs: seed 002's rules, format 1, damage, replacing.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use piton_checkpoint::{
    Archive, ArchiveOptions, ArchiveReader, Archives, Error, FileHook, Op, Overwrite, PairDamage, PairId,
    SaveError, StoredZip, Verdict, prune_archives,
};
use serde_json::{Map, Value, json};

use crate::support::{Trace, in_memory, names};

pub(crate) fn writer(dir: &Path) -> Archives {
    Archives::open(dir, "q3", ArchiveOptions::default()).unwrap()
}

pub(crate) fn reader(dir: &Path) -> ArchiveReader {
    Archives::open_read_only(dir, "q3").unwrap()
}

pub(crate) fn keep(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

/// Bytes that are a function of the pair and the attempt.
pub(crate) fn content(number: u64, attempt: u64) -> Vec<u8> {
    (0..5_000 + number % 100).map(|at| ((at * 31 + number * 7 + attempt * 13) % 251) as u8).collect()
}

pub(crate) fn save(archives: &mut Archives, id: PairId, attempt: u64) -> Result<PathBuf, Error> {
    let number = if let PairId::Number(number) = id { number } else { 0 };
    let overwrite = if attempt == 0 { Overwrite::Refuse } else { Overwrite::Exchange };
    let metadata = members(json!({ "attempt": attempt, "checkpoint_timesteps": number }));
    Ok(archives.save(id, overwrite, &metadata, |file| {
        let lost = |source| Error::Io { op: Op::Write, path: PathBuf::from("zip"), source };
        file.write_all(&content(number, attempt)).map_err(lost)
    })?)
}

/// Fails unless JSON and zip belong to one call of [`save`]; gives the attempt.
pub(crate) fn assert_saved(archive: &Archive) -> u64 {
    let attempt = archive.metadata()["attempt"].as_u64().unwrap();
    assert_eq!(archive.read().unwrap(), content(archive.number().unwrap_or(0), attempt));
    attempt
}

/// Names in a directory without the lock.
pub(crate) fn files(dir: &Path) -> Vec<String> {
    let mut files = names(dir);
    files.retain(|name| name != ".q3.lock");
    files
}

fn members(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/archives/v1").join(name)
}

/// Seed 002, `test_prune_checkpoints_keeps_newest`.
#[test]
fn prune_checkpoints_keeps_newest() {
    let temp = in_memory();
    for index in 0..5 {
        for suffix in ["zip", "json"] {
            let target = temp.path().join(format!("q3_ckpt_{index:09}.{suffix}"));
            fs::write(&target, "x").unwrap();
            let stamp = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000 + index);
            fs::File::options().append(true).open(&target).unwrap().set_modified(stamp).unwrap();
        }
    }
    let removed = prune_archives(temp.path(), "q3", keep(2)).unwrap();
    assert_eq!(removed, ["q3_ckpt_000000000", "q3_ckpt_000000001", "q3_ckpt_000000002"]);
    assert_eq!(
        names(temp.path()),
        [
            "q3_ckpt_000000003.json",
            "q3_ckpt_000000003.zip",
            "q3_ckpt_000000004.json",
            "q3_ckpt_000000004.zip"
        ]
    );
}

#[test]
fn pruning_by_name_orders_by_number_and_leaves_what_is_not_a_numbered_pair() {
    let temp = in_memory();
    let others =
        ["q3.json", "q3.zip", "q30_ckpt_1.zip", "q3_ckpt_-1.zip", "q3_ckpt_1.zip.bak", "q3_ckpt_x.zip"];
    let pairs = ["q3_ckpt_1000000000", "q3_ckpt_9", "q3_ckpt_000000010"].map(|stem| format!("{stem}.zip"));
    for name in others.iter().copied().chain(pairs.iter().map(String::as_str)) {
        fs::write(temp.path().join(name), "x").unwrap();
    }
    // JSONs without a zip: one of the past, one of a save that is going on.
    fs::write(temp.path().join("q3_ckpt_000000007.json"), "x").unwrap();
    fs::write(temp.path().join("q3_ckpt_1000000001.json"), "x").unwrap();
    let removed = prune_archives(temp.path(), "q3", keep(1)).unwrap();
    assert_eq!(removed, ["q3_ckpt_9", "q3_ckpt_000000010"]);
    let mut left: Vec<&str> = others.to_vec();
    left.extend(["q3_ckpt_1000000000.zip", "q3_ckpt_1000000001.json"]);
    left.sort_unstable();
    assert_eq!(names(temp.path()), left);
}

#[test]
fn pairs_of_format_1_are_loaded() {
    let dir = fixture("");
    let archives = reader(&dir);
    assert_eq!(archives.list().unwrap(), [64]);
    let latest = archives.latest().unwrap().unwrap();
    assert_eq!(latest.number(), Some(64));
    assert_eq!(latest.metadata()["ppo_hyperparams"]["learning_rate"], 0.0003);
    assert_eq!(latest.sha256(), latest.metadata()["model_sha256"]);
    assert_eq!(latest.read().unwrap(), fs::read(fixture("q3_ckpt_000000064.zip")).unwrap());
    assert_eq!(archives.open(PairId::Final).unwrap().metadata()["stop_signal"], "SIGTERM");
}

/// The fixture was made by Python's `zipfile`, `hashlib` and `json`.
#[test]
fn what_is_saved_equals_pythons_bytes() {
    let temp = in_memory();
    let metadata = members(json!({
        "ppo_hyperparams": {"n_steps": 32, "learning_rate": 0.0003, "batch_size": 32},
        "note": "größe",
        "model_sha256": "of an older pair",
        "checkpoint_timesteps": 64,
        "checkpoint": true,
    }));
    let weights: Vec<u8> = (0..=255).collect::<Vec<u8>>().repeat(8);
    let saved = writer(temp.path()).save(PairId::Number(64), Overwrite::Refuse, &metadata, |file| {
        let mut zip = StoredZip::new(file);
        zip.add("data", b"{\"num_timesteps\": 64}")?;
        zip.add("policy.pth", &weights)?;
        zip.add("state/größe", b"2048")?;
        zip.finish().map(drop)
    });
    let zip = saved.unwrap();
    assert_eq!(zip, temp.path().join("q3_ckpt_000000064.zip"));
    assert_eq!(fs::read(&zip).unwrap(), fs::read(fixture("q3_ckpt_000000064.zip")).unwrap());
    assert_eq!(
        fs::read_to_string(zip.with_extension("json")).unwrap(),
        fs::read_to_string(fixture("q3_ckpt_000000064.json")).unwrap()
    );
}

/// Length and SHA-256 as printed by `make_v1.py`.
#[test]
fn a_zip_with_65536_members_equals_pythons() {
    let temp = in_memory();
    writer(temp.path())
        .save(PairId::Final, Overwrite::Refuse, &Map::new(), |file| {
            let mut zip = StoredZip::new(file);
            (0..65_536).try_for_each(|at| zip.add(&format!("{at:05}"), b""))?;
            zip.finish().map(drop)
        })
        .unwrap();
    let archive = reader(temp.path()).open(PairId::Final).unwrap();
    assert_eq!((archive.size(), archive.sha256()), (MANY_LEN, MANY_SHA256));
}

const MANY_LEN: u64 = 5_636_194;
const MANY_SHA256: &str = "932690cc711aaa775cdc9dee32a5dd30884980efce3e8066bddae7024c86c3f2";

#[test]
fn a_member_is_refused_that_is_there_or_has_no_name() {
    let mut zip = StoredZip::new(Vec::new());
    zip.add("data", b"1").unwrap();
    for name in ["data", "", "/data"] {
        assert_eq!(zip.add(name, b"2").unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    }
}

#[test]
fn a_large_zip_is_written_in_pieces_and_hashed_right() {
    let temp = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..9_000_001_u32).map(|at| (at % 251) as u8).collect();
    let pieces = |file: &mut piton_checkpoint::ArchiveFile| -> std::io::Result<()> {
        bytes.chunks(700_001).try_for_each(|piece| file.write_all(piece))
    };
    writer(temp.path()).save(PairId::Number(1), Overwrite::Refuse, &Map::new(), pieces).unwrap();
    let archive = reader(temp.path()).latest().unwrap().unwrap();
    assert!(archive.read().unwrap() == bytes);
}

/// Every bit of both files, one at a time.
#[test]
fn any_flipped_bit_is_found_and_the_next_older_pair_is_taken() {
    let temp = in_memory();
    let dir = temp.path();
    let mut archives = writer(dir);
    let metadata = members(json!({ "checkpoint": true }));
    for number in [1, 2] {
        let fill = |file: &mut piton_checkpoint::ArchiveFile| file.write_all(b"some bytes");
        archives.save(PairId::Number(number), Overwrite::Refuse, &metadata, fill).unwrap();
    }
    for suffix in ["zip", "json"] {
        let path = dir.join(format!("q3_ckpt_000000002.{suffix}"));
        let whole = fs::read(&path).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, flipped).unwrap();
            let found = archives.reader().discover().unwrap();
            assert_eq!(found.rejected.len(), 1, "bit {bit} of the {suffix}");
            assert_eq!(found.archive.unwrap().number(), Some(1));
        }
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(archives.latest().unwrap().unwrap().number(), Some(1), "{suffix} cut to {len}");
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(archives.latest().unwrap().unwrap().number(), Some(2));
    }
}

#[test]
fn each_kind_of_damage_is_named_and_no_valid_pair_is_an_error() {
    let temp = in_memory();
    let dir = temp.path();
    let mut archives = writer(dir);
    assert!(archives.latest().unwrap().is_none());
    (1..=6).for_each(|number| drop(save(&mut archives, PairId::Number(number), 0).unwrap()));
    let path = |number: u64, suffix: &str| dir.join(format!("q3_ckpt_{number:09}.{suffix}"));
    fs::remove_file(path(6, "json")).unwrap();
    fs::write(path(5, "zip"), "short").unwrap();
    fs::write(path(4, "json"), "{}").unwrap();
    fs::write(path(3, "json"), "{\"pair_format\": 9}").unwrap();
    fs::remove_file(path(2, "zip")).unwrap();
    std::os::unix::fs::symlink(path(5, "zip"), path(2, "zip")).unwrap();
    fs::write(path(1, "zip"), vec![0; content(1, 0).len()]).unwrap();
    let Error::NoValidArchive { rejected, .. } = archives.latest().unwrap_err() else { panic!() };
    let reasons: Vec<PairDamage> = rejected.into_iter().map(|rejected| rejected.reason).collect();
    assert_eq!(reasons[0], PairDamage::NoJson);
    assert_eq!(reasons[1], PairDamage::Size { expected: 5_005, found: 5 });
    assert_eq!(reasons[2], PairDamage::Malformed("it has no text model_sha256".to_owned()));
    assert_eq!(reasons[3], PairDamage::Version { found: 9 });
    assert_eq!(reasons[4], PairDamage::NotAFile);
    assert!(matches!(reasons[5], PairDamage::Checksum { .. }));
    drop(archives);
    let mut archives = writer(dir);
    // Nothing is deleted when nothing that stays is whole.
    assert_eq!(archives.prune(keep(1)).unwrap(), Vec::<String>::new());
    // A zip of another program and a pair of a later version are replaced only when asked, a damaged pair at once.
    for number in [6, 3] {
        let before = fs::read(path(number, "zip")).unwrap();
        let refused = save(&mut archives, PairId::Number(number), 0);
        assert!(matches!(refused, Err(Error::ArchiveRejected { .. })), "{number}: {refused:?}");
        assert_eq!(fs::read(path(number, "zip")).unwrap(), before);
    }
    save(&mut archives, PairId::Number(5), 0).unwrap();
    assert_eq!(archives.latest().unwrap().unwrap().number(), Some(5));
    save(&mut archives, PairId::Number(6), 1).unwrap();
    assert_eq!(assert_saved(&archives.latest().unwrap().unwrap()), 1);
    assert_eq!(archives.prune(keep(1)).unwrap().len(), 5);
    assert_eq!(files(dir), ["q3_ckpt_000000006.json", "q3_ckpt_000000006.zip"]);
}

#[test]
fn a_prune_keeps_the_newest_valid_pair_beside_a_damaged_newer_one() {
    let temp = in_memory();
    (1..=3).for_each(|number| drop(save(&mut writer(temp.path()), PairId::Number(number), 0).unwrap()));
    fs::write(temp.path().join("q3_ckpt_000000003.zip"), "damaged").unwrap();
    let mut archives = writer(temp.path());
    assert_eq!(archives.prune(keep(1)).unwrap(), ["q3_ckpt_000000001"]);
    assert_eq!(archives.reader().list().unwrap(), [2, 3]);
}

#[test]
fn a_valid_pair_is_replaced_only_when_asked_and_one_writer_works_at_a_time() {
    let temp = in_memory();
    let mut archives = writer(temp.path());
    for id in [PairId::Number(7), PairId::Final] {
        save(&mut archives, id, 0).unwrap();
        assert!(matches!(save(&mut archives, id, 0), Err(Error::ArchiveExists { .. })));
        save(&mut archives, id, 1).unwrap();
        assert_eq!(assert_saved(&archives.reader().open(id).unwrap()), 1);
    }
    let second = Archives::open(temp.path(), "q3", ArchiveOptions::default());
    assert!(matches!(second, Err(Error::Locked { .. })));
    Archives::open(temp.path(), "q4", ArchiveOptions::default()).unwrap();
    assert!(matches!(archives.reader().open(PairId::Number(8)), Err(Error::NoSuchArchive { .. })));
}

#[test]
fn names_that_cannot_be_told_apart_are_refused() {
    for name in ["", ".q3", "a/b", "q3_ckpt_000000001", "q3_ckpt_1", "q\n3"] {
        let opened = Archives::open_read_only(".", name);
        assert!(matches!(opened, Err(Error::ArchiveName { .. })), "{name:?}");
    }
}

#[test]
fn files_follow_the_umask_and_a_failed_save_leaves_none() {
    use std::os::unix::fs::PermissionsExt;
    let temp = in_memory();
    let mut archives = writer(temp.path());
    let given_up = archives.save(PairId::Number(1), Overwrite::Refuse, &Map::new(), |_| Err("no model"));
    assert!(matches!(given_up, Err(SaveError::Content("no model"))));
    assert_eq!(files(temp.path()), Vec::<String>::new());
    let probe = temp.path().join("probe");
    fs::write(&probe, "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    let zip = save(&mut archives, PairId::Number(1), 0).unwrap();
    assert_eq!([mode(&zip), mode(&zip.with_extension("json"))], [mode(&probe); 2]);
}

#[test]
fn both_files_are_synced_before_the_json_and_then_the_zip_get_their_names() {
    let temp = in_memory();
    let trace = Arc::new(Trace::default());
    let mut archives =
        Archives::open(temp.path(), "q3", ArchiveOptions::default().hook(trace.clone())).unwrap();
    trace.take();
    save(&mut archives, PairId::Number(1), 0).unwrap();
    let ops: Vec<Op> = trace.take().into_iter().map(|(op, _)| op).collect();
    let ordered = [Op::Sync, Op::Replace, Op::SyncDir];
    let kept: Vec<Op> = ops.into_iter().filter(|op| ordered.contains(op)).collect();
    assert_eq!(kept, [Op::Sync, Op::Sync, Op::Replace, Op::Replace, Op::SyncDir]);
}

/// Reads the final pair before each system call of the writer.
#[derive(Debug)]
struct ReadAtEachCall(PathBuf);

impl FileHook for ReadAtEachCall {
    fn before(&self, _: Op, _: &Path) -> Verdict {
        match reader(&self.0).open(PairId::Final) {
            Ok(archive) => drop(assert_saved(&archive)),
            Err(error) => panic!("a reader must get the old pair or the new one: {error}"),
        }
        Verdict::Go
    }
}

#[test]
fn a_reader_gets_a_whole_pair_at_every_call_of_a_replacement() {
    let temp = in_memory();
    save(&mut writer(temp.path()), PairId::Final, 0).unwrap();
    let hook = Arc::new(ReadAtEachCall(temp.path().to_owned()));
    let mut archives = Archives::open(temp.path(), "q3", ArchiveOptions::default().hook(hook)).unwrap();
    (1..=3).for_each(|attempt| drop(save(&mut archives, PairId::Final, attempt).unwrap()));
    assert_eq!(files(temp.path()), ["q3.json", "q3.zip"]);
}

/// Fails six calls in a row, and reads the final pair before each call.
#[derive(Debug)]
struct FailSome {
    at: usize,
    calls: AtomicUsize,
    reads: ReadAtEachCall,
}

impl FileHook for FailSome {
    fn before(&self, op: Op, path: &Path) -> Verdict {
        self.reads.before(op, path);
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if (self.at..self.at + 6).contains(&call) { Verdict::Fail(5) } else { Verdict::Go }
    }
}

#[test]
fn a_replacement_that_failed_and_could_not_be_undone_is_settled_by_the_next_save() {
    for at in 0.. {
        let temp = in_memory();
        save(&mut writer(temp.path()), PairId::Final, 0).unwrap();
        let reads = ReadAtEachCall(temp.path().to_owned());
        let hook = Arc::new(FailSome { at, calls: AtomicUsize::new(0), reads });
        let options = ArchiveOptions::default().hook(hook.clone());
        let Ok(mut archives) = Archives::open(temp.path(), "q3", options) else { continue };
        let first = save(&mut archives, PairId::Final, 1);
        if hook.calls.load(Ordering::Relaxed) <= at {
            assert!(at > 20 && first.is_ok());
            return;
        }
        while save(&mut archives, PairId::Final, 2).is_err() {}
        assert_eq!(assert_saved(&archives.reader().open(PairId::Final).unwrap()), 2, "failed from call {at}");
    }
}

#[test]
fn readers_beside_a_writer_that_replaces_and_prunes_see_only_whole_pairs() {
    let temp = in_memory();
    let mut archives = writer(temp.path());
    save(&mut archives, PairId::Final, 0).unwrap();
    save(&mut archives, PairId::Number(1), 0).unwrap();
    let done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let reader = reader(temp.path());
            let mut seen = BTreeSet::new();
            while !done.load(Ordering::Relaxed) {
                seen.insert(assert_saved(&reader.open(PairId::Final).unwrap()));
                assert_eq!(reader.discover().unwrap().rejected, []);
            }
            seen
        });
        for attempt in 1..200 {
            save(&mut archives, PairId::Final, attempt).unwrap();
            save(&mut archives, PairId::Number(attempt + 1), 0).unwrap();
            archives.prune(keep(2)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        watch.join().unwrap()
    });
    assert!(!seen.is_empty());
}
