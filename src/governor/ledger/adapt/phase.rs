//! The pace as a function of time, phase by phase.

use super::units::{between, span};
use crate::model::Timestamp;

/// Share of the estimate at which a lane rests: room for the jitter of the wire.
pub(super) const REST: f64 = 0.985;
/// Pace of a new lane that knows nothing, requests per second.
pub(crate) const FIRST_PACE: f64 = 4.0;
/// Below this pace the search doubles; above, it grows by half: an overshoot costs refusals in proportion.
const DOUBLE_BELOW: f64 = 32.0;
const GENTLE_GROWTH: f64 = 1.5;
/// A measurement begins at this share of the pace that was refused …
const MEASURE_FROM: f64 = 0.5;
/// … and climbs beyond it, so that it is surely the requests in flight that bind if nothing is refused.
pub(super) const MEASURE_TO: f64 = 1.2;
/// Linear part of a probe: this many times the root of the estimate (the noise of the server's own
/// counting is of that order) …
const ROOT_STEP: f64 = 0.3;
/// … but never more than this share of it, per unit of time.
const LARGEST_STEP: f64 = 0.1;
/// Quadratic part of a probe: slow at first, where the limit probably is, then ever faster.
const CONVEXITY: f64 = 0.008;
/// What each doubling found in a row adds to the quadratic part.
const BOOST: f64 = 8.0;

/// What a lane is doing while it is open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Phase {
    /// Nothing was ever refused: the pace grows in steps.
    Start,
    /// After the first refusal: climb to the refused pace with fewer requests in flight. A second refusal
    /// gives the exact rate; none shows that the limit is one of requests in flight.
    Measure {
        since: Timestamp,
        from: f64,
        to: f64,
        climb: f64,
    },
    /// After a pause: back to the estimate with a plateau at the end.
    Recover {
        since: Timestamp,
        from: f64,
        length: f64,
    },
    /// At the estimate.
    Hold { until: Timestamp },
    /// Beyond the estimate, slowly at first.
    Probe { since: Timestamp, unit: f64 },
}

impl Phase {
    /// Requests per second at `now` for the estimate `w`. `boost`: how often a probe found a higher limit
    /// in a row. `convex`: whether a probe may accelerate.
    pub(super) fn pace(&self, now: Timestamp, w: f64, boost: f64, convex: bool) -> f64 {
        match *self {
            Self::Start => w,
            Self::Measure {
                since,
                from,
                to,
                climb,
            } => from + (to - from) * (between(since, now) / climb).min(1.0),
            Self::Recover {
                since,
                from,
                length,
            } => {
                let left = 1.0 - (between(since, now) / length).min(1.0);
                REST * w - (REST * w - from) * left.powi(3)
            }
            Self::Hold { .. } => REST * w,
            Self::Probe { since, unit } => {
                let t = between(since, now) / unit;
                let linear = (ROOT_STEP * w.sqrt()).min(LARGEST_STEP * w) * t;
                let quadratic = w * CONVEXITY * (1.0 + BOOST * boost) * t * t;
                REST * w + linear + if convex { quadratic } else { 0.0 }
            }
        }
    }

    /// The measurement after a refusal at `refused` requests per second; `latency` in seconds.
    pub(super) fn measure(now: Timestamp, refused: f64, latency: f64) -> Self {
        Self::Measure {
            since: now,
            from: MEASURE_FROM * refused,
            to: MEASURE_TO * refused,
            climb: (2.0 * latency).max(8.0 / refused).max(1.0),
        }
    }

    /// Stands still for `seconds`: time in which nothing was asked for proves nothing.
    pub(super) fn idle(&mut self, seconds: f64) {
        match self {
            Self::Measure { since, .. } | Self::Probe { since, .. } => {
                *since = *since + span(seconds)
            }
            Self::Start | Self::Recover { .. } | Self::Hold { .. } => {}
        }
    }

    /// Whether the pace is one that was proved before.
    pub(super) fn is_steady(&self) -> bool {
        matches!(self, Self::Hold { .. } | Self::Recover { .. })
    }

    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Measure { .. } => "measure",
            Self::Recover { .. } => "recover",
            Self::Hold { .. } => "hold",
            Self::Probe { .. } => "probe",
        }
    }
}

/// The next pace of the search.
pub(super) fn next_step(pace: f64) -> f64 {
    if pace < DOUBLE_BELOW {
        2.0 * pace
    } else {
        GENTLE_GROWTH * pace
    }
}
