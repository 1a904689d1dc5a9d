//! What the governor did for one endpoint, as the report says it.

use serde::{Deserialize, Serialize};

use crate::governor::GovernorSnapshot;

/// The governor's side of an endpoint. In `crawl` mode sums over all hosts; what was learned is that of the
/// host with the most requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneReport {
    /// `fixed` or `adaptive`.
    pub mode: String,
    /// Permits granted.
    pub granted: u64,
    /// Requests that were not granted in the instant they asked.
    pub deferred: u64,
    /// Requests sent away, because the wait was longer than their patience.
    pub refused: u64,
    /// Refusals of the server that were acted on: one for each event.
    pub learning_events: u64,
    /// What the server is believed to take, where a limit was met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned_rate_per_second: Option<f64>,
    /// Requests at once that the server takes, where it counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned_cap: Option<u32>,
}

impl LaneReport {
    /// The peak in flight and the report of an endpoint.
    pub(super) fn of(governor: &GovernorSnapshot, site: &str, endpoint: &str) -> (u32, Self) {
        let mut report = Self::default();
        let (mut peak, mut most) = (0, 0);
        for lane in &governor.lanes {
            if lane.site != site || lane.endpoint != endpoint {
                continue;
            }
            peak = peak.max(lane.peak_in_flight);
            report.granted += lane.granted;
            report.deferred += lane.deferred;
            report.refused += lane.refused;
            report.learning_events += lane.learning_events;
            if lane.granted >= most {
                most = lane.granted;
                lane.mode.clone_into(&mut report.mode);
                // Rounded, so that the text does not depend on who writes it.
                let met = lane.learning_events > 0;
                let rate = lane.learned_rate_per_second.filter(|_| met);
                report.learned_rate_per_second = rate.map(|rate| (rate * 1000.0).round() / 1000.0);
                report.learned_cap = lane.learned_cap;
            }
        }
        let dropped = governor.dropped.iter();
        for lanes in dropped.filter(|lanes| lanes.site == site && lanes.endpoint == endpoint) {
            peak = peak.max(lanes.peak_in_flight);
            report.granted += lanes.granted;
            report.deferred += lanes.deferred;
            report.refused += lanes.refused;
            report.learning_events += lanes.learning_events;
        }
        (peak, report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::governor::{DroppedLanes, LaneSnapshot};

    #[test]
    fn hosts_that_are_kept_no_more_count_in_the_sums() {
        let lane = |host: &str, granted| LaneSnapshot {
            site: "s".to_owned(),
            host: Some(host.to_owned()),
            endpoint: "page".to_owned(),
            mode: "adaptive",
            granted,
            deferred: 1,
            refused: 2,
            ..LaneSnapshot::default()
        };
        let gone = |endpoint: &str| DroppedLanes {
            site: "s".to_owned(),
            endpoint: endpoint.to_owned(),
            lanes: 3,
            peak_in_flight: 9,
            granted: 100,
            learning_events: 5,
            deferred: 10,
            refused: 20,
            ..DroppedLanes::default()
        };
        let governor = GovernorSnapshot {
            lanes: vec![lane("a", 1), lane("b", 2)],
            dropped: vec![gone("page"), gone("robots")],
            ..GovernorSnapshot::default()
        };
        let (peak, report) = LaneReport::of(&governor, "s", "page");
        assert_eq!((peak, report.granted, report.learning_events), (9, 103, 5));
        assert_eq!((report.deferred, report.refused), (12, 24));
        assert_eq!(report.mode, "adaptive");
    }
}
