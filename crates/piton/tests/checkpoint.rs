//! `piton checkpoint`, as a shell sees it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;

use insta::assert_snapshot;
use piton_checkpoint::{Keep, Overwrite, Store, StoreOptions};
use piton_run::{Clock, SystemClock};
use tempfile::TempDir;

/// A store written fifty hours ago, and a shell beside it.
struct Shell {
    dir: TempDir,
}

/// One F32 tensor `w`.
fn tensor(values: &[f32]) -> Vec<u8> {
    let bytes = values.len() * 4;
    let header =
        format!(r#"{{"w":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{bytes}]}}}}"#, values.len());
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    file
}

impl Shell {
    fn new(steps: &[u64]) -> Self {
        let shell = Self { dir: tempfile::tempdir().unwrap() };
        let mut store = shell.writer();
        for &step in steps {
            let saved = store.save(step, Overwrite::Refuse, |stage| {
                stage.write_json("train_state.json", &serde_json::json!({ "cur_step": step }))?;
                stage.write("weights/model.safetensors", &tensor(&[1.0, 2.0 + step as f32 / 8.0]))?;
                stage.metric("return", if step == 20 { 9.0 } else { step as f64 / 8.0 })?;
                stage.write("weights/base.bin", &[7; 3000])
            });
            saved.unwrap();
        }
        shell
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("runs/a/20260131120000/checkpoints")
    }

    fn step(&self, step: u64) -> PathBuf {
        self.store().join(format!("ckpt-step-{step}"))
    }

    fn writer(&self) -> Store {
        let now = u64::try_from(SystemClock.now().as_millisecond()).unwrap();
        let options = StoreOptions::new("20260131120000", "", move || now - 50 * 3_600_000).holder("trainer");
        Store::open(self.store(), options).unwrap()
    }

    /// Runs `piton checkpoint` in the folder that holds `runs`; everything it says and its exit code.
    fn run(&self, args: &[&str]) -> String {
        let piton = Command::new(env!("CARGO_BIN_EXE_piton"))
            .arg("checkpoint")
            .args(args)
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let code = piton.status.code().unwrap();
        let pid = format!("pid {}", std::process::id());
        let told = format!("{}{}exit code {code}", text(piton.stdout), text(piton.stderr));
        told.replace(&pid, "pid [PID]")
            .replace(self.dir.path().canonicalize().unwrap().to_str().unwrap(), "[DIR]")
            .replace(self.dir.path().to_str().unwrap(), "[DIR]")
    }
}

fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn ls_shows_a_run_by_any_of_its_paths() {
    let shell = Shell::new(&[9, 10, 100]);
    fs::remove_file(shell.step(9).join("weights/base.bin")).unwrap();
    shell.run(&["pin", "runs/a", "--step", "10", "--note", "in the paper"]);
    let run = shell.run(&["ls", "runs/a"]);
    assert_snapshot!(run, @"
    runs/a/20260131120000/checkpoints  run 20260131120000
      STEP  AGE     SIZE  FILES  METRICS      PIN           STATE
         9    -        -      -  -            -             damaged: weights/base.bin is missing
        10  2 d  3.0 KiB      3  return=1.25  in the paper  ok
       100  2 d  3.0 KiB      3  return=12.5  -             ok
      3 checkpoints, 6.0 KiB, 1 damaged
    exit code 0
    ");
    assert_eq!(shell.run(&["ls", "runs/a/20260131120000"]), run);
    assert_eq!(shell.run(&["ls", "runs/a/20260131120000/checkpoints"]), run);
    assert_snapshot!(shell.run(&["ls", "runs/a/20260131120000/checkpoints/ckpt-step-10/"]), @"
    runs/a/20260131120000/checkpoints  run 20260131120000
      STEP  AGE     SIZE  FILES  METRICS      PIN           STATE
        10  2 d  3.0 KiB      3  return=1.25  in the paper  ok
      1 checkpoint, 3.0 KiB
    exit code 0
    ");
}

#[test]
fn ls_gives_json_to_scripts() {
    let shell = Shell::new(&[9]);
    let told = shell.run(&["ls", "--json", "runs/a"]);
    let json = told.strip_suffix("exit code 0").unwrap();
    let stores: serde_json::Value = serde_json::from_str(json).unwrap();
    // whether this build of serde_json keeps the order of keys depends on what else is built
    let mut settings = insta::Settings::clone_current();
    settings.set_sort_maps(true);
    let _guard = settings.bind_to_scope();
    insta::assert_json_snapshot!(stores, { "[].checkpoints[].created_unix_ms" => "[TIME]" }, @r#"
    [
      {
        "checkpoints": [
          {
            "bytes": 3090,
            "created_unix_ms": "[TIME]",
            "damage": null,
            "files": 3,
            "metrics": {
              "return": 1.125
            },
            "path": "runs/a/20260131120000/checkpoints/ckpt-step-9",
            "pin": null,
            "step": 9
          }
        ],
        "path": "runs/a/20260131120000/checkpoints",
        "run_id": "20260131120000",
        "writer": null
      }
    ]
    "#);
}

#[test]
fn verify_names_every_bad_file_and_fails() {
    let shell = Shell::new(&[1, 2, 3]);
    assert_snapshot!(shell.run(&["verify", "runs/a"]), @"
    runs/a/20260131120000/checkpoints/ckpt-step-1  ok  3 files, 3.0 KiB
    runs/a/20260131120000/checkpoints/ckpt-step-2  ok  3 files, 3.0 KiB
    runs/a/20260131120000/checkpoints/ckpt-step-3  ok  3 files, 3.0 KiB
    3 checkpoints read, every byte as it was written
    exit code 0
    ");
    damage(&shell.step(2).join("weights/model.safetensors"));
    fs::remove_file(shell.step(2).join("train_state.json")).unwrap();
    fs::write(shell.step(3).join("note.txt"), "mine").unwrap();
    damage(&shell.step(1).join("MANIFEST.json"));
    assert_snapshot!(shell.run(&["verify", "runs/a"]), @"
    runs/a/20260131120000/checkpoints/ckpt-step-1  damaged
      MANIFEST.json does not match its own checksum
    runs/a/20260131120000/checkpoints/ckpt-step-2  damaged  3 files, 3.0 KiB
      train_state.json is missing
      weights/model.safetensors has the wrong checksum from byte 0 on
    runs/a/20260131120000/checkpoints/ckpt-step-3  ok  3 files, 3.0 KiB
      note.txt is not in the manifest and is ignored
    3 checkpoints read, 2 damaged
    exit code 1
    ");
    assert_snapshot!(shell.run(&["verify", "runs/a/20260131120000/checkpoints/ckpt-step-3"]), @"
    runs/a/20260131120000/checkpoints/ckpt-step-3  ok  3 files, 3.0 KiB
      note.txt is not in the manifest and is ignored
    1 checkpoint read, every byte as it was written
    exit code 0
    ");
}

/// A copy under any name, outside of any store.
#[test]
fn verify_takes_a_copy() {
    let shell = Shell::new(&[5]);
    fs::rename(shell.step(5), shell.dir.path().join("best")).unwrap();
    assert_snapshot!(shell.run(&["verify", "best"]), @"
    best  ok  3 files, 3.0 KiB
    1 checkpoint read, every byte as it was written
    exit code 0
    ");
    damage(&shell.dir.path().join("best/weights/base.bin"));
    assert_snapshot!(shell.run(&["verify", "best"]), @"
    best  damaged  3 files, 3.0 KiB
      weights/base.bin has the wrong checksum from byte 0 on
    1 checkpoint read, 1 damaged
    exit code 1
    ");
}

#[test]
fn prune_says_what_goes_and_why_the_others_stay_before_it_does_it() {
    let shell = Shell::new(&[10, 20, 30, 40, 50]);
    shell.run(&["pin", "runs/a", "--step", "10", "--note", "in the paper"]);
    damage(&shell.step(40).join("MANIFEST.json"));
    let args = ["prune", "runs/a", "--keep", "best 1 by return", "--keep", "every 40", "--dry-run"];
    assert_snapshot!(shell.run(&args), @"
    runs/a/20260131120000/checkpoints
      STEP  AGE     SIZE         WHY
        10  2 d  3.0 KiB  stays  pinned (in the paper)
        20  2 d  3.0 KiB  stays  best 1 by return
        30  2 d  3.0 KiB  goes   -
        40    -        -  stays  damaged: yours to delete
        50  2 d  3.0 KiB  stays  newest
      would remove 1 checkpoint, 3.0 KiB; nothing was changed (--dry-run)
    exit code 0
    ");
    assert_eq!(fs::read_dir(shell.store()).unwrap().count(), 8);
    assert_snapshot!(shell.run(&args[..6]), @"
    runs/a/20260131120000/checkpoints
      STEP  AGE     SIZE         WHY
        10  2 d  3.0 KiB  stays  pinned (in the paper)
        20  2 d  3.0 KiB  stays  best 1 by return
        30  2 d  3.0 KiB  goes   -
        40    -        -  stays  damaged: yours to delete
        50  2 d  3.0 KiB  stays  newest
      removed 1 checkpoint, 3.0 KiB
    exit code 0
    ");
    assert_snapshot!(shell.run(&["prune", "runs/a", "--keep", "every 30, last 1h"]), @"
    runs/a/20260131120000/checkpoints
      STEP  AGE     SIZE         WHY
        10  2 d  3.0 KiB  stays  pinned (in the paper)
        20  2 d  3.0 KiB  goes   -
        40    -        -  stays  damaged: yours to delete
        50  2 d  3.0 KiB  stays  newest
      removed 1 checkpoint, 3.0 KiB
    exit code 0
    ");
    assert!(!shell.step(20).exists() && shell.step(40).exists());
}

#[test]
fn prune_is_refused_while_a_writer_holds_the_store_and_for_what_keeps_nothing() {
    let shell = Shell::new(&[1, 2]);
    let writer = shell.writer();
    assert_snapshot!(shell.run(&["prune", "runs/a", "--keep", "1"]), @"
    error: store runs/a/20260131120000/checkpoints is in use by run 20260131120000, pid [PID], trainer; stop that run or use another directory
    exit code 1
    ");
    drop(writer);
    for nothing in ["0", "-1"] {
        let told = shell.run(&["prune", "runs/a", "--keep", nothing]);
        assert!(told.contains(r#"would keep no checkpoint: write "all" to keep every one"#), "{told}");
        assert!(told.ends_with("exit code 2"), "{told}");
    }
    assert!(shell.step(1).exists());
}

#[test]
fn pins_are_made_and_taken_away_beside_a_running_writer() {
    let shell = Shell::new(&[1, 2, 3]);
    let mut writer = shell.writer();
    assert_snapshot!(shell.run(&["pin", "runs/a/20260131120000/checkpoints/ckpt-step-1"]), @"
    pinned step 1 of runs/a/20260131120000/checkpoints
    exit code 0
    ");
    let one = NonZeroUsize::MIN;
    assert_eq!(writer.prune(Keep::Last(one), &[].into()).unwrap().removed, [2]);
    assert_snapshot!(shell.run(&["unpin", "runs/a", "--step", "1"]), @"
    unpinned step 1 of runs/a/20260131120000/checkpoints
    exit code 0
    ");
    assert_snapshot!(shell.run(&["unpin", "runs/a", "--step", "1"]), @"
    error: step 1 of runs/a/20260131120000/checkpoints is not pinned; pinned are []
    exit code 1
    ");
    assert_snapshot!(shell.run(&["pin", "runs/a"]), @"
    error: say which checkpoint of runs/a/20260131120000/checkpoints with --step; it has [1, 3]
    exit code 1
    ");
    assert_snapshot!(shell.run(&["pin", "runs/a", "--step", "2"]), @"
    error: no checkpoint at step 2 in runs/a/20260131120000/checkpoints; steps there: [1, 3]
    exit code 1
    ");
    assert_eq!(writer.prune(Keep::Last(one), &[].into()).unwrap().removed, [1]);
}

#[test]
fn fsck_tells_everything_and_removes_only_garbage() {
    let shell = Shell::new(&[1, 2, 3, 4]);
    assert_snapshot!(shell.run(&["fsck", "runs/a"]), @"
    runs/a/20260131120000/checkpoints
      nothing is wrong
    exit code 0
    ");
    shell.run(&["pin", "runs/a", "--step", "1"]);
    fs::rename(shell.step(1), shell.store().join("ckpt-step-1.bak")).unwrap();
    shell.writer().set_aside_after(3).unwrap();
    for garbage in [".tmp-ckpt-step-5-0123abcd-77-1", ".trash-ckpt-step-0-0123abcd-77-2"] {
        fs::create_dir_all(shell.store().join(garbage).join("weights")).unwrap();
    }
    fs::create_dir(shell.store().join(".tmp-mine")).unwrap();
    damage(&shell.step(2).join("weights/base.bin"));
    fs::write(shell.step(3).join("note.txt"), "mine").unwrap();
    assert_snapshot!(shell.run(&["fsck", "runs/a"]), @"
    runs/a/20260131120000/checkpoints
      damaged   ckpt-step-2: weights/base.bin has the wrong checksum from byte 0 on
      extra     ckpt-step-3/note.txt: not in the manifest, ignored
      pin       of step 1, which is not here: unpin it, or restore the checkpoint
      garbage   .tmp-ckpt-step-5-0123abcd-77-1: the next writer removes it, or --repair
      garbage   .trash-ckpt-step-0-0123abcd-77-2: the next writer removes it, or --repair
      aside     abandoned-3-1/ckpt-step-4: left by a rollback, or damaged and saved again; yours to delete
      foreign   .tmp-mine: not the store's, never touched
      foreign   ckpt-step-1.bak: not the store's, never touched
    exit code 1
    ");
    assert_snapshot!(shell.run(&["fsck", "runs/a", "--quick", "--repair"]), @"
    runs/a/20260131120000/checkpoints
      removed   .tmp-ckpt-step-5-0123abcd-77-1
      removed   .trash-ckpt-step-0-0123abcd-77-2
      pin       of step 1, which is not here: unpin it, or restore the checkpoint
      aside     abandoned-3-1/ckpt-step-4: left by a rollback, or damaged and saved again; yours to delete
      foreign   .tmp-mine: not the store's, never touched
      foreign   ckpt-step-1.bak: not the store's, never touched
    exit code 1
    ");
    assert!(shell.step(2).exists() && shell.store().join(".tmp-mine").exists());
}

#[test]
fn diff_names_files_members_and_tensors() {
    let shell = Shell::new(&[1, 2]);
    let of = |step: u64| format!("runs/a/20260131120000/checkpoints/ckpt-step-{step}");
    assert_snapshot!(shell.run(&["diff", &of(1), "runs/a"]), @"
    --- runs/a/20260131120000/checkpoints/ckpt-step-1  step 1  return=0.125
    +++ runs/a/20260131120000/checkpoints/ckpt-step-2  step 2  return=0.25
    ! train_state.json
        /cur_step: 1 -> 2
    ! weights/model.safetensors
        w  F32 [2]  largest difference 1.250e-1
    2 files different, 1 file the same
    exit code 1
    ");
    assert_snapshot!(shell.run(&["diff", &of(1), &of(1)]), @"
    --- runs/a/20260131120000/checkpoints/ckpt-step-1  step 1  return=0.125
    +++ runs/a/20260131120000/checkpoints/ckpt-step-1  step 1  return=0.125
    0 files different, 3 files the same
    exit code 0
    ");
    damage(&shell.step(2).join("train_state.json"));
    assert_snapshot!(shell.run(&["diff", &of(1), &of(2)]), @"
    --- runs/a/20260131120000/checkpoints/ckpt-step-1  step 1  return=0.125
    +++ runs/a/20260131120000/checkpoints/ckpt-step-2  step 2  return=0.25
    error: checkpoint file runs/a/20260131120000/checkpoints/ckpt-step-2/train_state.json is damaged: has the wrong checksum from byte 0 on; use an older checkpoint
    exit code 1
    ");
}

#[test]
fn a_path_without_checkpoints_is_an_error_that_says_what_is_expected() {
    let shell = Shell::new(&[1]);
    fs::write(shell.dir.path().join("file"), "").unwrap();
    assert_snapshot!(shell.run(&["ls", "nowhere"]), @"
    error: cannot look at nowhere: No such file or directory (os error 2)
    exit code 1
    ");
    assert_snapshot!(shell.run(&["verify", "file"]), @"
    error: file is not a folder: expected a run's work_dir or exp_dir, a folder of ckpt-step-N, or one of these
    exit code 1
    ");
    assert_snapshot!(shell.run(&["fsck", "."]), @"
    error: . holds no checkpoints: expected a run's work_dir or exp_dir, a folder of ckpt-step-N, or one of these
    exit code 1
    ");
    fs::create_dir_all(shell.dir.path().join("runs/a/20260131130000/checkpoints")).unwrap();
    assert_snapshot!(shell.run(&["prune", "runs/a", "--keep", "1"]), @"
    error: runs/a holds 2 stores, name one of them:
      runs/a/20260131120000/checkpoints
      runs/a/20260131130000/checkpoints
    exit code 1
    ");
}

/// `piton checkpoint ls | head -0`.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let shell = Shell::new(&[1]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut piton = Command::new(env!("CARGO_BIN_EXE_piton"));
    piton.args(["checkpoint", "ls", "runs/a"]).current_dir(shell.dir.path()).stdout(writer);
    let ended = piton.stderr(std::process::Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr), (Some(0), Vec::new()));
}
