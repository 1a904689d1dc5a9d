//! The exact estimate: what the server accepted between two exhaustions, divided by the time between them.
//!
//! Permits are numbered without gaps, so the count needs no correction for latency: all requests before
//! the refused one were accepted.

use super::units::{between, span};
use crate::model::Timestamp;

/// Requests below which a cycle measures nothing.
pub(super) const CONCLUSIVE: f64 = 4.0;
/// How much of the difference between the two readings is believed. A bucket that was not full again at
/// the end of the pause makes the lower one exact; a window that begins anew makes the upper one exact.
const UPPER_SHARE: f64 = 0.55;
/// Seconds of our own silence that count as time of the cycle: a bucket saves up about as much.
const OWN_SILENCE: f64 = 1.0;
/// Seconds that no span is taken to be shorter than.
const SHORTEST: f64 = 1e-3;
/// Whole seconds are rounded up: the wait meant is shorter by half a second on the mean.
const ROUNDING: f64 = 0.8;

/// From one refusal to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    /// Number of the last permit.
    last: u64,
    /// The last permit before the cycle.
    base: u64,
    /// Permits of the cycle that came to nothing.
    holes: u64,
    /// When sending began again.
    resumed: Timestamp,
    /// When the request that ended the previous cycle had left.
    exhausted: Timestamp,
    /// Accepted, and seconds of sending, in cycles before this one that were too short to tell anything by
    /// themselves; `exhausted` is then the beginning of the first of them. The sum over several cycles that
    /// each begin and end with an exhaustion is as exact as one cycle.
    carried: f64,
    carried_sending: f64,
    /// When the last refused request of a cycle had left.
    ended: Timestamp,
}

/// A finished cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Requests accepted.
    pub(super) accepted: f64,
    /// Requests per second if the pause counts.
    pub(super) lower: f64,
    /// Requests per second if it does not.
    pub(super) upper: f64,
    /// Requests per second if sending began with a window that ends when the server says.
    pub(super) told: Option<f64>,
    /// Length of that window, seconds.
    pub(super) window: Option<f64>,
}

impl Cycle {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            last: 0,
            base: 0,
            holes: 0,
            resumed: now,
            exhausted: now,
            carried: 0.0,
            carried_sending: 0.0,
            ended: now,
        }
    }

    pub(super) fn begin(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn lost(&mut self, sequence: u64) {
        if sequence > self.base {
            self.holes += 1;
        }
    }

    /// Sending begins again. A probe that was accepted before belongs to the cycle; `closed`: until when the
    /// server is known to have been closed.
    pub(super) fn resume(&mut self, probed: bool, closed: Timestamp, now: Timestamp) {
        // Our own silence is not the server's.
        let silence = between(closed, now);
        if silence > OWN_SILENCE {
            self.exhausted = self.exhausted + span(silence - OWN_SILENCE);
        }
        self.base = self.last.saturating_sub(u64::from(probed));
        self.holes = 0;
        self.resumed = now;
    }

    /// Seconds from the last exhaustion to the resumption.
    pub(super) fn pause(&self) -> f64 {
        between(self.ended, self.resumed)
    }

    /// The last exhaustion says nothing of the next: the server has shut us out meanwhile.
    pub(super) fn forget(&mut self) {
        self.exhausted = Timestamp::MAX;
        self.carried = 0.0;
        self.carried_sending = 0.0;
    }

    pub(super) fn resumed(&self) -> Timestamp {
        self.resumed
    }

    /// Requests of the cycle that were accepted before the request `sequence`.
    pub(super) fn accepted(&self, sequence: u64) -> f64 {
        sequence
            .saturating_sub(1)
            .saturating_sub(self.base)
            .saturating_sub(self.holes) as f64
    }

    /// The request `sequence`, which left at `at`, was refused; `asked`: seconds that the server asked to
    /// wait for.
    pub(super) fn read(&mut self, sequence: u64, at: Timestamp, asked: Option<f64>) -> Reading {
        let own = self.accepted(sequence);
        let own_sending = between(self.resumed, at);
        let accepted = self.carried + own;
        let sending = self.carried_sending + own_sending;
        let per = |count: f64, seconds: f64| count / seconds.max(SHORTEST);
        let window = asked.map(|asked| own_sending + (asked - ROUNDING * asked.min(1.0)));
        let reading = Reading {
            accepted,
            lower: per(accepted, between(self.exhausted.min(self.resumed), at)),
            upper: per(accepted, sending),
            told: window.map(|window| per(own, window)),
            window,
        };
        if reading.is_conclusive() {
            self.exhausted = at;
            self.carried = 0.0;
            self.carried_sending = 0.0;
        } else {
            self.carried = accepted;
            self.carried_sending = sending;
        }
        self.ended = at;
        reading
    }
}

impl Reading {
    pub(super) fn is_conclusive(self) -> bool {
        self.accepted >= CONCLUSIVE
    }

    /// The best single figure, requests per second.
    pub(super) fn rate(self) -> f64 {
        // Both readings are of the same count, so their ratio tells how long the pause was: after a long
        // pause and a short burst only the lower one is to be trusted.
        let sending = if self.upper > 0.0 {
            self.lower / self.upper
        } else {
            0.0
        };
        let mixed = self.lower + UPPER_SHARE * sending * (self.upper - self.lower);
        self.told.map_or(mixed, |told| told.max(self.lower))
    }
}
