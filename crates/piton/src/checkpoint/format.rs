//! Numbers and tables for people.

use std::collections::BTreeMap;

/// `1.2 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be shown as 1024.0.
    while value >= 1023.95 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

/// `12 s`, `5 min`, `3 h`, `9 d`; `in the future` when a clock was set back.
pub(crate) fn age(created_unix_ms: u64, now_unix_ms: u64) -> String {
    let Some(ms) = now_unix_ms.checked_sub(created_unix_ms) else { return "in the future".to_owned() };
    match ms / 1000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// `1 file`, `3 files`.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// `loss=0.25 return=12`.
pub(crate) fn metrics(metrics: &BTreeMap<String, f64>) -> String {
    let told: Vec<String> = metrics.iter().map(|(name, value)| format!("{name}={value}")).collect();
    told.join(" ")
}

/// Rows under a head, in columns; the first `right` columns are aligned to the right. An empty cell shows a dash, a column
/// without content is left out.
pub(crate) fn table(head: &[&str], right: usize, rows: &[Vec<String>]) -> String {
    let used: Vec<usize> = (0..head.len()).filter(|at| rows.iter().any(|row| !row[*at].is_empty())).collect();
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([head[at].len()]).max().unwrap_or(0)
    };
    let line = |cells: &dyn Fn(usize) -> String| {
        let padded = used.iter().map(|&at| {
            let (cell, width) = (cells(at), width(at));
            if at < right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        format!("  {}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    let mut text = line(&|at| head[at].to_owned());
    for row in rows {
        text.push_str(&line(&|at| if row[at].is_empty() { "-".to_owned() } else { row[at].clone() }));
    }
    text
}
