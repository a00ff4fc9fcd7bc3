//! What a run looks like while it works: a bar on a terminal, a line now and then elsewhere. All of it on stderr.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use piton_trainer::{Progress, ProgressEvent};

/// Seconds between lines when there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows progress; `saved_after_stop` goes to stdout, where scripts look for it.
#[derive(Debug)]
pub struct Screen {
    is_terminal: bool,
    /// From the start of training to its last step, on a terminal.
    bar: Option<ProgressBar>,
    started: Instant,
    first_step: u64,
    last_line: Option<Instant>,
    accuracy: Option<f64>,
}

impl Screen {
    /// For this process's stderr.
    pub fn new() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self {
            is_terminal,
            bar: None,
            started: Instant::now(),
            first_step: 0,
            last_line: None,
            accuracy: None,
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| line(text)),
            None => line(text),
        }
    }

    fn step(&mut self, step: u64, total: u64, metrics: &BTreeMap<String, f64>) {
        let text = self.describe(metrics);
        if step == total {
            self.clear();
        }
        if let Some(bar) = &self.bar {
            bar.set_position(step);
            bar.set_message(text);
            return;
        }
        let is_due = self.last_line.is_none_or(|last| last.elapsed() >= LINE_EVERY);
        if is_due || step == total {
            self.last_line = Some(Instant::now());
            line(&format!("step {step}/{total}  {text}  left {}", clock(self.left(step, total))));
        }
    }

    /// Takes the bar off the screen; what is said from here on stays.
    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn describe(&self, metrics: &BTreeMap<String, f64>) -> String {
        let mut text = String::new();
        if let Some(reward) = metrics.get("response/rewards/mean") {
            text.push_str(&format!("reward {reward:6.3}"));
        }
        if let Some(accuracy) = self.accuracy {
            text.push_str(&format!("  accuracy {accuracy:.3}"));
        }
        if let Some(rate) = metrics.get("throughput/effective_tgs") {
            text.push_str(&format!("  {:>7} tokens/s", thousands(*rate)));
        }
        text
    }

    #[expect(clippy::cast_precision_loss, reason = "step counts are far below 2^53")]
    fn left(&self, step: u64, total: u64) -> Duration {
        let done = step.saturating_sub(self.first_step).max(1) as f64;
        let remaining = total.saturating_sub(step) as f64;
        Duration::from_secs_f64(self.started.elapsed().as_secs_f64() / done * remaining)
    }
}

impl Default for Screen {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress for Screen {
    fn event(&mut self, event: ProgressEvent<'_>) {
        match event {
            ProgressEvent::Started { exp_dir, cur_step, total_train_steps } => {
                self.started = Instant::now();
                self.first_step = cur_step;
                let verb = if cur_step > 0 {
                    format!("resumed after step {cur_step}")
                } else {
                    "training".to_owned()
                };
                self.say(&format!("{verb} in {}", exp_dir.display()));
                self.bar = self.is_terminal.then(|| bar(cur_step, total_train_steps));
            }
            ProgressEvent::Warning { text } => self.say(&format!("warning: {text}")),
            ProgressEvent::Evaluating { step } => {
                if let Some(bar) = &self.bar {
                    bar.set_message(format!("evaluating after step {step}"));
                    bar.tick();
                }
            }
            ProgressEvent::Evaluated { step, metrics } => {
                self.accuracy = metrics.get("eval/accuracy").copied();
                if let Some(accuracy) = self.accuracy {
                    if let Some(bar) = &self.bar {
                        bar.set_message(format!("accuracy {accuracy:.3}"));
                    }
                    self.say(&format!("step {step}: held-out accuracy {accuracy:.3}"));
                }
            }
            ProgressEvent::Step { step, total_train_steps, metrics } => {
                self.step(step, total_train_steps, metrics)
            }
            ProgressEvent::Exported { step, path } => {
                self.say(&format!("step {step}: exported to {}", path.display()))
            }
            ProgressEvent::SavedAfterStop { step, path, reason } => {
                self.clear();
                line(&format!("stopped by {reason} after step {step}"));
                // Scripts wait for this line; a closed pipe must not turn a saved run into a failure.
                let _closed = writeln!(std::io::stdout(), "saved_after_stop {}", path.display());
            }
            _ => {}
        }
    }
}

fn bar(cur_step: u64, total_train_steps: u64) -> ProgressBar {
    let style = "step {pos}/{len} {wide_bar} {msg}  left {eta_precise}";
    let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(total_train_steps), ProgressDrawTarget::stderr());
    bar.with_style(style).with_position(cur_step)
}

fn line(text: &str) {
    let _closed = writeln!(std::io::stderr(), "{text}");
}

/// `1234567.8` as `1,234,568`.
pub(crate) fn thousands(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `h:mm:ss` or `m:ss`.
pub(crate) fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}
