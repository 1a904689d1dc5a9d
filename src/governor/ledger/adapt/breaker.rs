//! Failures that are no refusals: errors of the server, time-outs, broken connections, cut answers.
//!
//! One of them teaches nothing: two in a hundred are everyday life. Many of them slow the lane down by a
//! confidence bound, and when most requests fail the lane pauses and lets one probe through at a time.

use super::units::between;
use crate::governor::ledger::failures::FailureShare;
use crate::model::Timestamp;

/// Weight of the past at each answer, for the test that pauses: about 33 answers.
const SHORT: f64 = 0.97;
/// For the test that slows down: about 100 answers.
const LONG: f64 = 0.99;
/// Answers before a share means anything.
const LEAST_SAMPLES: f64 = 10.0;
/// The same for slowing down: a small share needs more of them.
const LEAST_SAMPLES_TO_SLOW: f64 = 30.0;
/// More failures than this share stop the lane.
const STOP_SHARE: f64 = 0.5;
/// So do this many in a row, whatever was good before: an outage begins after a long good time.
const STOP_RUN: u32 = 10;
/// More failures than this share slow the lane down: the usual rule of five in a hundred.
const SLOW_SHARE: f64 = 0.05;
/// Seconds between two slow-downs: one must have had its effect.
const SLOW_EVERY: f64 = 3.0;

/// What failures ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Bear,
    /// Slow down a little.
    Slow,
    /// Stop, and try one request later.
    Stop,
}

/// Counts failures among answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Breaker {
    short: FailureShare,
    long: FailureShare,
    run: u32,
    slowed: Timestamp,
}

impl Breaker {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            short: FailureShare::default(),
            long: FailureShare::default(),
            run: 0,
            slowed: now,
        }
    }

    /// An answer came, or failed to come.
    pub(super) fn count(&mut self, failed: bool, now: Timestamp) -> Verdict {
        self.short.count(failed, SHORT);
        self.long.count(failed, LONG);
        self.run = if failed {
            self.run.saturating_add(1)
        } else {
            0
        };
        if !failed {
            return Verdict::Bear;
        }
        if self.run >= STOP_RUN || self.short.surely_above(STOP_SHARE, LEAST_SAMPLES) {
            return Verdict::Stop;
        }
        if self.long.surely_above(SLOW_SHARE, LEAST_SAMPLES_TO_SLOW)
            && between(self.slowed, now) >= SLOW_EVERY
        {
            self.slowed = now;
            // The next slow-down needs evidence of its own.
            self.long = FailureShare::default();
            return Verdict::Slow;
        }
        Verdict::Bear
    }

    /// A pause begins: what comes after it is counted afresh.
    pub(super) fn reset(&mut self) {
        self.short = FailureShare::default();
        self.run = 0;
    }
}
