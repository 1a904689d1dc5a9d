//! What a calibration found, for people and for programs.

use std::time::Duration;

use serde::Serialize;

use super::local::Written;
use crate::calibrate::{Measured, Rules, Verdict};
use crate::cli::table::table;
use crate::engine::calibrate::{End, Findings, Running};

/// Version of the shape of [`Result`].
const SCHEMA_VERSION: u32 = 1;

/// The result as JSON.
#[derive(Serialize)]
pub(super) struct Result<'f> {
    schema_version: u32,
    exit_code: u8,
    rules: &'f Rules,
    #[serde(flatten)]
    findings: &'f Findings,
    /// The verdict as people read it.
    reason: String,
    /// What was written where.
    written: &'f [Written],
}

impl<'f> Result<'f> {
    pub(super) fn new(
        findings: &'f Findings,
        rules: &'f Rules,
        exit_code: u8,
        written: &'f [Written],
    ) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            exit_code,
            rules,
            findings,
            reason: findings.verdict.to_string(),
            written,
        }
    }

    /// The result as text: a table, how the climb ended, the verdict.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if !self.findings.levels.is_empty() {
            text.push_str(&format!("{}\n", levels(&self.findings.levels)));
            if self.findings.levels.iter().any(|level| !level.complete) {
                text.push_str("* broken off, not judged\n");
            }
        }
        if let Some(end) = ended(&self.findings.end) {
            text.push_str(&format!("{end}\n"));
        }
        text.push_str(&format!("{}.\n", self.reason));
        if let Verdict::Found(found) = &self.findings.verdict {
            text.push_str(&format!(
                "A cap alone does not hold a pace: where the site has a limit per time, set a rate as well; {:.1}/s held here.\n",
                found.ok_per_second
            ));
        }
        for one in self.written {
            text.push_str(&format!(
                "Wrote {} = {} to {}.\n",
                one.key,
                one.value,
                one.file.display()
            ));
        }
        text
    }
}

fn levels(levels: &[Measured]) -> comfy_table::Table {
    let mut table = table(
        &[
            "level",
            "requests",
            "ok/s",
            "mean ms",
            "p50",
            "p95",
            "refused",
            "errors",
            "bad %",
            "interval",
            "in flight",
            "Little",
            "off",
            "CPU %",
            "MiB",
        ],
        0,
    );
    for level in levels {
        table.add_row([
            format!("{}{}", level.level, if level.complete { "" } else { "*" }),
            level.requests.to_string(),
            format!("{:.1}", level.ok_per_second),
            known(level.latency_ms_mean, 1),
            known(level.latency_ms_p50, 1),
            known(level.latency_ms_p95, 1),
            level.refused.to_string(),
            level.errors.to_string(),
            format!("{:.1}", level.bad_share * 100.0),
            format!(
                "{:.1}-{:.1}",
                level.bad_share_low * 100.0,
                level.bad_share_high * 100.0
            ),
            format!("{:.2}", level.in_flight_mean),
            format!("{:.2}", level.in_flight_predicted),
            level
                .in_flight_deviation
                // Adding zero turns a negative one into a plain one.
                .map_or_else(
                    || "-".to_owned(),
                    |off| format!("{:+.0} %", (off * 100.0).round() + 0.0),
                ),
            level
                .cpu_percent
                .map_or_else(|| "n/a".to_owned(), |cpu| format!("{cpu:.0}")),
            level.memory_bytes.map_or_else(
                || "n/a".to_owned(),
                |bytes| format!("{:.0}", bytes as f64 / f64::from(1 << 20)),
            ),
        ]);
    }
    table
}

fn known(number: Option<f64>, places: usize) -> String {
    number.map_or_else(|| "-".to_owned(), |number| format!("{number:.places$}"))
}

/// A time in whole seconds, rounded up: what is said to be waited for is enough.
pub(super) fn wait(ms: u64) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(ms.div_ceil(1000)))
}

/// Why the climb ended, where that is not the course of things.
fn ended(end: &End) -> Option<String> {
    Some(match end {
        End::Done | End::Above { .. } => return None,
        End::Blocked {
            outcome,
            status,
            wait_ms,
        } => {
            let hint = match (outcome, wait_ms) {
                (crate::model::Outcome::Blocked, Some(ms)) => {
                    format!("leave it alone for at least {}", wait(*ms))
                }
                (crate::model::Outcome::Blocked, None) => {
                    "leave it alone for some hours".to_owned()
                }
                _ => "a person must act before it is asked again".to_owned(),
            };
            format!("The site refuses this client ({outcome}, status {status}): {hint}.")
        }
        End::Paused { wait_ms } => format!(
            "A pause of {} is longer than max_wait: come back then.",
            wait(*wait_ms)
        ),
        End::NoAnswer { why } => format!("No answer to measure: {why}."),
        End::Interrupted => "Stopped before the end.".to_owned(),
    })
}

/// How far a level is, in one line.
pub(super) fn running(running: &Running, length: Duration) -> String {
    format!(
        "level {}: {:.1} of {} s, {} requests, {} bad, {} in flight",
        running.level,
        running.elapsed.as_secs_f64(),
        length.as_secs_f64(),
        running.requests,
        running.bad,
        running.in_flight
    )
}
