//! What answers teach that are no refusals, and what a header tells.

use std::time::Duration;

use super::breaker::Verdict;
use super::halt::Cause;
use super::phase::Phase;
use super::units::{between, pace, span};
use super::{Adapt, Sent};
use crate::governor::messages::Hints;
use crate::model::{Outcome, Timestamp};

/// Seconds for which a rate or a cap that the server told is believed.
const HINT_LIFE: f64 = 60.0;
/// A slow-down by errors keeps this share of the pace …
const ERROR_CUT: f64 = 0.7;
/// … but not less than this share of the pace at which the errors began: errors that do not depend on our
/// pace must not stop us.
const DEEPEST_ERROR_CUT: f64 = 0.25;
/// Seconds after which a slow-down is over: the next one begins anew.
const ERROR_MEMORY: f64 = 60.0;
/// Seconds at the lower pace before it is left again.
const ERROR_HOLD: f64 = 3.0;

/// Bounds that the server told, and until when they are believed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    pub(super) rate: Option<f64>,
    pub(super) cap: Option<u32>,
    pub(super) until: Timestamp,
}

impl Adapt {
    /// Bounds that the server told. A bound never makes the lane faster.
    pub(super) fn listen(&mut self, hints: &Hints, now: Timestamp) {
        for wait in [hints.retry_after, hints.exhausted].into_iter().flatten() {
            self.halt.hold_back(wait, now);
        }
        let rate = hints.rate.filter(|rate| rate.is_finite() && *rate > 0.0);
        if rate.is_some() || hints.cap.is_some() {
            self.told = Told {
                rate: rate.or(self.told.rate),
                cap: hints.cap.or(self.told.cap),
                until: now + hints.rate_for.unwrap_or(span(HINT_LIFE)),
            };
        }
    }

    /// An answer came that is neither a refusal nor a failure.
    pub(super) fn answered(
        &mut self,
        sent: &Sent,
        is_probe: bool,
        outcome: Outcome,
        held: Option<Duration>,
        now: Timestamp,
    ) {
        self.load.answered();
        let success = outcome.is_success() || outcome == Outcome::Gone;
        let _ = self.breaker.count(false, now);
        // Answers to requests of before a cut tell of a load that is no more.
        if success
            && sent.epoch == self.halt.epoch()
            && let Some(held) = held
        {
            self.latency.sample(held);
        }
        self.served |= sent.epoch == self.halt.epoch();
        if is_probe {
            self.reopen(now);
        }
    }

    /// A failure that is no refusal.
    pub(super) fn failed(
        &mut self,
        sent: &Sent,
        is_probe: bool,
        outcome: Outcome,
        asked: Option<Duration>,
        now: Timestamp,
        rng: &mut fastrand::Rng,
    ) {
        self.load.failed();
        if is_probe {
            // A server that answers with an error does not refuse us any more; silence shows nothing.
            match (outcome, self.halt.cause()) {
                (Outcome::ServerError, Some(Cause::Limited | Cause::Blocked)) => self.reopen(now),
                (_, cause) => {
                    let cause = cause.unwrap_or(Cause::Outage);
                    self.halt
                        .pause(cause, self.latency.mean(), asked, true, now, rng);
                }
            }
            return;
        }
        if sent.epoch != self.halt.epoch() || !self.halt.is_open() {
            return;
        }
        match self.breaker.count(true, now) {
            Verdict::Bear => {}
            Verdict::Slow => {
                let from = match self.errors_from {
                    Some((from, last)) if between(last, now) < ERROR_MEMORY => from,
                    _ => self.w,
                };
                self.errors_from = Some((from, now));
                self.w = pace((ERROR_CUT * self.w).max(DEEPEST_ERROR_CUT * from));
                self.phase = Phase::Hold {
                    until: now + span(ERROR_HOLD),
                };
            }
            Verdict::Stop => {
                self.breaker.reset();
                self.halt
                    .pause(Cause::Outage, self.latency.mean(), asked, true, now, rng);
            }
        }
    }
}
