//! The state of a ledger, for people and reports.

use super::Ledger;
use crate::governor::messages::{GovernorSnapshot, LaneSnapshot};
use crate::model::{Outcome, Timestamp};

impl Ledger {
    /// The state at `now`. Changes nothing.
    #[must_use]
    pub fn snapshot(&self, now: Timestamp) -> GovernorSnapshot {
        let now = self.now.max(now);
        let mut lanes: Vec<_> = (0..self.lanes.len())
            .map(|id| self.lane_snapshot(id, now))
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
        }
    }

    fn lane_snapshot(&self, id: usize, now: Timestamp) -> LaneSnapshot {
        let lane = &self.lanes[id];
        let group = &self.groups[lane.group as usize];
        let paused = [lane.level.paused, group.level.paused, self.all_paused()];
        let state = if paused.into_iter().any(|until| until > now) {
            "paused"
        } else {
            lane.backoff.state(now)
        };
        let not_before = self
            .lane_time(u32::try_from(id).unwrap_or(u32::MAX))
            .map_or(0, |(at, _)| at.since(now).as_millis());
        let outcomes = Outcome::ALL
            .into_iter()
            .map(|outcome| (outcome, lane.outcomes[outcome as usize]))
            .filter(|(_, count)| *count > 0)
            .collect();
        LaneSnapshot {
            site: lane.key.site.to_string(),
            host: lane.key.host.as_ref().map(ToString::to_string),
            endpoint: lane.key.endpoint.to_string(),
            state,
            in_flight: lane.level.in_flight,
            peak_in_flight: lane.level.peak,
            waiting: u32::try_from(lane.queue.len()).unwrap_or(u32::MAX),
            granted: lane.granted,
            outcomes,
            not_before_ms: u64::try_from(not_before).unwrap_or(u64::MAX),
            failures: lane.backoff.failures(now),
        }
    }
}
