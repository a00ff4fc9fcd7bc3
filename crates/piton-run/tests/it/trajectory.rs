use std::fs;

use piton_run::{Experiment, Keep, set_aside_after, write_lines_atomic};

use crate::tree;

#[test]
fn files_of_later_steps_move_to_the_next_numbered_folder_and_others_stay() {
    let tmp = tempfile::tempdir().unwrap();
    let experiment = Experiment::create(tmp.path(), "2026-11-30T20:48:24Z".parse().unwrap()).unwrap();
    assert_eq!(set_aside_after(&experiment, Keep::UpTo(1)).unwrap(), Vec::<std::path::PathBuf>::new());
    for step in [1, 2, 3, 10] {
        write_lines_atomic(&experiment.train_rollout_path(step), [step]).unwrap();
    }
    for step in [0, 2, 10] {
        write_lines_atomic(&experiment.eval_rollout_path(step), [step]).unwrap();
    }
    fs::write(experiment.dir().join("train_rollout/train_rollout_9.jsonl.bak"), "mine\n").unwrap();
    fs::write(experiment.dir().join("train_rollout/.train_rollout_4.jsonl.piton-tmp-1-0"), "killed").unwrap();

    let moved = set_aside_after(&experiment, Keep::UpTo(2)).unwrap();
    assert_eq!(moved.len(), 3);
    assert_eq!(set_aside_after(&experiment, Keep::UpTo(2)).unwrap().len(), 0);
    set_aside_after(&experiment, Keep::Nothing).unwrap();
    let expected = [
        ("set_aside/1/eval_rollout/eval_rollout_10.jsonl", "10\n"),
        ("set_aside/1/train_rollout/train_rollout_10.jsonl", "10\n"),
        ("set_aside/1/train_rollout/train_rollout_3.jsonl", "3\n"),
        ("set_aside/2/eval_rollout/eval_rollout_0.jsonl", "0\n"),
        ("set_aside/2/eval_rollout/eval_rollout_2.jsonl", "2\n"),
        ("set_aside/2/train_rollout/train_rollout_1.jsonl", "1\n"),
        ("set_aside/2/train_rollout/train_rollout_2.jsonl", "2\n"),
        ("train_rollout/train_rollout_9.jsonl.bak", "mine\n"),
    ];
    assert_eq!(tree(&experiment.dir()), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
}
