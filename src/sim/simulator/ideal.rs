//! The most that a scenario's limits allow.
//!
//! Each limit is turned into requests a second: a bucket's rate; a window's count by its length; a limit on requests
//! at once, and a number of workers, by the mean time (Little's law). A limit on requests at once is taken over the
//! time that a client holds a permit, wire included, for a client cannot know when the server stops to count.
//! Endpoints add up, the site's limits bound the sum, strangers are subtracted, and of what remains the share that the
//! faults and the chaos let through counts.

use super::origin::{Mishap, OriginSpec};
use super::scenario::Scenario;
use crate::sim::Limit;

/// A time without changes of the limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Phase {
    /// Seconds since the start.
    pub(super) from: f64,
    pub(super) until: f64,
    /// Good answers a second; infinite where nothing limits.
    pub(super) rate: f64,
    /// Requests a second that the limits admit, whatever becomes of them.
    pub(super) admitted: f64,
}

/// The phases of a scenario.
pub(super) fn phases(scenario: &Scenario) -> Vec<Phase> {
    let lasts = scenario.lasts.as_secs_f64();
    let origin = &scenario.origin;
    let first = (0.0, &origin.limits, &origin.endpoints);
    let later = scenario
        .changes
        .iter()
        .map(|change| (change.at.as_secs_f64(), &change.limits, &change.endpoints));
    let starts: Vec<_> = [first].into_iter().chain(later).collect();
    starts
        .iter()
        .enumerate()
        .map(|(nth, (from, site, endpoints))| {
            let admitted = admitted(scenario, site, endpoints);
            Phase {
                from: *from,
                until: starts.get(nth + 1).map_or(lasts, |next| next.0),
                rate: admitted * let_through(scenario),
                admitted,
            }
        })
        .collect()
}

fn admitted(scenario: &Scenario, site: &[Limit], endpoints: &[Vec<Limit>]) -> f64 {
    let origin = &scenario.origin;
    let held = origin.service.mean() + 2.0 * scenario.wire.as_secs_f64();
    let least = |limits: &[Limit]| {
        limits
            .iter()
            .map(|limit| per_second(limit, held))
            .fold(f64::INFINITY, f64::min)
    };
    let workers = origin.service.workers.map_or(f64::INFINITY, |workers| {
        f64::from(workers) / origin.service.mean()
    });
    let sum: f64 = endpoints.iter().map(|limits| least(limits)).sum();
    (sum.min(least(site)).min(workers) - scenario.strangers).max(0.0)
}

fn per_second(limit: &Limit, held: f64) -> f64 {
    match limit {
        Limit::Concurrency { max } => f64::from(*max) / held,
        Limit::Fixed { max, window, .. } | Limit::Sliding { max, window, .. } => {
            f64::from(*max) / window.as_secs_f64()
        }
        Limit::Bucket { per_second, .. } => *per_second,
    }
}

/// Of the admitted requests, the share that can end well.
fn let_through(scenario: &Scenario) -> f64 {
    let dropped = scenario.chaos.dropped.clamp(0.0, 1.0);
    // A permit dropped before it was used costs the server nothing.
    let answered = (1.0 - dropped) / (1.0 - dropped / 2.0);
    sound(&scenario.origin) * answered
}

fn sound(origin: &OriginSpec) -> f64 {
    origin
        .troubles
        .iter()
        .filter(|trouble| !matches!(trouble.what, Mishap::Slow(_)))
        .map(|trouble| 1.0 - trouble.share)
        .product()
}
