//! Laws side by side.

use std::io::{self, Write};

use super::super::args::SimulateArgs;
use super::super::failure::{Failure, printed};
use crate::sim::simulator::{
    Figures, Law, PEERS, Scenario, Summary, built_in, cell, drawn, measure,
};

/// Seeds that nobody tunes with.
const SEALED: u64 = 1_000_000;

type Measured = Vec<(Law, Vec<Figures>)>;

/// Measure, and print the tables.
pub(super) fn run(args: &SimulateArgs) -> Result<u8, Failure> {
    let laws = laws(&args.laws)?;
    let mut out = io::stdout().lock();
    if args.random {
        let count = args.seeds.unwrap_or(100);
        let mut text = String::new();
        for (title, first) in [("drawn", 0), ("drawn, sealed", SEALED)] {
            let scenarios: Vec<Scenario> = (first..first + count).map(drawn).collect();
            let title = format!("{count} scenarios {title}, one run each");
            text += &summary(&title, &all(&laws, &scenarios, first, 1), args.markdown);
        }
        return printed(out.write_all(text.as_bytes()));
    }
    let measured = all(&laws, &built_in(), 0, args.seeds.unwrap_or(10));
    let title = format!("{} runs of each scenario", args.seeds.unwrap_or(10));
    let mut text = table(&measured, args.markdown);
    text += &summary(&title, &measured, args.markdown);
    for (law, figures) in &measured {
        if Law::OURS.contains(law) {
            text += &details(*law, figures, args.markdown);
        }
    }
    printed(out.write_all(text.as_bytes()))
}

fn laws(names: &[String]) -> Result<Vec<Law>, Failure> {
    let mut laws: Vec<Law> = Vec::new();
    for name in names {
        match name.as_str() {
            "all" => laws.extend(Law::all()),
            "peers" => laws.extend(PEERS.map(Law::Peer)),
            name => laws.push(
                name.parse()
                    .map_err(|error| Failure::usage(format!("--laws {name}: {error}")))?,
            ),
        }
    }
    Ok(laws)
}

fn all(laws: &[Law], scenarios: &[Scenario], first: u64, seeds: u64) -> Measured {
    laws.iter()
        .map(|law| (*law, measure(*law, scenarios, first, seeds)))
        .collect()
}

/// Goodput and refused share of each scenario and law.
fn table(measured: &Measured, markdown: bool) -> String {
    let mut header = vec!["scenario".to_owned(), "what".to_owned()];
    header.extend(measured.iter().map(|(law, _)| law.to_string()));
    let rows = measured.first().map_or(0, |(_, figures)| figures.len());
    let rows = (0..rows).map(|nth| {
        let first = &measured[0].1[nth];
        let mut row = vec![first.scenario.clone(), first.about.clone()];
        row.extend(measured.iter().map(|(_, figures)| cell(&figures[nth])));
        row
    });
    let title = "Goodput ÷ ideal after the warm-up, and refused share";
    written(title, &header, &rows.collect::<Vec<_>>(), markdown)
}

fn summary(title: &str, measured: &Measured, markdown: bool) -> String {
    let header = [
        "law",
        "goodput mean",
        "5th pct",
        "worst",
        "refused median",
        "95th pct",
        "worst",
        "good",
        "bans",
    ];
    let rows = measured.iter().map(|(law, figures)| {
        let sum = Summary::of(figures);
        vec![
            law.to_string(),
            format!("{:.3}", sum.goodput_mean),
            format!("{:.2}", sum.goodput_p05),
            format!("{:.2} {}", sum.goodput_worst.0, sum.goodput_worst.1),
            percent(sum.refused_median),
            percent(sum.refused_p95),
            format!("{} {}", percent(sum.refused_worst.0), sum.refused_worst.1),
            format!("{} of {}", sum.good, sum.of),
            sum.bans.to_string(),
        ]
    });
    let title = format!("{title}; good: at least 85 % of the ideal with at most 1 % refused");
    let header: Vec<String> = header.map(str::to_owned).to_vec();
    written(&title, &header, &rows.collect::<Vec<_>>(), markdown)
}

fn details(law: Law, figures: &[Figures], markdown: bool) -> String {
    let header = [
        "scenario",
        "whole run",
        "t90 s",
        "worst 1 s",
        "in flight",
        "recovery s",
        "Jain",
        "late p99 ms",
        "refused/min",
        "latency",
        "bans",
    ];
    let rows = figures.iter().map(|one| {
        let report = &one.mean.report;
        let recovery: Vec<String> = report.recovery.iter().copied().map(seconds).collect();
        vec![
            one.scenario.clone(),
            format!("{:.2}", report.goodput.min(1.0)),
            seconds(report.t90),
            format!("{:.2}", report.worst_second),
            report.peak.to_string(),
            recovery.join(", "),
            format!("{:.3}", report.jain),
            format!("{:.0}", report.delay_p99 * 1e3),
            report.worst_minute.to_string(),
            format!("{:.2}", report.latency),
            report.bans.to_string(),
        ]
    });
    let header: Vec<String> = header.map(str::to_owned).to_vec();
    let title = format!("{law} in detail");
    written(&title, &header, &rows.collect::<Vec<_>>(), markdown)
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn seconds(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "never".to_owned(), |seconds| format!("{seconds:.1}"))
}

/// A table in Markdown or in columns.
fn written(title: &str, header: &[String], rows: &[Vec<String>], markdown: bool) -> String {
    if markdown {
        let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule: Vec<String> = header.iter().map(|_| "---".to_owned()).collect();
        let body: String = rows.iter().map(|cells| row(cells)).collect();
        return format!("{title}:\n\n{}{}{body}\n", row(header), row(&rule));
    }
    let width = |nth: usize| {
        let cells = rows.iter().map(|row| row[nth].chars().count());
        cells.max().unwrap_or(0).max(header[nth].chars().count())
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let body: String = rows.iter().map(|cells| line(cells)).collect();
    format!("{title}\n{}{body}\n", line(header))
}
