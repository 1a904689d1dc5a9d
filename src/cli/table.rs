//! Reports for people.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use slog::{Logger, info, warn};

use super::view::View;
use crate::supervisor::{Report, SiteReport};

/// The end of a run: a table on a terminal, log lines in a pipe.
pub(super) fn finish(view: &View, log: &Logger, report: &Report) {
    if view.is_live() {
        // The terminal may be gone by now; the report is in the store.
        let _ = writeln!(io::stderr(), "{}", text(report));
        return;
    }
    for (name, site) in &report.sites {
        let records: u64 = site.records.values().map(|kind| kind.stored).sum();
        let requests: u64 = site.endpoints.values().map(|e| e.requests).sum();
        info!(log, "site ended"; "site" => name, "end" => &site.end, "requests" => requests,
            "records" => records, "failed" => count(site, "failed"), "parked" => count(site, "parked"),
            "pending" => count(site, "pending"));
        for (input, why) in &site.rejected_inputs {
            warn!(log, "input not used"; "site" => name, "input" => input, "why" => why);
        }
        for trouble in &site.troubles {
            warn!(log, "task not done"; "site" => name, "what" => &trouble.what,
                "state" => &trouble.state, "reason" => &trouble.reason);
        }
    }
    info!(log, "run ended"; "outcome" => report.outcome.as_str(), "run" => &report.run,
        "seconds" => format!("{:.1}", report.elapsed_seconds), "peak_in_flight" => report.peak_in_flight);
}

fn count(site: &SiteReport, state: &str) -> u64 {
    site.tasks.get(state).copied().unwrap_or(0)
}

/// A table with the columns aligned as numbers, but for the first `words`.
pub(super) fn table(header: &[&str], words: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(header.to_vec());
    for index in 0..header.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_padding((0, 1));
            if index >= words {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    table
}

/// A report as text.
pub(super) fn text(report: &Report) -> String {
    let mut out = format!(
        "run {} of {}: {} (exit code {}), {:.1} s, at most {} of {} exchanges in flight\n",
        report.run,
        report.directory.display(),
        report.outcome.as_str(),
        report.exit_code,
        report.elapsed_seconds,
        report.peak_in_flight,
        report.max_concurrency_num,
    );
    let mut requests = table(
        &[
            "site", "endpoint", "requests", "ok", "limited", "blocked", "errors", "retries",
            "peak", "p95 ms",
        ],
        2,
    );
    let mut tasks = table(
        &[
            "site", "end", "done", "failed", "parked", "pending", "dropped", "records",
        ],
        2,
    );
    for (name, site) in &report.sites {
        for (endpoint, counts) in &site.endpoints {
            requests.add_row([
                name.clone(),
                endpoint.clone(),
                counts.requests.to_string(),
                counts.ok.to_string(),
                counts.limited.to_string(),
                counts.blocked.to_string(),
                counts.errors.to_string(),
                counts.retries.to_string(),
                counts.peak_in_flight.to_string(),
                format!("{:.0}", counts.latency_ms_p95),
            ]);
        }
        let records: Vec<String> = site
            .records
            .iter()
            .map(|(kind, count)| format!("{} {kind}", count.stored))
            .collect();
        tasks.add_row([
            name.clone(),
            site.end.clone(),
            count(site, "done").to_string(),
            count(site, "failed").to_string(),
            count(site, "parked").to_string(),
            count(site, "pending").to_string(),
            count(site, "dropped").to_string(),
            records.join("\n"),
        ]);
    }
    if report.sites.values().any(|site| !site.endpoints.is_empty()) {
        out.push_str(&format!("{requests}\n"));
    }
    out.push_str(&format!("{tasks}\n"));
    for (name, site) in &report.sites {
        for (endpoint, counts) in &site.endpoints {
            let lane = &counts.governor;
            if let Some(rate) = lane.learned_rate_per_second {
                let cap = lane.learned_cap;
                let cap = cap.map_or(String::new(), |cap| format!(", {cap} at once"));
                out.push_str(&format!(
                    "{name}: {endpoint} takes about {rate:.1}/s{cap} (learned from {} events)\n",
                    lane.learning_events
                ));
            }
        }
        if let Some(reason) = &site.reason {
            out.push_str(&format!("{name}: {reason}\n"));
        }
        if let Some(until) = &site.blocked_until {
            out.push_str(&format!("{name}: come back at {until}\n"));
        }
        for (reason, count) in &site.lists {
            out.push_str(&format!("{name}: {count} lists ended with `{reason}`\n"));
        }
        for (input, why) in &site.rejected_inputs {
            out.push_str(&format!("{name}: input `{input}` not used: {why}\n"));
        }
        for trouble in &site.troubles {
            out.push_str(&format!(
                "{name}: {} {} after {} attempts: {}\n",
                trouble.state, trouble.what, trouble.attempts, trouble.reason
            ));
        }
    }
    out
}
