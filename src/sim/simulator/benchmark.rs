//! Laws side by side over many scenarios.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::engine::run;
use super::laws::Law;
use super::metrics::{Mean, Report};
use super::scenario::Scenario;

/// The figures of one law in one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// The scenario.
    pub scenario: String,
    /// Its line.
    pub about: String,
    /// Means over the seeds.
    pub mean: Mean,
}

impl Figures {
    /// Good answers ÷ ideal after the warm-up, at most 1: a fixed window that is cut off by the end of the run can give
    /// a little more than its rate.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        self.mean.report.steady.min(1.0)
    }

    /// Of the answers, how many were refusals.
    #[must_use]
    pub const fn refused(&self) -> f64 {
        self.mean.report.refused_share
    }

    /// At least 85 % of the ideal with at most 1 % refused.
    #[must_use]
    pub fn good(&self) -> bool {
        self.goodput() >= 0.85 && self.refused() <= 0.01
    }
}

/// Runs a law over the scenarios, each with the seeds `first..first + seeds`, on all cores. What comes out does not
/// depend on their number.
#[must_use]
pub fn measure(law: Law, scenarios: &[Scenario], first: u64, seeds: u64) -> Vec<Figures> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let nth = next.fetch_add(1, Ordering::Relaxed)
            && let Some(scenario) = scenarios.get(nth)
        {
            done.push((nth, figures(law, scenario, first, seeds)));
        }
        done
    };
    let mut all: Vec<(usize, Figures)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.flatten().collect()
    });
    all.sort_by_key(|(nth, _)| *nth);
    all.into_iter().map(|(_, figures)| figures).collect()
}

fn figures(law: Law, scenario: &Scenario, first: u64, seeds: u64) -> Figures {
    let reports: Vec<Report> = (first..first.saturating_add(seeds))
        .map(|seed| run(scenario, seed, &mut |seed| law.control(scenario, seed)))
        .collect();
    Figures {
        scenario: scenario.name.clone(),
        about: scenario.about.clone(),
        mean: Mean::of(&reports),
    }
}

/// A law over all scenarios.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Of the capped goodputs.
    pub goodput_mean: f64,
    /// The least, and where.
    pub goodput_worst: (f64, String),
    /// The 5th percentile.
    pub goodput_p05: f64,
    /// Of the refused shares.
    pub refused_median: f64,
    /// The 95th percentile.
    pub refused_p95: f64,
    /// The largest, and where.
    pub refused_worst: (f64, String),
    /// Scenarios that are [`Figures::good`].
    pub good: usize,
    /// Of so many.
    pub of: usize,
    /// Bans in all runs.
    pub bans: u32,
}

impl Summary {
    /// Of these figures.
    #[must_use]
    pub fn of(figures: &[Figures]) -> Self {
        let mut goodput: Vec<(f64, String)> = figures
            .iter()
            .map(|one| (one.goodput(), one.scenario.clone()))
            .collect();
        goodput.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut refused: Vec<(f64, String)> = figures
            .iter()
            .map(|one| (one.refused(), one.scenario.clone()))
            .collect();
        refused.sort_by(|a, b| a.0.total_cmp(&b.0));
        let at = |sorted: &[(f64, String)], share: f64| {
            let nth = (sorted.len().saturating_sub(1)) as f64 * share;
            sorted
                .get(nth.round() as usize)
                .cloned()
                .unwrap_or_default()
        };
        let sum: f64 = goodput.iter().map(|one| one.0).sum();
        Self {
            goodput_mean: sum / figures.len().max(1) as f64,
            goodput_worst: at(&goodput, 0.0),
            goodput_p05: at(&goodput, 0.05).0,
            refused_median: at(&refused, 0.5).0,
            refused_p95: at(&refused, 0.95).0,
            refused_worst: at(&refused, 1.0),
            good: figures.iter().filter(|one| one.good()).count(),
            of: figures.len(),
            bans: figures.iter().map(|one| one.mean.report.bans).sum(),
        }
    }
}

/// `.97/0.21 %`: goodput and refused share.
#[must_use]
pub fn cell(figures: &Figures) -> String {
    let goodput = format!("{:.2}", figures.goodput());
    let goodput = goodput.strip_prefix('0').unwrap_or(&goodput);
    let percent = figures.refused() * 100.0;
    let refused = if percent == 0.0 {
        "0".to_owned()
    } else if percent < 0.995 {
        format!("{percent:.2} %")
            .strip_prefix('0')
            .map_or_else(String::new, str::to_owned)
    } else if percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    };
    format!("{goodput}/{refused}")
}
