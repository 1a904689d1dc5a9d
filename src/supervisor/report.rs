//! The report of a run: what people and scripts read afterwards. Its JSON form is versioned.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lane_report::LaneReport;
use crate::exchange::EgressCounts;
use crate::governor::GovernorSnapshot;
use crate::model::{Job, Mode, Outcome, UnixMillis};
use crate::observe::{EndpointMetrics, Metrics};
use crate::platform::SiteEnd;
use crate::store::{RecordStats, SiteStats, StoreStats};

/// Version of the JSON form; raised when a reader of the old form could misread the new one.
pub const SCHEMA_VERSION: u32 = 1;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// All work is done and every task ended well.
    Complete,
    /// Tasks were done and the job has no record at all.
    Empty,
    /// Some tasks failed for good.
    Partial,
    /// Work is parked, or the wait would have been longer than `max_wait`.
    Blocked,
    /// Stopped; the same command goes on.
    Interrupted,
    /// The engine itself failed.
    Failed,
}

impl RunOutcome {
    /// The exit code of the binary. An interruption by a signal is told apart by the signal: see
    /// [`RunOutcome::exit_code_after`].
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Failed => 1,
            Self::Partial => 3,
            Self::Blocked => 4,
            Self::Empty => 5,
            Self::Interrupted => 130,
        }
    }

    /// The exit code when `signal` (2 or 15) asked for the stop.
    #[must_use]
    pub const fn exit_code_after(self, signal: Option<u8>) -> u8 {
        match (self, signal) {
            (Self::Interrupted, Some(signal)) => 128 + signal,
            _ => self.exit_code(),
        }
    }

    /// The word used in reports and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Empty => "empty",
            Self::Partial => "partial",
            Self::Blocked => "blocked",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The job's directory.
    pub directory: PathBuf,
    /// The job's mode.
    pub mode: Mode,
    /// The run.
    pub run: String,
    /// How it ended.
    pub outcome: RunOutcome,
    /// The exit code that goes with it.
    pub exit_code: u8,
    /// Start of this execution.
    pub started_at: String,
    /// Its end.
    pub ended_at: String,
    /// Its length.
    pub elapsed_seconds: f64,
    /// The global cap.
    pub max_concurrency_num: u32,
    /// Most exchanges ever in flight at once on this node.
    pub peak_in_flight: u32,
    /// By site.
    pub sites: BTreeMap<String, SiteReport>,
    /// The proxies of the settings, by name; counted since the node started.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub egress: BTreeMap<String, EgressCounts>,
}

/// One site of a report. Requests are those of this execution, tasks and records those of the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteReport {
    /// `complete`, `partial`, `parked`, `cap`, `blocked`, `interrupted` or `failed`.
    pub end: String,
    /// Why, where there is more to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When blocked work may go on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_until: Option<String>,
    /// Inputs that could not be used, each with the reason.
    #[serde(default)]
    pub rejected_inputs: BTreeMap<String, String>,
    /// By endpoint.
    pub endpoints: BTreeMap<String, EndpointReport>,
    /// Ended lists by stop reason.
    pub lists: BTreeMap<String, u64>,
    /// Records by kind.
    pub records: BTreeMap<String, RecordReport>,
    /// Tasks by state, and `added`, their sum.
    pub tasks: BTreeMap<String, u64>,
    /// Some tasks that failed or are parked.
    pub troubles: Vec<TroubleReport>,
}

/// One endpoint of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndpointReport {
    /// Requests sent.
    pub requests: u64,
    /// Answers of class ok, not_modified or empty; redirects among them.
    pub ok: u64,
    /// Redirects.
    pub redirects: u64,
    /// Refusals to slow down.
    pub limited: u64,
    /// Refusals to serve.
    pub blocked: u64,
    /// All other classes but gone.
    pub errors: u64,
    /// Requests for a task that had been asked before.
    pub retries: u64,
    /// By class.
    pub outcomes: BTreeMap<String, u64>,
    /// Most of its requests ever in flight at once.
    pub peak_in_flight: u32,
    /// Time that permits were held ÷ (global cap × length of the run).
    pub utilisation: f64,
    /// Median time from asking for a permit to getting it.
    pub wait_ms_p50: f64,
    /// 95th percentile of the same.
    pub wait_ms_p95: f64,
    /// Median time from the request sent to the last byte of its answer.
    pub latency_ms_p50: f64,
    /// 95th percentile of the same.
    pub latency_ms_p95: f64,
    /// What the governor did for it.
    #[serde(default)]
    pub governor: LaneReport,
}

/// Records of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordReport {
    /// Times a record was found.
    pub seen: u64,
    /// Distinct records stored.
    pub stored: u64,
    /// Revisions beyond the first.
    pub updated: u64,
    /// Records that a sink refused.
    pub rejected: u64,
}

/// A task that did not end well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TroubleReport {
    /// Its endpoint.
    pub endpoint: String,
    /// What it asked for.
    pub what: String,
    /// `failed` or `parked`.
    pub state: String,
    /// Its class.
    pub outcome: String,
    /// The reason.
    pub reason: String,
    /// Attempts made.
    pub attempts: u32,
}

/// What a report is made of.
pub(super) struct Facts<'a> {
    /// The job.
    pub job: &'a Job,
    /// The run.
    pub run: &'a str,
    /// Start of this execution.
    pub started: UnixMillis,
    /// Its end.
    pub ended: UnixMillis,
    /// How each site ended.
    pub ends: &'a BTreeMap<String, SiteEnd>,
    /// Inputs that could not be used, by site.
    pub rejected: &'a BTreeMap<String, Vec<(String, String)>>,
    /// The counters.
    pub metrics: &'a Metrics,
    /// What the store holds.
    pub stats: &'a StoreStats,
    /// The governor's state.
    pub governor: &'a GovernorSnapshot,
    /// The proxies.
    pub egress: BTreeMap<String, EgressCounts>,
}

/// Make the report.
#[must_use]
pub(super) fn report(facts: &Facts<'_>) -> Report {
    let elapsed = facts.ended.since(facts.started);
    let outcome = outcome(facts);
    let counters = facts.metrics.sites();
    let sites = facts
        .ends
        .iter()
        .map(|(name, end)| {
            let stats = facts.stats.sites.get(name).cloned().unwrap_or_default();
            let mut site = SiteReport::from_stats(&stats);
            site.say_end(end);
            let count = |state: &str| stats.tasks.get(state).copied().unwrap_or(0);
            // Nothing is pending any more, but not all ended well.
            if *end == SiteEnd::Finished && count("parked") > 0 {
                site.end = "parked".to_owned();
            } else if *end == SiteEnd::Finished && count("failed") > 0 {
                site.end = "partial".to_owned();
            }
            site.rejected_inputs = facts
                .rejected
                .get(name)
                .into_iter()
                .flatten()
                .cloned()
                .collect();
            if let Some(counters) = counters.get(name.as_str()) {
                for (endpoint, metrics) in &counters.endpoints {
                    let capacity =
                        elapsed.as_secs_f64() * f64::from(facts.governor.max_concurrency_num);
                    site.endpoints.insert(
                        endpoint.to_string(),
                        EndpointReport::new(
                            metrics,
                            LaneReport::of(facts.governor, name, endpoint),
                            capacity,
                        ),
                    );
                }
            }
            (name.clone(), site)
        })
        .collect();
    Report {
        schema_version: SCHEMA_VERSION,
        directory: facts.job.out.clone(),
        mode: facts.job.mode,
        run: facts.run.to_owned(),
        outcome,
        exit_code: outcome.exit_code(),
        started_at: facts.started.to_string(),
        ended_at: facts.ended.to_string(),
        elapsed_seconds: elapsed.as_secs_f64(),
        max_concurrency_num: facts.governor.max_concurrency_num,
        peak_in_flight: facts.governor.peak_in_flight,
        sites,
        egress: facts.egress.clone(),
    }
}

/// The first that applies, in the order of the exit codes.
fn outcome(facts: &Facts<'_>) -> RunOutcome {
    let any = |test: fn(&SiteEnd) -> bool| facts.ends.values().any(test);
    let tasks = |state: &str| -> u64 {
        facts
            .stats
            .sites
            .values()
            .filter_map(|site| site.tasks.get(state))
            .sum()
    };
    let records: u64 = facts
        .stats
        .sites
        .values()
        .flat_map(|site| site.records.values())
        .map(|kind| kind.stored)
        .sum();
    if any(|end| matches!(end, SiteEnd::Failed(_))) {
        RunOutcome::Failed
    } else if any(|end| matches!(end, SiteEnd::Interrupted)) {
        RunOutcome::Interrupted
    } else if any(|end| matches!(end, SiteEnd::Blocked { .. })) || tasks("parked") > 0 {
        RunOutcome::Blocked
    } else if tasks("failed") > 0 || facts.rejected.values().any(|inputs| !inputs.is_empty()) {
        RunOutcome::Partial
    } else if records == 0 {
        RunOutcome::Empty
    } else {
        RunOutcome::Complete
    }
}

impl SiteReport {
    fn from_stats(stats: &SiteStats) -> Self {
        let mut tasks: BTreeMap<String, u64> = stats
            .tasks
            .iter()
            .map(|(state, count)| ((*state).to_owned(), *count))
            .collect();
        tasks.insert("added".to_owned(), stats.added);
        Self {
            lists: stats.lists.clone(),
            records: stats
                .records
                .iter()
                .map(|(kind, stats)| (kind.clone(), RecordReport::from(*stats)))
                .collect(),
            tasks,
            blocked_until: stats.parked_until.map(|until| until.to_string()),
            troubles: stats
                .troubles
                .iter()
                .map(|trouble| TroubleReport {
                    endpoint: trouble.endpoint.clone(),
                    what: trouble.what.clone(),
                    state: trouble.state.to_owned(),
                    outcome: trouble.outcome.clone(),
                    reason: trouble.reason.clone(),
                    attempts: trouble.attempts,
                })
                .collect(),
            ..Self::default()
        }
    }

    fn say_end(&mut self, end: &SiteEnd) {
        let (word, reason) = match end {
            SiteEnd::Finished => ("complete", None),
            SiteEnd::Capped => ("cap", None),
            SiteEnd::Interrupted => ("interrupted", None),
            SiteEnd::Failed(why) => ("failed", Some(why.clone())),
            SiteEnd::Blocked { until, reason } => {
                self.blocked_until = until
                    .map(|until| until.to_string())
                    .or(self.blocked_until.take());
                ("blocked", Some(reason.clone()))
            }
        };
        self.end = word.to_owned();
        self.reason = reason;
    }
}

impl From<RecordStats> for RecordReport {
    fn from(stats: RecordStats) -> Self {
        Self {
            seen: stats.stored + stats.unchanged + stats.updated,
            stored: stats.stored,
            updated: stats.updated,
            rejected: 0,
        }
    }
}

impl EndpointReport {
    fn new(
        metrics: &EndpointMetrics,
        (peak_in_flight, governor): (u32, LaneReport),
        capacity_seconds: f64,
    ) -> Self {
        let count = |classes: &[Outcome]| -> u64 {
            classes
                .iter()
                .filter_map(|class| metrics.outcomes.get(class))
                .sum()
        };
        let ok = count(&[Outcome::Ok, Outcome::NotModified, Outcome::Empty]);
        let limited = count(&[Outcome::Limited]);
        let blocked = count(&[Outcome::Blocked, Outcome::Captcha, Outcome::Login]);
        let gone = count(&[Outcome::Gone]);
        // Whole microseconds, so that the text does not depend on who writes it.
        let millis = |micros: u64| (micros as f64) / 1e3;
        let busy = Duration::from_micros(metrics.busy).as_secs_f64();
        Self {
            requests: metrics.requests,
            ok,
            redirects: metrics.redirects,
            limited,
            blocked,
            errors: metrics.requests - ok - limited - blocked - gone,
            retries: metrics.retries,
            outcomes: metrics
                .outcomes
                .iter()
                .map(|(class, count)| (class.as_str().to_owned(), *count))
                .collect(),
            peak_in_flight,
            utilisation: if capacity_seconds > 0.0 {
                (busy / capacity_seconds).min(1.0)
            } else {
                0.0
            },
            wait_ms_p50: millis(metrics.wait.value_at_quantile(0.5)),
            wait_ms_p95: millis(metrics.wait.value_at_quantile(0.95)),
            latency_ms_p50: millis(metrics.latency.value_at_quantile(0.5)),
            latency_ms_p95: millis(metrics.latency.value_at_quantile(0.95)),
            governor,
        }
    }
}
