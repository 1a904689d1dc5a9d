//! The state of a ledger, for people and reports.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Lane, Ledger, Stage};
use crate::governor::messages::{DroppedLanes, GovernorSnapshot, LaneSnapshot};
use crate::model::{Name, Outcome, Timestamp};

/// Counts of lanes that were dropped, by site and endpoint: their number is that of the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gone {
    counts: BTreeMap<(Name, Name), Counts>,
    pub(super) dirty: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    lanes: u64,
    peak: u32,
    granted: u64,
    outcomes: [u64; 19],
    events: u64,
    deferred: u64,
    refused: u64,
}

impl Gone {
    /// A lane is dropped, after so many learning events.
    pub(super) fn add(&mut self, lane: &Lane, events: u64) {
        let name = (lane.key.site.clone(), lane.key.endpoint.clone());
        let counts = self.counts.entry(name).or_default();
        counts.lanes += 1;
        counts.peak = counts.peak.max(lane.level.peak);
        counts.granted += lane.granted;
        for (sum, count) in counts.outcomes.iter_mut().zip(lane.outcomes) {
            *sum += count;
        }
        counts.events += events;
        counts.deferred += lane.waits.deferred();
        counts.refused += lane.refused;
        self.dirty = true;
    }

    fn list(&self) -> Vec<DroppedLanes> {
        let counts = self.counts.iter();
        counts
            .map(|((site, endpoint), counts)| DroppedLanes {
                site: site.to_string(),
                endpoint: endpoint.to_string(),
                lanes: counts.lanes,
                peak_in_flight: counts.peak,
                granted: counts.granted,
                outcomes: outcomes(&counts.outcomes),
                learning_events: counts.events,
                deferred: counts.deferred,
                refused: counts.refused,
            })
            .collect()
    }
}

impl Ledger {
    /// The state at `now`. Changes nothing.
    #[must_use]
    pub fn snapshot(&self, now: Timestamp) -> GovernorSnapshot {
        let now = self.now.max(now);
        let mut running = vec![Duration::ZERO; self.lanes.end()];
        for out in self.out.values().filter(|out| out.stage == Stage::Out) {
            running[out.lane as usize] += now.since(out.granted);
        }
        let numbers = self.lanes.iter().map(|(number, _)| number);
        let mut lanes: Vec<_> = numbers
            .map(|number| self.lane_snapshot(number, running[number as usize], now))
            .collect();
        lanes.sort_by(|a, b| (&a.site, &a.host, &a.endpoint).cmp(&(&b.site, &b.host, &b.endpoint)));
        GovernorSnapshot {
            max_concurrency_num: self.config.cap(),
            in_flight: self.in_flight,
            peak_in_flight: self.totals.peak,
            granted: self.totals.granted,
            released: self.totals.released,
            reaped: self.totals.reaped,
            store_error: None,
            lanes,
            dropped: self.gone.list(),
        }
    }

    /// `running`: for how long its permits that are out have been.
    fn lane_snapshot(&self, number: u32, running: Duration, now: Timestamp) -> LaneSnapshot {
        let id = number as usize;
        let lane = &self.lanes[id];
        let learner = self.learner(number);
        let found = learner.found(now);
        let group = &self.groups[lane.group as usize];
        let paused = [lane.level.paused, group.level.paused, self.all_paused()];
        let state = if paused.into_iter().any(|until| until > now) {
            "paused"
        } else {
            learner.state(now)
        };
        let not_before = self
            .lane_time(number)
            .map_or(0, |(at, _)| at.since(now).as_millis());
        LaneSnapshot {
            site: lane.key.site.to_string(),
            host: lane.key.host.as_ref().map(ToString::to_string),
            endpoint: lane.key.endpoint.to_string(),
            state,
            in_flight: lane.level.in_flight,
            peak_in_flight: lane.level.peak,
            waiting: u32::try_from(lane.queue.len()).unwrap_or(u32::MAX),
            granted: lane.granted,
            outcomes: outcomes(&lane.outcomes),
            not_before_ms: u64::try_from(not_before).unwrap_or(u64::MAX),
            failures: learner.failures(now),
            mode: self.config.manner(&lane.key).mode.as_str(),
            pace_per_second: found.map(|found| found.pace_per_second),
            learned_rate_per_second: found.map(|found| found.estimate_per_second),
            learned_cap: found.and_then(|found| found.cap),
            learning_events: learner.events(),
            shares_with: self.shares_with(id),
            deferred: lane.waits.deferred(),
            refused: lane.refused,
            wait_p50_ms: millis(lane.waits.quantile(0.5)),
            wait_p95_ms: millis(lane.waits.quantile(0.95)),
            utilisation: self.utilisation(id, running, now),
        }
    }

    /// Endpoints that learn together with a lane.
    fn shares_with(&self, id: usize) -> Vec<String> {
        let kin = self.lanes[id].kin.map(|kin| &self.kin[kin as usize]);
        let lanes = kin.into_iter().flat_map(|kin| &kin.lanes);
        lanes
            .map(|lane| *lane as usize)
            .filter(|lane| *lane != id)
            .map(|lane| self.lanes[lane].key.endpoint.to_string())
            .collect()
    }

    /// Time in flight ÷ (cap × time since the first request), with the least of the configured caps.
    fn utilisation(&self, id: usize, running: Duration, now: Timestamp) -> f64 {
        let lane = &self.lanes[id];
        let Some(since) = lane.since else {
            return 0.0;
        };
        let busy = lane.busy + running;
        let group = &self.groups[lane.group as usize].level;
        let cap = lane.level.cap().min(group.cap()).min(self.config.cap());
        let whole = now.since(since).as_secs_f64() * f64::from(cap);
        if whole > 0.0 {
            busy.as_secs_f64() / whole
        } else {
            0.0
        }
    }
}

fn outcomes(counts: &[u64; 19]) -> BTreeMap<Outcome, u64> {
    Outcome::ALL
        .into_iter()
        .map(|outcome| (outcome, counts[outcome as usize]))
        .filter(|(_, count)| *count > 0)
        .collect()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
