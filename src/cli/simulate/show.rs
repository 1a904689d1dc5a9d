//! One run, for people.

use super::Run;

/// The figures, one a line.
pub(super) fn text(run: &Run) -> String {
    let report = &run.report;
    let mut lines = vec![format!("{}: {}", run.scenario, run.about)];
    lines.push(format!(
        "law {}, seed {}, {:.0} s of virtual time",
        run.law, run.seed, run.seconds
    ));
    let mut line = |name: &str, value: String| lines.push(format!("  {name:<16} {value}"));
    if report.goodput.is_finite() {
        line(
            "goodput ÷ ideal",
            format!(
                "{:.3}, after {:.0} s {:.3}",
                report.goodput, run.warm_up, report.steady
            ),
        );
    } else {
        line("goodput ÷ ideal", "unknown: nothing limits".to_owned());
    }
    if report.phases.len() > 1 {
        let phases: Vec<String> = report
            .phases
            .iter()
            .map(|one| format!("{one:.3}"))
            .collect();
        line("between changes", phases.join(", "));
    }
    line(
        "good answers",
        format!("{} of {} sent", report.good, report.sent),
    );
    line(
        "refused",
        format!(
            "{} ({:.2} %), at most {} in a minute; bans: {}",
            report.refused,
            report.refused_share * 100.0,
            report.worst_minute,
            report.bans
        ),
    );
    line("first at 90 %", seconds(report.t90));
    if !report.recovery.is_empty() {
        let all: Vec<String> = report.recovery.iter().copied().map(seconds).collect();
        line("after changes", all.join(", "));
    }
    line(
        "at most",
        format!(
            "{} in flight; in one second {:.2} × the limit",
            report.peak, report.worst_second
        ),
    );
    line(
        "grants late by",
        format!(
            "median {:.0} ms, p99 {:.0} ms",
            report.delay_p50 * 1e3,
            report.delay_p99 * 1e3
        ),
    );
    line("latency", format!("{:.2} × unloaded", report.latency));
    line("fairness", format!("{:.3} (Jain)", report.jain));
    if let Some(finished) = report.finished {
        line("all done", seconds(Some(finished)));
    }
    lines.join("\n") + "\n"
}

fn seconds(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "never".to_owned(), |seconds| format!("{seconds:.1} s"))
}
