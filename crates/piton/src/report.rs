//! The table a run ends with, and what to do next.

use std::path::Path;
use std::time::Duration;

use piton_trainer::FitReport;

use crate::args::TrainArgs;
use crate::screen::{clock, thousands};

/// The summary, for stdout.
pub fn summary(args: &TrainArgs, report: &FitReport, exp_dir: &Path) -> String {
    let mut rows: Vec<(&str, String)> = Vec::new();
    let ended = match &report.stopped_by {
        None => format!("finished, {} of {} steps", report.cur_step, report.total_train_steps),
        Some(reason) => {
            format!("stopped by {reason}, {} of {} steps", report.cur_step, report.total_train_steps)
        }
    };
    rows.push(("run", ended));
    if report.trained_steps > 0 {
        #[expect(clippy::cast_precision_loss, reason = "step counts are far below 2^53")]
        let rate = report.trained_steps as f64 / report.seconds.max(1e-9);
        let time = clock(Duration::from_secs_f64(report.seconds));
        rows.push(("time", format!("{time} for {} steps, {rate:.1} steps/s", report.trained_steps)));
    }
    let accuracy = |evaluation: &Option<(u64, std::collections::BTreeMap<String, f64>)>| {
        evaluation.as_ref().and_then(|(step, metrics)| Some((*step, *metrics.get("eval/accuracy")?)))
    };
    match (accuracy(&report.first_evaluation), accuracy(&report.last_evaluation)) {
        (Some((first_step, first)), Some((last_step, last))) if first_step != last_step => {
            rows.push((
                "accuracy",
                format!("{first:.3} at step {first_step}, {last:.3} at step {last_step} (held out)"),
            ));
        }
        (_, Some((step, last))) => rows.push(("accuracy", format!("{last:.3} at step {step} (held out)"))),
        _ => {}
    }
    if let Some(reward) = report.last_metrics.get("response/rewards/mean") {
        rows.push(("reward", format!("{reward:.3} in the last step (training)")));
    }
    if let Some(rate) = report.last_metrics.get("throughput/effective_tgs") {
        rows.push(("throughput", format!("{} tokens/s in the last step", thousands(*rate))));
    }
    rows.push(("directory", exp_dir.display().to_string()));
    if let Some(path) = &report.checkpoint {
        rows.push(("checkpoint", path.display().to_string()));
    }
    if let Some(path) = &report.export {
        rows.push(("export", path.display().to_string()));
    }
    let mut text = String::new();
    for (name, value) in rows {
        text.push_str(&format!("  {name:<11} {value}\n"));
    }
    text.push_str(&next(args, report));
    text
}

/// An argument as a shell takes it.
fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

fn next(args: &TrainArgs, report: &FitReport) -> String {
    let mut command = format!("cargo xtask train {}", quoted(&args.recipe));
    if let Some(work_dir) = &args.work_dir {
        command.push_str(&format!(" --work-dir {}", quoted(&work_dir.display().to_string())));
    }
    for set in args.set.iter().filter(|set| !set.starts_with("total_train_steps")) {
        command.push_str(&format!(" --set {}", quoted(set)));
    }
    let (what, more) = if report.stopped_by.is_some() || report.cur_step < report.total_train_steps {
        ("go on", format!("{command} --auto-resume"))
    } else {
        let longer = report.total_train_steps * 2;
        ("train on", format!("{command} --auto-resume --set total_train_steps={longer}"))
    };
    format!(
        "\nNext\n  {what:<11} {more}\n  {:<11} logs/exp_tracking/tracker.jsonl in the directory above, one line a step\n",
        "metrics"
    )
}
