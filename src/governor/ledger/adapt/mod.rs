//! The rate law of one lane: finds the fastest pace that a server accepts, stays there, follows it, and
//! pays almost no refusals.
//!
//! Three gates stand between a request and the wire: the pace ([`pacer`], [`phase`]), the requests in flight
//! ([`slots`], and a guard by Little's law), and the instants before which nothing may leave ([`halt`]).
//! A value without a clock: `now` is an argument of everything.
//!
//! The life of a lane: it **starts** slowly and grows while nothing is refused. The first refusal pauses it;
//! then it **measures**: it climbs again with fewer requests in flight, which tells a limit per second from
//! one of requests in flight, and the second refusal gives the exact rate ([`cycle`]). It **recovers** to
//! that estimate, **holds** it, and from time to time **probes** beyond it, if its budget of refusals
//! ([`credit`]) allows. Each refusal teaches once ([`event`]); what the periods between them teach is in
//! [`load`], what failures teach in [`answer`] and [`breaker`].

mod answer;
mod breaker;

mod credit;
mod cycle;
mod event;
mod halt;
mod kinship;
mod latency;
mod learned;
mod load;
mod pacer;
mod phase;
mod slots;
mod temper;
#[cfg(test)]
mod tests;
mod units;
mod view;

use std::time::Duration;

pub(crate) use crate::settings::Profile;
pub use learned::Learned;
pub(crate) use phase::FIRST_PACE;

use crate::governor::ledger::learner::Bound;
use crate::governor::ledger::level::Gate;
use crate::governor::messages::{Hints, PermitId, WaitReason};
use crate::model::{Outcome, Timestamp};
use answer::Told;
use breaker::Breaker;
use credit::Credit;
use cycle::Cycle;
use event::Block;
use halt::{Cause, Halt};
use latency::Latency;
use load::Load;
use pacer::Pacer;
use phase::{Phase, REST};
use slots::Slots;
use temper::Temper;
use units::{pace, span};

/// Guard of requests in flight: so many times what the pace needs by Little's law …
const GUARD_SHARE: f64 = 2.0;
/// … and some more. It binds only when answers take far longer than without load.
const GUARD_EXTRA: f64 = 4.0;
/// Seconds that an answer is supposed to take before the first has come.
const UNKNOWN_LATENCY: f64 = 1.0;
/// Share of the estimate at which sending begins again after a pause.
const RESUME_SHARE: f64 = 0.85;
/// Pauses in a row after which it begins at half of that.
const MANY_PAUSES: u32 = 3;
/// Requests in a unit of time at least.
const UNIT_REQUESTS: f64 = 6.0;
/// Credit needed to probe where others use the same limit: less, for what they leave is soon gone.
const SHARED_CREDIT: f64 = 0.5;
/// Bounds of the length of a recovery, seconds.
const SHORTEST_RECOVERY: f64 = 2.0;
const LONGEST_RECOVERY: f64 = 10.0;
/// Seconds of rest before the first probe.
const FIRST_HOLD: f64 = 2.0;
/// Longest window that is learned, seconds.
const LONGEST_WINDOW: f64 = 900.0;

/// What a permit carries from its grant to its report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The congestion epoch it was granted in.
    pub(crate) epoch: u32,
    /// Its number in the lane, without gaps.
    pub(crate) sequence: u64,
    /// When it was granted.
    pub(crate) at: Timestamp,
    /// Requests in flight in the lane, with this one.
    pub(crate) in_flight: u32,
    /// Whether it is the half-open probe.
    pub(crate) probe: bool,
}

/// The adaptive control of one lane.
#[derive(Clone, Debug)]
pub(crate) struct Adapt {
    temper: Temper,
    phase: Phase,
    /// Estimate of what the server takes, requests per second.
    w: f64,
    pacer: Pacer,
    halt: Halt,
    cycle: Cycle,
    slots: Slots,
    credit: Credit,
    latency: Latency,
    breaker: Breaker,
    load: Load,
    /// Seconds at the estimate before the next probe.
    hold: f64,
    /// How often probes found a higher limit in a row.
    boost: f64,
    /// Length of the long window that the server counts in, seconds; zero: none known.
    horizon: f64,
    /// Suspicion that others use the same limit: refusals at a pace that had been fine.
    shared: f64,
    /// Mean seconds until a refusal is back.
    refusal_latency: f64,
    /// Whether the lane was opened by a probe and has not completed a recovery since.
    probed: bool,
    /// Whether a request was answered well since sending last began.
    served: bool,
    /// Requests served in this probe beyond what the estimate allows.
    excess: f64,
    /// The last pace that was refused at rest, requests per second: surely not below the limit.
    refused_at_rest: f64,
    events: u32,
    /// Whether a limit was ever met.
    met: bool,
    told: Told,
    block: Block,
    /// The estimate from which errors slow down, and when they last did.
    errors_from: Option<(f64, Timestamp)>,
}

impl Adapt {
    /// A new lane. `start`: what an earlier run learned, aged.
    pub(crate) fn new(profile: Profile, start: Option<&Learned>, now: Timestamp) -> Self {
        let known = start.filter(|start| start.rate.is_finite() && start.rate > 0.0);
        let w = known.map_or(FIRST_PACE, |start| pace(start.rate));
        let phase = match known {
            Some(start) if start.met => Phase::Recover {
                since: now,
                from: RESUME_SHARE * w,
                length: SHORTEST_RECOVERY,
            },
            _ => Phase::Start,
        };
        let latency = known.filter(|start| start.latency > 0.0);
        Self {
            temper: Temper::of(profile),
            phase,
            w,
            pacer: Pacer::new(now),
            halt: Halt::new(),
            cycle: Cycle::new(now),
            slots: known
                .and_then(|start| start.cap)
                .map_or(Slots::Free, Slots::learned),
            credit: Credit::new(),
            latency: latency.map_or_else(Latency::default, |start| Latency::known(start.latency)),
            breaker: Breaker::new(now),
            load: Load::new(now),
            hold: FIRST_HOLD,
            boost: 0.0,
            horizon: known.map_or(0.0, |start| start.horizon.clamp(0.0, LONGEST_WINDOW)),
            shared: 0.0,
            refusal_latency: 0.0,
            probed: false,
            served: false,
            excess: 0.0,
            refused_at_rest: 0.0,
            events: 0,
            met: known.is_some_and(|start| start.met),
            told: Told::default(),
            block: Block::default(),
            errors_from: None,
        }
    }

    /// Bring pauses, phases and the periodic evaluation up to `now`: step by step in the order of time, so
    /// that it does not matter how often it is called.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        loop {
            let pause = self.halt.pause_end().unwrap_or(Timestamp::MAX);
            let recovery = self.recovery_end().unwrap_or(Timestamp::MAX);
            let period = self.period_end();
            let step = pause.min(recovery).min(period);
            if step > now || step == Timestamp::MAX {
                return;
            }
            if step == period {
                self.evaluate(pause.min(recovery).min(now));
            } else if step == recovery {
                self.recovered(recovery);
            } else if self.halt.end_pause() {
                self.resume(false, pause);
            }
        }
    }

    fn recovery_end(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Recover { since, length, .. } if self.halt.is_open() => {
                Some(since + span(length))
            }
            _ => None,
        }
    }

    /// A recovery is complete.
    fn recovered(&mut self, now: Timestamp) {
        // Silence is no success.
        if self.served {
            self.halt.forgive();
            self.block.is_open = false;
            self.probed = false;
        }
        self.phase = Phase::Hold {
            until: now + span(self.hold.max(self.horizon)),
        };
    }

    /// Whether a request may leave at `now`, with `in_flight` permits out in this lane.
    pub(crate) fn gate(&self, now: Timestamp, in_flight: u32) -> Gate {
        match self.halt.gate(now) {
            Gate::Open => {}
            closed => return closed,
        }
        if !self.halt.is_open() {
            return Gate::Open;
        }
        if in_flight >= self.cap(now) {
            return Gate::Wait(WaitReason::Cap);
        }
        let earliest = self.pacer.earliest(self.rate(now));
        if earliest > now {
            return Gate::At(earliest, WaitReason::Rate);
        }
        Gate::Open
    }

    /// Not-before and pause only: what callers' patience is about.
    pub(crate) fn time_gate(&self, now: Timestamp) -> Option<(Timestamp, WaitReason)> {
        self.halt.time_gate(now)
    }

    /// What is lost when only what it learned is kept, while nothing is in flight.
    pub(crate) fn bound(&self, now: Timestamp) -> Bound {
        if self.told.until > now || matches!(self.gate(now, 0), Gate::At(..)) {
            Bound::Live
        } else if !self.halt.is_open() || self.halt.in_a_row() > 0 {
            Bound::Fading
        } else {
            Bound::None
        }
    }

    /// A permit is granted through an open gate; `in_flight` without it.
    pub(crate) fn begin(&mut self, permit: PermitId, now: Timestamp, in_flight: u32) -> Sent {
        let rate = self.rate(now);
        let probe = self.halt.begin(permit, self.latency.mean(), now);
        let in_flight = in_flight.saturating_add(1);
        let late = self.pacer.is_late(now, rate);
        self.load.sent(late && in_flight >= self.cap(now));
        self.pacer.sent(now, rate);
        Sent {
            epoch: self.halt.epoch(),
            sequence: self.cycle.begin(),
            at: now,
            in_flight,
            probe,
        }
    }

    /// Whether a permit decided earlier may still leave: nothing was decided since.
    pub(crate) fn still_open(&self, permit: PermitId, sent: &Sent, now: Timestamp) -> bool {
        let turn = match self.halt.cause() {
            None => true,
            Some(_) => self.halt.probe() == Some(permit),
        };
        turn && sent.epoch == self.halt.epoch() && self.halt.time_gate(now).is_none()
    }

    /// A permit ended without telling anything. If it was the probe, exactly one other follows.
    pub(crate) fn lost(&mut self, permit: PermitId, sent: &Sent, _now: Timestamp) {
        self.halt.lost(permit);
        self.cycle.lost(sent.sequence);
    }

    /// What an answer teaches. `held`: from grant to release, if known yet.
    #[expect(clippy::too_many_arguments)]
    pub(crate) fn report(
        &mut self,
        permit: PermitId,
        sent: &Sent,
        outcome: Outcome,
        hints: &Hints,
        held: Option<Duration>,
        now: Timestamp,
        rng: &mut fastrand::Rng,
    ) {
        self.listen(hints, now);
        let is_probe = self.halt.probe() == Some(permit);
        match outcome {
            Outcome::Cancelled | Outcome::Denied => self.lost(permit, sent, now),
            Outcome::Limited | Outcome::Blocked => {
                let cause = match outcome {
                    Outcome::Blocked => Cause::Blocked,
                    _ => Cause::Limited,
                };
                self.refused(sent, is_probe, cause, hints.retry_after, now, rng);
            }
            Outcome::ServerError | Outcome::Timeout | Outcome::Network | Outcome::Truncated => {
                self.failed(sent, is_probe, outcome, hints.retry_after, now, rng);
            }
            _ => self.answered(sent, is_probe, outcome, held, now),
        }
    }

    /// What is worth storing for the next run.
    pub(crate) fn learned(&self) -> Learned {
        Learned {
            rate: self.w,
            cap: self.slots.found(),
            latency: self.latency.baseline(),
            horizon: self.horizon,
            met: self.met,
        }
    }

    /// The half-open probe that is out.
    pub(crate) fn probe(&self) -> Option<PermitId> {
        self.halt.probe()
    }

    /// Pace at `now`, requests per second: that of the phase, within what the server told.
    fn rate(&self, now: Timestamp) -> f64 {
        let own = self.own_rate(now);
        pace(match self.told.rate {
            Some(told) if now < self.told.until => own.min(REST * told),
            _ => own,
        })
    }

    /// The same without what the server told.
    fn own_rate(&self, now: Timestamp) -> f64 {
        self.phase.pace(now, self.w, self.boost, !self.is_shared())
    }

    /// Requests that may be in flight at `now`; at least one.
    fn cap(&self, now: Timestamp) -> u32 {
        let latency = match self.latency.is_known() {
            true => self.latency.baseline(),
            false => UNKNOWN_LATENCY,
        };
        let guard =
            (GUARD_SHARE * self.rate(now).max(self.w) * latency + GUARD_EXTRA).ceil() as u32;
        let told = self.told.cap.filter(|_| now < self.told.until);
        let cap = guard.min(told.unwrap_or(u32::MAX));
        cap.min(self.slots.cap().unwrap_or(u32::MAX)).max(1)
    }

    /// Unit of time of recovery and probes, seconds: time enough for the server's answer to be seen.
    fn unit(&self) -> f64 {
        (5.0 * self.latency.mean())
            .max(UNIT_REQUESTS / self.w)
            .max(self.horizon / 3.0)
            .max(1.0)
    }

    /// Seconds of a recovery.
    fn recovery_length(&self) -> f64 {
        self.unit().clamp(SHORTEST_RECOVERY, LONGEST_RECOVERY)
    }

    /// Sending begins again at `now`, after a pause; `probed`: because a probe was accepted.
    fn resume(&mut self, probed: bool, now: Timestamp) {
        self.restart_load(now);
        let closed = self.block.last.max(self.halt.not_before().min(now));
        self.cycle.resume(probed, closed, now);
        self.served = probed;
        self.phase = match self.phase {
            Phase::Measure { to, .. } => {
                Phase::measure(now, to / phase::MEASURE_TO, self.latency.mean())
            }
            _ => {
                let many = self.halt.in_a_row() >= MANY_PAUSES;
                Phase::Recover {
                    since: now,
                    from: RESUME_SHARE * self.w * if many { 0.5 } else { 1.0 },
                    length: self.recovery_length(),
                }
            }
        };
        self.pacer.restart(now, self.rate(now));
    }

    /// Whether others seem to use the same limit.
    fn is_shared(&self) -> bool {
        self.shared > event::SURELY_SHARED
    }

    fn may_probe(&self) -> bool {
        self.halt.is_open()
            && (self.credit.affords_event(&self.temper)
                || self.is_shared() && self.credit.left() > SHARED_CREDIT)
    }
}
