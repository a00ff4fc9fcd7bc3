use std::fs;
use std::path::Path;
use std::sync::Barrier;

use piton_run::{Experiment, Meta, experiments};

fn names(work_dir: &Path) -> Vec<String> {
    experiments(work_dir).unwrap().iter().map(Experiment::name).collect()
}

fn create(work_dir: &Path, moment: &str) -> String {
    Experiment::create(work_dir, moment.parse().unwrap()).unwrap().name()
}

#[test]
fn two_starts_in_one_second_get_two_folders_and_the_newest_comes_first() {
    let tmp = tempfile::tempdir().unwrap();
    let made: Vec<String> = (0..12).map(|_| create(tmp.path(), "2026-11-30T20:48:24.9Z")).collect();
    assert_eq!(made[..3], ["20261130204824", "20261130204824-1", "20261130204824-2"]);
    let mut newest_first = made.clone();
    newest_first.reverse();
    assert_eq!(names(tmp.path()), newest_first);
}

#[test]
fn a_clock_that_went_back_does_not_hide_the_newest_experiment() {
    let tmp = tempfile::tempdir().unwrap();
    create(tmp.path(), "2026-11-30T20:48:24Z");
    assert_eq!(create(tmp.path(), "2026-11-30T20:00:00Z"), "20261130204824-1");
    assert_eq!(create(tmp.path(), "2026-11-30T20:48:25Z"), "20261130204825");
    assert_eq!(names(tmp.path())[0], "20261130204825");
}

#[test]
fn racing_starts_never_share_a_folder() {
    let tmp = tempfile::tempdir().unwrap();
    let barrier = Barrier::new(8);
    let mut made: Vec<String> = std::thread::scope(|scope| {
        let start = || {
            barrier.wait();
            create(tmp.path(), "2026-11-30T20:48:24Z")
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    made.sort();
    made.dedup();
    assert_eq!(made.len(), 8);
}

#[test]
fn only_exact_names_of_folders_are_experiments() {
    let tmp = tempfile::tempdir().unwrap();
    assert_eq!(names(&tmp.path().join("missing")), Vec::<String>::new());
    let strange = [
        "2026113020482",
        "202611302048240",
        "20261330204824",
        "20261130204824-0",
        "20261130204824-01",
        "20261130204824-",
        "20261130204824x",
        "+2026113020482",
        "run",
        "20261130204824-1-1",
    ];
    for name in strange {
        fs::create_dir(tmp.path().join(name)).unwrap();
        let message = Experiment::open(tmp.path(), name).unwrap_err().to_string();
        assert!(message.contains(&format!("`{name}` is not an experiment name")), "{message}");
    }
    fs::write(tmp.path().join("20261130204825"), "a file").unwrap();
    fs::create_dir(tmp.path().join("20261130204824-3")).unwrap();
    assert_eq!(names(tmp.path()), ["20261130204824-3"]);
    assert!(
        Experiment::open(tmp.path(), "20261130204825").unwrap_err().to_string().contains("does not exist")
    );
}

#[test]
fn meta_is_rebuilt_from_the_tree_when_lost_damaged_or_stale_and_moves_with_it() {
    let tmp = tempfile::tempdir().unwrap();
    let work_dir = tmp.path().join("here");
    let first = Experiment::create(&work_dir, "2026-11-30T20:48:24Z".parse().unwrap()).unwrap();
    create(&work_dir, "2026-11-30T21:00:00Z");
    for step in [9, 10, 100] {
        let dir = first.checkpoints_dir().join(format!("ckpt-step-{step}"));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("MANIFEST.json"), "{}").unwrap();
    }
    for name in ["ckpt-step-999", "ckpt-step-007", "ckpt-step-5.tmp"] {
        fs::create_dir_all(first.checkpoints_dir().join(name)).unwrap();
    }
    fs::create_dir_all(first.hf_path(10)).unwrap();
    let expected = r#"{
  "exps": [
    {
      "exp_dir": "20261130204824",
      "checkpoint_list": [
        "20261130204824/checkpoints/ckpt-step-9",
        "20261130204824/checkpoints/ckpt-step-10",
        "20261130204824/checkpoints/ckpt-step-100"
      ],
      "hf_checkpoint_list": [
        "20261130204824/hf/hf-step-10"
      ]
    },
    {
      "exp_dir": "20261130210000",
      "checkpoint_list": [],
      "hf_checkpoint_list": []
    }
  ]
}
"#;
    let moved = tmp.path().join("there");
    fs::rename(&work_dir, &moved).unwrap();
    let path = moved.join("meta.json");
    for damage in [None, Some(""), Some("{\"exps\": [{\"exp_di"), Some("{\"exps\":[]}"), Some(expected)] {
        match damage {
            None => {}
            Some(text) => fs::write(&path, text).unwrap(),
        }
        let meta = Meta::refresh(&moved).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        assert_eq!(serde_json::from_str::<Meta>(expected).unwrap(), meta);
    }
    fs::remove_dir_all(moved.join("20261130204824/checkpoints/ckpt-step-9")).unwrap();
    assert_eq!(Meta::refresh(&moved).unwrap().exps[0].checkpoint_list.len(), 2);
    assert!(!fs::read_to_string(&path).unwrap().contains("step-9\""));
}
