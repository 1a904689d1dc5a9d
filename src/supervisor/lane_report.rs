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
        (peak, report)
    }
}
