//! What came of the runs: a table to read, and what is wrong with it.

use std::fmt::Write;
use std::time::Duration;

use crawler_node::sim::LogEntry;

/// What came of one run.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Requests that the server saw, those for robots.txt not among them.
    pub(super) requests: u64,
    pub(super) refused: u64,
    pub(super) bans: u64,
    /// The most in flight at once.
    pub(super) peak: u32,
    /// From the start of the process to its end.
    pub(super) took: Duration,
    pub(super) ideal: Duration,
    pub(super) t90: Option<Duration>,
    /// Records that are missing.
    pub(super) lost: usize,
    pub(super) code: Option<i32>,
    pub(super) stderr: String,
}

impl Row {
    pub(super) fn refused_share(&self) -> f64 {
        self.refused as f64 / self.requests.max(1) as f64
    }

    pub(super) fn ratio(&self) -> f64 {
        self.took.as_secs_f64() / self.ideal.as_secs_f64()
    }

    /// Whether it ended well with nothing lost.
    pub(super) fn complete(&self) -> bool {
        self.code == Some(0) && self.lost == 0
    }

    /// Complete, at most this share refused, at most this many times the ideal, and no ban.
    pub(super) fn within(&self, refused: f64, ratio: f64) -> bool {
        self.complete()
            && self.refused_share() <= refused
            && self.ratio() <= ratio
            && self.bans == 0
    }
}

/// How long until the first 5 seconds in which at least 90 % of the limit's rate was admitted.
pub(super) fn t90(log: &[LogEntry], rate: f64) -> Option<Duration> {
    const WINDOW: Duration = Duration::from_secs(5);
    let admitted: Vec<Duration> = log
        .iter()
        .filter(|entry| !entry.refused && entry.class != "robots")
        .map(|entry| entry.at)
        .collect();
    let first = *admitted.first()?;
    let wanted = (0.9 * rate * WINDOW.as_secs_f64()).ceil() as usize;
    let full = admitted.windows(wanted);
    full.filter(|window| window[wanted - 1] - window[0] < WINDOW)
        .map(|window| window[0] - first)
        .next()
}

/// The rows as a table.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:30} {:>8} {:>7} {:>6} {:>6} {:>6} {:>6} {:>5} {:>6} {:>4} {:>5} {:>5}\n",
        "limit",
        "requests",
        "refused",
        "%",
        "time",
        "ideal",
        "ratio",
        "T90",
        "peak",
        "bans",
        "lost",
        "exit"
    );
    for row in rows {
        let t90 = row
            .t90
            .map_or("-".to_owned(), |t90| format!("{:.1}", t90.as_secs_f64()));
        let code = row.code.map_or("-".to_owned(), |code| code.to_string());
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:30} {:>8} {:>7} {:>6.2} {:>6.1} {:>6.1} {:>6.2} {:>5} {:>6} {:>4} {:>5} {:>5}",
            row.name,
            row.requests,
            row.refused,
            100.0 * row.refused_share(),
            row.took.as_secs_f64(),
            row.ideal.as_secs_f64(),
            row.ratio(),
            t90,
            row.peak,
            row.bans,
            row.lost,
            code,
        );
    }
    text
}

/// Prints the table, and fails with the names and the last words of the rows that are not good.
#[track_caller]
pub(super) fn judge(rows: &[Row], good: impl Fn(&Row) -> bool) {
    let table = table(rows);
    eprintln!("{table}");
    let bad: Vec<String> = rows
        .iter()
        .filter(|row| !good(row))
        .map(|row| {
            let from = row.stderr.len() - row.stderr.len().min(600);
            let end = row.stderr.get(from..).unwrap_or(&row.stderr);
            format!("{}:\n{end}", row.name)
        })
        .collect();
    assert!(bad.is_empty(), "{table}\nout of bounds: {}", bad.join("\n"));
}
