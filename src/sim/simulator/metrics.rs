//! What a run came to.

use std::time::Duration;

use serde::Serialize;

use super::ideal::{self, Phase};
use super::scenario::Scenario;
use super::trace::{Look, Sample};
use crate::model::Timestamp;

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Good answers ÷ the most that the limits allow, over the whole run.
    pub goodput: f64,
    /// The same after the warm-up.
    pub steady: f64,
    /// The same for each time between changes.
    pub phases: Vec<f64>,
    /// Requests refused by a limit or a ban, of all that were answered.
    pub refused_share: f64,
    /// Their number.
    pub refused: u64,
    /// Good answers.
    pub good: u64,
    /// Requests sent.
    pub sent: u64,
    /// Seconds until the first five in which 90 % of the ideal came.
    pub t90: Option<f64>,
    /// Most requests sent in any second ÷ what the limit admits in a second.
    pub worst_second: f64,
    /// Seconds from each change until two in which 90 % of the new ideal came.
    pub recovery: Vec<Option<f64>>,
    /// Jain's index over the clients' good answers after the warm-up; 1 is even.
    pub jain: f64,
    /// By how many seconds a gap between two grants was longer than at the ideal rate: median.
    pub delay_p50: f64,
    /// The same, 99th percentile.
    pub delay_p99: f64,
    /// Most requests out at once, of all clients.
    pub peak: u32,
    /// Most refusals in any minute.
    pub worst_minute: u64,
    /// Bans by the server.
    pub bans: u32,
    /// Mean time of good answers ÷ what an idle server takes.
    pub latency: f64,
    /// Seconds until all was done, where the demand was bounded.
    pub finished: Option<f64>,
}

/// What happened, in order of time. Seconds are kept as nanoseconds.
#[derive(Debug)]
pub(super) struct Records {
    granted: Vec<u64>,
    sent: Vec<u64>,
    /// Good answers and whose.
    good: Vec<(u64, usize)>,
    refused: Vec<u64>,
    ended: u64,
    held: f64,
    out: u32,
    peak: u32,
    clients: usize,
    pub(super) bans: u32,
    pub(super) finished: Option<Timestamp>,
}

impl Records {
    pub(super) fn new(clients: usize) -> Self {
        Self {
            granted: Vec::new(),
            sent: Vec::new(),
            good: Vec::new(),
            refused: Vec::new(),
            ended: 0,
            held: 0.0,
            out: 0,
            peak: 0,
            clients,
            bans: 0,
            finished: None,
        }
    }

    pub(super) fn granted(&mut self, now: Timestamp) {
        self.granted.push(now.as_nanos());
        self.out += 1;
        self.peak = self.peak.max(self.out);
    }

    pub(super) fn sent(&mut self, now: Timestamp) {
        self.sent.push(now.as_nanos());
    }

    pub(super) fn lost(&mut self) {
        self.out = self.out.saturating_sub(1);
    }

    pub(super) fn ended(
        &mut self,
        now: Timestamp,
        client: usize,
        held: Duration,
        good: bool,
        refused: bool,
    ) {
        self.out = self.out.saturating_sub(1);
        self.ended += 1;
        if good {
            self.good.push((now.as_nanos(), client));
            self.held += held.as_secs_f64();
        }
        if refused {
            self.refused.push(now.as_nanos());
        }
    }

    /// Requests out.
    pub(super) const fn out(&self) -> u32 {
        self.out
    }

    /// What happened in each of `steps` equal parts of the run.
    pub(super) fn samples(&self, scenario: &Scenario, looks: &[Look], steps: u32) -> Vec<Sample> {
        let phases = ideal::phases(scenario);
        let step = scenario.lasts.as_secs_f64() / f64::from(steps.max(1));
        let good: Vec<u64> = self.good.iter().map(|(at, _)| *at).collect();
        let sample = |(nth, look): (usize, &Look)| {
            let from = nth as f64 * step;
            let per_second = |sorted: &[u64]| between(sorted, from, from + step) as f64 / step;
            Sample {
                at: from + step / 2.0,
                limit: expected(&phases, from, from + step) / step,
                pace: look.pace,
                cap: look.cap,
                in_flight: look.out,
                sent: per_second(&self.sent),
                accepted: per_second(&good),
                refused: per_second(&self.refused),
            }
        };
        looks.iter().enumerate().map(sample).collect()
    }

    pub(super) fn report(&self, scenario: &Scenario) -> Report {
        let phases = ideal::phases(scenario);
        let lasts = self
            .finished
            .map_or(scenario.lasts, |at| at.since(Timestamp::ZERO))
            .as_secs_f64();
        let warm = scenario.warm_up.as_secs_f64().min(lasts);
        let good: Vec<u64> = self.good.iter().map(|(at, _)| *at).collect();
        let ratio = |from: f64, until: f64| {
            let ideal = expected(&phases, from, until);
            if ideal > 0.0 && ideal.is_finite() {
                between(&good, from, until) as f64 / ideal
            } else {
                f64::NAN
            }
        };
        let unloaded = scenario.origin.service.mean() + 2.0 * scenario.wire.as_secs_f64();
        let (delay_p50, delay_p99) = self.delays(&phases);
        Report {
            goodput: ratio(0.0, lasts),
            steady: ratio(warm, lasts),
            phases: phases
                .iter()
                .filter(|phase| phase.from < lasts)
                .map(|phase| ratio(phase.from, phase.until.min(lasts)))
                .collect(),
            refused_share: self.refused.len() as f64 / (self.ended.max(1)) as f64,
            refused: self.refused.len() as u64,
            good: good.len() as u64,
            sent: self.sent.len() as u64,
            t90: phases
                .first()
                .and_then(|phase| reached(&good, 0.0, lasts, 5.0, phase.rate)),
            worst_second: self.worst_second(&phases),
            recovery: phases
                .iter()
                .skip(1)
                .map(|phase| {
                    reached(&good, phase.from, phase.until.min(lasts), 2.0, phase.rate)
                        .map(|at| at - phase.from)
                })
                .collect(),
            jain: self.jain(warm),
            delay_p50,
            delay_p99,
            peak: self.peak,
            worst_minute: most_within(&self.refused, 60.0),
            bans: self.bans,
            latency: self.held / (good.len().max(1)) as f64 / unloaded,
            finished: self
                .finished
                .map(|at| at.since(Timestamp::ZERO).as_secs_f64()),
        }
    }

    fn jain(&self, warm: f64) -> f64 {
        let mut counts = vec![0.0_f64; self.clients];
        for (at, client) in &self.good {
            if seconds(*at) >= warm {
                counts[*client] += 1.0;
            }
        }
        let sum: f64 = counts.iter().sum();
        let squares: f64 = counts.iter().map(|count| count * count).sum();
        if squares > 0.0 {
            sum * sum / (self.clients as f64 * squares)
        } else {
            1.0
        }
    }

    /// A window's limit is the largest that held in it, and at least one request.
    fn worst_second(&self, phases: &[Phase]) -> f64 {
        let mut worst = 0.0_f64;
        let mut first = 0;
        for (nth, at) in self.sent.iter().enumerate() {
            while self.sent[first] + 1_000_000_000 <= *at {
                first += 1;
            }
            let (from, until) = (seconds(self.sent[first]), seconds(*at));
            let limit = phases
                .iter()
                .filter(|phase| phase.from <= until && phase.until > from)
                .map(|phase| phase.admitted)
                .fold(1.0, f64::max);
            worst = worst.max((nth + 1 - first) as f64 / limit);
        }
        worst
    }

    fn delays(&self, phases: &[Phase]) -> (f64, f64) {
        let mut delays: Vec<f64> = self
            .granted
            .windows(2)
            .map(|pair| {
                let gap = seconds(pair[1] - pair[0]);
                (gap - 1.0 / rate_at(phases, seconds(pair[0]))).max(0.0)
            })
            .collect();
        delays.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let nth = (delays.len() as f64 * share) as usize;
            delays.get(nth).copied().unwrap_or(0.0)
        };
        (at(0.5), at(0.99))
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn rate_at(phases: &[Phase], at: f64) -> f64 {
    phases
        .iter()
        .rev()
        .find(|phase| phase.from <= at)
        .map_or(f64::INFINITY, |phase| phase.admitted)
        .max(1e-6)
}

/// What the ideal brings in a time.
fn expected(phases: &[Phase], from: f64, until: f64) -> f64 {
    phases
        .iter()
        .filter(|phase| phase.from < until && phase.until > from)
        .map(|phase| phase.rate * (phase.until.min(until) - phase.from.max(from)))
        .sum()
}

/// How many of the sorted instants lie in a time.
fn between(sorted: &[u64], from: f64, until: f64) -> usize {
    let upto = |at: f64| sorted.partition_point(|nanos| seconds(*nanos) < at);
    upto(until).saturating_sub(upto(from))
}

/// The first instant from which a window of good answers reaches 90 % of `rate`. The window is longer where it would
/// hold less than twenty answers.
fn reached(good: &[u64], from: f64, until: f64, window: f64, rate: f64) -> Option<f64> {
    let window = window.max(20.0 / rate);
    let mut at = from;
    while at + window <= until {
        if between(good, at, at + window) as f64 >= 0.9 * rate * window {
            return Some(at);
        }
        at += 0.1;
    }
    None
}

/// Most of the sorted instants in any window.
fn most_within(sorted: &[u64], window: f64) -> u64 {
    let mut most = 0;
    let mut first = 0;
    for (nth, at) in sorted.iter().enumerate() {
        while seconds(at - sorted[first]) >= window {
            first += 1;
        }
        most = most.max(nth + 1 - first);
    }
    most as u64
}

/// Means over several runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mean {
    /// Runs.
    pub runs: u32,
    /// Each figure as its mean; of the peak, the worst minute and the worst second the largest; bans added up.
    pub report: Report,
}

impl Mean {
    /// The means of these runs.
    #[must_use]
    pub fn of(reports: &[Report]) -> Self {
        let runs = reports.len().max(1) as f64;
        let mean = |figure: &dyn Fn(&Report) -> f64| reports.iter().map(figure).sum::<f64>() / runs;
        // A time that a run never reached makes the mean unknown.
        let mean_of = |figure: &dyn Fn(&Report) -> Option<f64>| {
            let all: Option<Vec<f64>> = reports.iter().map(figure).collect();
            all.map(|all| all.iter().sum::<f64>() / runs)
        };
        let lists = reports.first().map_or((0, 0), |report| {
            (report.phases.len(), report.recovery.len())
        });
        let report = Report {
            goodput: mean(&|r| r.goodput),
            steady: mean(&|r| r.steady),
            phases: (0..lists.0)
                .map(|nth| mean(&|r| r.phases.get(nth).copied().unwrap_or(0.0)))
                .collect(),
            refused_share: mean(&|r| r.refused_share),
            refused: mean(&|r| r.refused as f64).round() as u64,
            good: mean(&|r| r.good as f64).round() as u64,
            sent: mean(&|r| r.sent as f64).round() as u64,
            t90: mean_of(&|r| r.t90),
            worst_second: reports.iter().map(|r| r.worst_second).fold(0.0, f64::max),
            recovery: (0..lists.1)
                .map(|nth| mean_of(&|r| r.recovery.get(nth).copied().flatten()))
                .collect(),
            jain: mean(&|r| r.jain),
            delay_p50: mean(&|r| r.delay_p50),
            delay_p99: mean(&|r| r.delay_p99),
            peak: reports.iter().map(|r| r.peak).max().unwrap_or(0),
            worst_minute: reports.iter().map(|r| r.worst_minute).max().unwrap_or(0),
            bans: reports.iter().map(|r| r.bans).sum(),
            latency: mean(&|r| r.latency),
            finished: mean_of(&|r| r.finished),
        };
        Self {
            runs: u32::try_from(reports.len()).unwrap_or(u32::MAX),
            report,
        }
    }
}
