//! When the next request may leave: one theoretical arrival time (GCRA).

use super::units::{between, span};
use crate::model::Timestamp;

/// Seconds of lateness that may be made up for. A timer is late by a millisecond or two; at a thousand
/// requests per second that would cost more than the law's whole margin. Kept far below one interval of
/// a slow lane, so that a slow lane never sends two at once.
const CATCH_UP: f64 = 0.02;

/// Share of an interval by which a request must be late to have waited for something else.
const LATE: f64 = 0.1;

/// Spaces the requests of one lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    /// When the next request is due at the pace at which the last one left.
    due: Timestamp,
    /// When the last request left, if one did.
    last: Option<Timestamp>,
}

impl Pacer {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            due: now,
            last: None,
        }
    }

    /// The earliest instant for the next request at `rate` requests per second.
    pub(super) fn earliest(self, rate: f64) -> Timestamp {
        self.due - span(CATCH_UP.min(1.0 / rate))
    }

    /// Whether a request that leaves at `now` had to wait for something other than the pace.
    pub(super) fn is_late(self, now: Timestamp, rate: f64) -> bool {
        between(self.due, now) > LATE / rate
    }

    pub(super) fn sent(&mut self, now: Timestamp, rate: f64) {
        self.due = self.due.max(now) + span(1.0 / rate);
        self.last = Some(now);
    }

    /// Sending begins again at `now` at `rate` requests per second: after a pause nothing is owed and nothing
    /// saved, but the interval to the last request, perhaps a probe, is kept.
    pub(super) fn restart(&mut self, now: Timestamp, rate: f64) {
        let kept = self.last.map_or(now, |last| last + span(1.0 / rate));
        self.due = now.max(kept);
    }
}
