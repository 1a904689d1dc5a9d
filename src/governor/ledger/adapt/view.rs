//! What the law believes, shown.

use super::Adapt;
use crate::model::Timestamp;

/// What the law believes, for people and plots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AdaptView {
    /// The phase in one word.
    pub(crate) state: &'static str,
    /// Pace now, requests per second.
    pub(crate) pace: f64,
    /// What the server is believed to take, requests per second.
    pub(crate) estimate: f64,
    /// Requests in flight that the server is believed to take; none: no limit is known.
    pub(crate) cap: Option<u32>,
    /// Pauses in a row.
    pub(crate) failures: u32,
    /// Congestion events so far.
    pub(crate) events: u32,
    /// What may be spent on refusals.
    pub(crate) credit: f64,
}

impl Adapt {
    /// What the law believes at `now`.
    pub(crate) fn view(&self, now: Timestamp) -> AdaptView {
        AdaptView {
            state: match (self.halt.time_gate(now), self.halt.is_open()) {
                (Some(_), _) => "pause",
                (None, false) => "half_open",
                (None, true) => self.phase.word(),
            },
            pace: self.rate(now),
            estimate: self.w,
            cap: self.slots.cap(),
            failures: self.halt.in_a_row(),
            events: self.events,
            credit: self.credit.left(),
        }
    }
}
