//! Pauses: how long, what ends them, and the one probe that is let through first.

use std::time::Duration;

use super::units::{between, span};
use crate::governor::ledger::level::{Gate, time_gate};
use crate::governor::messages::{PermitId, WaitReason};
use crate::model::Timestamp;

/// Shortest first pause, seconds: the answers that are out come back first.
const SHORTEST: f64 = 0.05;
/// Longest first pause, seconds.
const LONGEST_FIRST: f64 = 2.0;
/// The first pause is so many mean latencies.
const LATENCIES: f64 = 1.5;
/// No pause of our own is longer, in seconds: beyond it a probe now and then is cheaper than not knowing.
const LONGEST: f64 = 60.0;
/// Doublings after which the longest pause is reached whatever it began with.
const MOST_DOUBLINGS: u32 = 16;
/// Seconds after a pause in which nothing was refused, and that make the next pause a first one.
const FORGOTTEN: f64 = 1800.0;
/// A block is lifted by people or long timers: it is paused for longer than a request to slow down.
const BLOCKED_FACTOR: f64 = 4.0;
/// First pause of a server that fails, seconds: an outage does not end within a latency.
const OUTAGE_FIRST: f64 = 1.0;
/// A probe is given up after so many mean latencies, and not before so many seconds: one request whose
/// connection hangs must not stop the lane until its time-out.
const LEASE_LATENCIES: f64 = 8.0;
const SHORTEST_LEASE: f64 = 3.0;
/// A pause is lengthened by up to this share, so that lanes do not wake in one instant.
const JITTER: f64 = 0.3;
/// The same for a pause that the server asked for …
const ASKED_JITTER: f64 = 0.02;
/// … and the most that it adds, seconds.
const ASKED_JITTER_MOST: f64 = 5.0;

/// Why a lane pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The server asked for fewer requests.
    Limited,
    /// The server refuses this client.
    Blocked,
    /// Most requests failed.
    Outage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Pause {
        until: Timestamp,
        cause: Cause,
        /// Whether one request must be accepted before the others follow.
        probe: bool,
    },
    /// One probe at a time: `None` when the next request is to be it.
    HalfOpen {
        probe: Option<PermitId>,
        /// When the probe that is out is given up, and one other may follow.
        expires: Timestamp,
        cause: Cause,
    },
}

/// The pauses of one lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Halt {
    state: State,
    /// Counts decisions. A permit carries the epoch it was granted in; only the first bad answer of the
    /// current epoch decides anything, for the others were on their way when it was decided.
    epoch: u32,
    /// Pauses in a row without a good stretch between them.
    in_a_row: u32,
    /// When the last pause ended.
    ended: Timestamp,
    /// Nothing leaves before it; only ever moved on.
    not_before: Timestamp,
}

impl Halt {
    pub(super) fn new() -> Self {
        Self {
            state: State::Open,
            epoch: 0,
            in_a_row: 0,
            ended: Timestamp::ZERO,
            not_before: Timestamp::ZERO,
        }
    }

    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(super) fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    /// A good stretch: the next pause is a first one again.
    pub(super) fn forgive(&mut self) {
        self.in_a_row = 0;
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// The probe that is out.
    pub(super) fn probe(&self) -> Option<PermitId> {
        match self.state {
            State::HalfOpen { probe, .. } => probe,
            _ => None,
        }
    }

    /// Why the lane is not open, if it is not.
    pub(super) fn cause(&self) -> Option<Cause> {
        match self.state {
            State::Open => None,
            State::Pause { cause, .. } | State::HalfOpen { cause, .. } => Some(cause),
        }
    }

    /// Nothing leaves for `asked` from now on.
    pub(super) fn hold_back(&mut self, asked: Duration, now: Timestamp) {
        if !asked.is_zero() {
            self.not_before = self.not_before.max(now + asked);
        }
    }

    /// Nothing leaves before `at`.
    pub(super) fn hold_until(&mut self, at: Timestamp) {
        self.not_before = self.not_before.max(at);
    }

    /// Permits that are out from now on count as of an earlier epoch.
    pub(super) fn next_epoch(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// The pauses of two lanes that become one: the stricter of both, and nobody's epoch goes on.
    pub(super) fn joined(one: &Self, other: &Self) -> Self {
        let stricter = match (one.state, other.state) {
            (State::Open, _) => other,
            (_, State::Open) => one,
            _ if one.in_a_row >= other.in_a_row => one,
            _ => other,
        };
        let mut joined = *stricter;
        joined.epoch = one.epoch.max(other.epoch).wrapping_add(1);
        joined.in_a_row = one.in_a_row.max(other.in_a_row);
        joined.not_before = one.not_before.max(other.not_before);
        joined
    }

    /// The instant that has to pass, if one has.
    pub(super) fn time_gate(&self, now: Timestamp) -> Option<(Timestamp, WaitReason)> {
        let pause = match self.state {
            State::Pause { until, .. } => until,
            _ => Timestamp::ZERO,
        };
        time_gate(self.not_before, pause, now)
    }

    /// Time and probe only: whether the lane as a whole may send.
    pub(super) fn gate(&self, now: Timestamp) -> Gate {
        if let Some((at, why)) = self.time_gate(now) {
            return Gate::At(at, why);
        }
        match self.state {
            State::HalfOpen {
                probe: Some(_),
                expires,
                ..
            } if now < expires => Gate::At(expires, WaitReason::Probe),
            _ => Gate::Open,
        }
    }

    /// When the pause ends, if there is one.
    pub(super) fn pause_end(&self) -> Option<Timestamp> {
        match self.state {
            State::Pause { until, .. } => Some(until.max(self.not_before)),
            _ => None,
        }
    }

    /// Ends the pause, whose time has passed. Returns whether the lane is open again by that alone.
    pub(super) fn end_pause(&mut self) -> bool {
        let State::Pause {
            until,
            cause,
            probe,
        } = self.state
        else {
            return false;
        };
        self.ended = until.max(self.not_before);
        self.state = if probe {
            State::HalfOpen {
                probe: None,
                expires: self.ended,
                cause,
            }
        } else {
            State::Open
        };
        !probe
    }

    /// A request leaves; `latency`: mean seconds of a good answer. Returns whether it is the probe.
    pub(super) fn begin(&mut self, permit: PermitId, latency: f64, now: Timestamp) -> bool {
        match &mut self.state {
            State::HalfOpen { probe, expires, .. } => {
                *probe = Some(permit);
                *expires = now + span((LEASE_LATENCIES * latency).max(SHORTEST_LEASE));
                true
            }
            _ => false,
        }
    }

    /// A permit ended without telling anything. If it was the probe, exactly one other follows.
    pub(super) fn lost(&mut self, permit: PermitId) {
        if let State::HalfOpen { probe, .. } = &mut self.state
            && *probe == Some(permit)
        {
            *probe = None;
        }
    }

    /// The end of what the server asked for.
    pub(super) fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// The probe was answered: the lane is open again.
    pub(super) fn open(&mut self) {
        self.state = State::Open;
    }

    /// Begin a pause. `latency`: mean seconds of a good answer. `asked`: what the server asked for.
    /// `probe`: whether one request must go first even after a first pause.
    pub(super) fn pause(
        &mut self,
        cause: Cause,
        latency: f64,
        asked: Option<Duration>,
        probe: bool,
        now: Timestamp,
        rng: &mut fastrand::Rng,
    ) {
        if between(self.ended, now) > FORGOTTEN {
            self.forgive();
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.epoch = self.epoch.wrapping_add(1);
        let first = match cause {
            Cause::Limited => (LATENCIES * latency).clamp(SHORTEST, LONGEST_FIRST),
            Cause::Blocked => BLOCKED_FACTOR * (LATENCIES * latency).clamp(SHORTEST, LONGEST_FIRST),
            Cause::Outage => OUTAGE_FIRST,
        };
        let own = doubled(first, self.in_a_row) * (1.0 + JITTER * rng.f64());
        // Upwards only: what the server asked for is a floor.
        let asked = asked.unwrap_or_default();
        let spread = (asked.as_secs_f64() * ASKED_JITTER * rng.f64()).min(ASKED_JITTER_MOST);
        let until = (now + span(own)).max(now + asked.saturating_add(span(spread)));
        self.state = State::Pause {
            until: until.max(self.not_before),
            cause,
            probe: probe || self.in_a_row >= 2 || !asked.is_zero() || cause != Cause::Limited,
        };
    }
}

/// `first` doubled for each pause in a row after the first, at most [`LONGEST`].
fn doubled(first: f64, in_a_row: u32) -> f64 {
    let doublings = in_a_row.saturating_sub(1).min(MOST_DOUBLINGS);
    (first * 2.0_f64.powf(f64::from(doublings))).min(LONGEST)
}
