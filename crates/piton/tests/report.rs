//! What a run ends with on the screen.

use std::path::Path;

use clap::Parser;
use insta::assert_snapshot;
use piton::{Cli, Command, summary};
use piton_trainer::FitReport;

fn report() -> FitReport {
    FitReport {
        cur_step: 400,
        total_train_steps: 400,
        trained_steps: 400,
        seconds: 80.0,
        checkpoint: Some("runs/a/20260131120000/checkpoints/ckpt-step-400".into()),
        first_evaluation: Some((0, [("eval/accuracy".to_owned(), 0.4)].into())),
        last_evaluation: Some((400, [("eval/accuracy".to_owned(), 0.95)].into())),
        last_metrics: [
            ("response/rewards/mean".to_owned(), 0.9),
            ("throughput/effective_tgs".to_owned(), 31_234.5),
        ]
        .into(),
        ..FitReport::default()
    }
}

fn told(args: &[&str], report: &FitReport) -> String {
    let Command::Train(args) = Cli::parse_from(["piton", "train"].iter().chain(args)).command else {
        unreachable!("train was asked for")
    };
    summary(&args, report, Path::new("runs/a/20260131120000"))
}

#[test]
fn a_finished_run_says_how_to_train_on() {
    let args = ["chain-sum", "--work-dir", "runs/my a", "--set", "seed=7", "--set", "total_train_steps=400"];
    assert_snapshot!(told(&args, &report()), @"
      run         finished, 400 of 400 steps
      time        1:20 for 400 steps, 5.0 steps/s
      accuracy    0.400 at step 0, 0.950 at step 400 (held out)
      reward      0.900 in the last step (training)
      throughput  31,234 tokens/s in the last step
      directory   runs/a/20260131120000
      checkpoint  runs/a/20260131120000/checkpoints/ckpt-step-400

    Next
      train on    cargo xtask train chain-sum --work-dir 'runs/my a' --set seed=7 --auto-resume --set total_train_steps=800
      metrics     logs/exp_tracking/tracker.jsonl in the directory above, one line a step
    ");
}

#[test]
fn a_stopped_run_says_how_to_go_on() {
    let stopped =
        FitReport { cur_step: 20, trained_steps: 0, stopped_by: Some("SIGTERM".to_owned()), ..report() };
    assert_snapshot!(told(&["chain-sum"], &stopped), @"
      run         stopped by SIGTERM, 20 of 400 steps
      accuracy    0.400 at step 0, 0.950 at step 400 (held out)
      reward      0.900 in the last step (training)
      throughput  31,234 tokens/s in the last step
      directory   runs/a/20260131120000
      checkpoint  runs/a/20260131120000/checkpoints/ckpt-step-400

    Next
      go on       cargo xtask train chain-sum --auto-resume
      metrics     logs/exp_tracking/tracker.jsonl in the directory above, one line a step
    ");
}
