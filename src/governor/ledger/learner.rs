//! What a lane learns by: the back-off of fixed limits, or the adaptive law.

use std::time::Duration;

use super::Faults;
use super::adapt::{Adapt, FIRST_PACE, Learned, Sent};
use super::backoff::{Backoff, Reported};
use super::level::Gate;
use super::scale::Scale;
use crate::governor::messages::{Hints, PermitId, WaitReason};
use crate::model::{Outcome, Timestamp};
use crate::settings::{BackoffSettings, LimitMode, Profile};

/// One way of learning. Merged lanes share one.
#[derive(Debug)]
pub(crate) enum Learner {
    Fixed(Backoff),
    /// The law counts in its own time, which a test may let run faster.
    Adaptive(Box<Adapt>, Scale),
}

/// What a permit remembers of the moment it was granted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stamp {
    Fixed(u32),
    Adaptive(Sent),
}

/// What came of a permit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) permit: PermitId,
    pub(crate) stamp: Stamp,
    pub(crate) outcome: Outcome,
    pub(crate) hints: Hints,
    /// From grant to release, where it is known already.
    pub(crate) held: Option<Duration>,
}

/// What an adaptive lane has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) pace_per_second: f64,
    pub(crate) estimate_per_second: f64,
    pub(crate) cap: Option<u32>,
}

/// How a lane is to learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manner {
    pub(crate) mode: LimitMode,
    pub(crate) profile: Profile,
    pub(crate) scale: Scale,
}

/// What a lane that nobody uses still has to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// A time has to pass before its next request.
    Live,
    /// It is on its guard: what it learned alone would make it bolder. Worth some minutes.
    Fading,
    /// What it learned.
    None,
}

impl Clone for Learner {
    fn clone(&self) -> Self {
        match self {
            Self::Fixed(backoff) => Self::Fixed(backoff.clone()),
            Self::Adaptive(adapt, scale) => Self::Adaptive(adapt.clone(), *scale),
        }
    }

    /// In place: what outlives the ledger is brought up to date after each batch.
    fn clone_from(&mut self, other: &Self) {
        match (self, other) {
            (Self::Adaptive(own, own_scale), Self::Adaptive(adapt, scale)) => {
                own.clone_from(adapt);
                *own_scale = *scale;
            }
            (own, other) => *own = other.clone(),
        }
    }
}

impl Learner {
    /// `known`: what an earlier run learned.
    pub(crate) fn new(manner: Manner, known: Option<&Learned>, now: Timestamp) -> Self {
        match manner.mode {
            LimitMode::Fixed => Self::Fixed(Backoff::default()),
            LimitMode::Adaptive => {
                let known = known.map(|known| manner.scale.law_learned(known));
                let adapt = Adapt::new(manner.profile, known.as_ref(), manner.scale.law(now));
                Self::Adaptive(Box::new(adapt), manner.scale)
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn backoff(&self) -> &Backoff {
        match self {
            Self::Fixed(backoff) => backoff,
            Self::Adaptive(..) => panic!("an adaptive lane"),
        }
    }

    /// The stamp of a permit granted at `now`, where nothing but caps can be in the way and a grant changes
    /// nothing here.
    #[inline]
    pub(crate) fn calm(&self, now: Timestamp) -> Option<u32> {
        match self {
            Self::Fixed(backoff) => backoff.calm(now),
            Self::Adaptive(..) => None,
        }
    }

    /// Times only: what callers' patience is about.
    pub(crate) fn time_gate(&self, now: Timestamp) -> Option<(Timestamp, WaitReason)> {
        match self {
            Self::Fixed(backoff) => backoff.time_gate(now),
            Self::Adaptive(adapt, scale) => {
                let (at, why) = adapt.time_gate(scale.law(now))?;
                Some((scale.real(at), why))
            }
        }
    }

    /// What is lost when only what it learned is kept.
    pub(crate) fn bound(&self, now: Timestamp) -> Bound {
        match self {
            Self::Fixed(backoff) if backoff.time_gate(now).is_some() => Bound::Live,
            Self::Fixed(backoff) if backoff.is_on_guard(now) => Bound::Fading,
            Self::Fixed(_) => Bound::None,
            Self::Adaptive(adapt, scale) => adapt.bound(scale.law(now)),
        }
    }

    /// Whether one more request may leave, beside `in_flight` that did.
    pub(crate) fn gate(&mut self, now: Timestamp, in_flight: u32, faults: Faults) -> Gate {
        match self {
            Self::Fixed(backoff) => backoff.gate(now, faults),
            Self::Adaptive(adapt, scale) => {
                let now = scale.law(now);
                adapt.advance(now);
                match adapt.gate(now, in_flight) {
                    Gate::At(at, why) => Gate::At(scale.real(at), why),
                    gate => gate,
                }
            }
        }
    }

    /// A request is granted through an open gate.
    #[inline]
    pub(crate) fn begin(&mut self, permit: PermitId, now: Timestamp, in_flight: u32) -> Stamp {
        match self {
            Self::Fixed(backoff) => Stamp::Fixed(backoff.begin(permit)),
            Self::Adaptive(adapt, scale) => {
                Stamp::Adaptive(adapt.begin(permit, scale.law(now), in_flight))
            }
        }
    }

    /// Whether a permit decided earlier would be decided again now.
    pub(crate) fn still_open(&self, permit: PermitId, stamp: Stamp, now: Timestamp) -> bool {
        match (self, stamp) {
            (Self::Fixed(backoff), Stamp::Fixed(epoch)) => backoff.still_open(permit, epoch, now),
            (Self::Adaptive(adapt, scale), Stamp::Adaptive(sent)) => {
                adapt.still_open(permit, &sent, scale.law(now))
            }
            // Decided under another way of learning.
            _ => false,
        }
    }

    /// A permit ended without telling anything.
    #[inline]
    pub(crate) fn lost(&mut self, permit: PermitId, stamp: Stamp, now: Timestamp) {
        match (self, stamp) {
            (Self::Fixed(backoff), _) => backoff.lost(permit),
            (Self::Adaptive(adapt, scale), Stamp::Adaptive(sent)) => {
                adapt.lost(permit, &sent, scale.law(now));
            }
            _ => {}
        }
    }

    pub(crate) fn report(
        &mut self,
        ended: &Ended,
        now: Timestamp,
        settings: &BackoffSettings,
        rng: &mut fastrand::Rng,
        faults: Faults,
    ) {
        match (self, ended.stamp) {
            (Self::Fixed(backoff), Stamp::Fixed(epoch)) => {
                let reported = Reported {
                    permit: ended.permit,
                    epoch,
                    outcome: ended.outcome,
                    wait: ended.hints.wait(),
                };
                backoff.report(reported, now, settings, rng, faults);
            }
            (Self::Adaptive(adapt, scale), Stamp::Adaptive(sent)) => {
                let hints = scaled(ended.hints, *scale);
                let held = ended.held.map(|held| scale.law_time(held));
                let now = scale.law(now);
                adapt.advance(now);
                adapt.report(ended.permit, &sent, ended.outcome, &hints, held, now, rng);
            }
            // Sent under another way of learning: only the time that the server named still holds.
            (learner, _) => {
                if let Some(wait) = ended.hints.wait() {
                    learner.not_before(now + wait);
                }
            }
        }
    }

    /// Nothing leaves before `at`.
    pub(crate) fn not_before(&mut self, at: Timestamp) {
        match self {
            Self::Fixed(backoff) => backoff.not_before(at),
            Self::Adaptive(adapt, scale) => adapt.not_before(scale.law(at)),
        }
    }

    /// Another manner from now on. Times that have to pass stay.
    pub(crate) fn turn(&mut self, manner: Manner, now: Timestamp) {
        match (&mut *self, manner.mode) {
            (Self::Fixed(_), LimitMode::Fixed) => {}
            (Self::Adaptive(adapt, _), LimitMode::Adaptive) => adapt.set_profile(manner.profile),
            _ => {
                let wait = self.time_gate(now);
                *self = Self::new(manner, None, now);
                if let Some((at, _)) = wait {
                    self.not_before(at);
                }
            }
        }
    }

    /// Whether it learns in this manner, profile apart.
    pub(crate) fn is_of(&self, manner: Manner) -> bool {
        match self {
            Self::Fixed(_) => manner.mode == LimitMode::Fixed,
            Self::Adaptive(..) => manner.mode == LimitMode::Adaptive,
        }
    }

    /// What is worth keeping for the next run, in real time; `None` where nothing is learned.
    pub(crate) fn learned(&self) -> Option<Learned> {
        match self {
            Self::Fixed(_) => None,
            Self::Adaptive(adapt, scale) => Some(scale.real_learned(adapt.learned())),
        }
    }

    /// Decisions so far.
    pub(crate) fn events(&self) -> u64 {
        match self {
            Self::Fixed(_) => 0,
            Self::Adaptive(adapt, _) => adapt.events(),
        }
    }

    /// Whether it holds a pace that it has proved.
    pub(crate) fn is_steady(&self) -> bool {
        match self {
            Self::Fixed(_) => false,
            Self::Adaptive(adapt, _) => adapt.is_steady(),
        }
    }

    /// The mean time that a permit is held; zero where it is unknown.
    pub(crate) fn latency(&self) -> Duration {
        match self {
            Self::Fixed(_) => Duration::ZERO,
            Self::Adaptive(adapt, scale) => scale.real_time(adapt.latency()),
        }
    }

    /// Whether it learns as `other` does and knows nothing that the other does not.
    pub(crate) fn knows_no_other(&self, other: &Self) -> bool {
        match (self.learned(), other.learned()) {
            (Some(own), Some(others)) => !own.met || own == others,
            _ => false,
        }
    }

    /// One learner for two that share a limit: each had found its part of it.
    pub(crate) fn joined(both: [&Self; 2], now: Timestamp) -> Option<Self> {
        let [Self::Adaptive(one, scale), Self::Adaptive(other, _)] = both else {
            return None;
        };
        let joined = Adapt::joined(one, other, scale.law(now));
        Some(Self::Adaptive(Box::new(joined), *scale))
    }

    /// A learner for one of those that shared this one.
    pub(crate) fn parted(&self, manner: Manner, share: f64, met: bool, now: Timestamp) -> Self {
        // Each goes on at its part of the pace, so that all of them together are hardly faster than before. A
        // part that is small because little was asked shows nothing: no less than a new lane begins with.
        let known = self.learned().map(|shared| Learned {
            rate: (shared.rate * share).max(FIRST_PACE.min(shared.rate)),
            cap: shared.cap.filter(|_| met),
            horizon: if met { shared.horizon } else { 0.0 },
            met,
            ..shared
        });
        let mut parted = Self::new(manner, known.as_ref(), now);
        if let Some((at, _)) = self.time_gate(now) {
            parted.not_before(at);
        }
        if let (Self::Adaptive(parted, _), Self::Adaptive(shared, _)) = (&mut parted, self) {
            parted.follow(shared);
        }
        parted
    }

    /// The half-open probe was never handed out.
    pub(crate) fn lost_probe(&mut self, probe: PermitId, now: Timestamp) {
        match self {
            Self::Fixed(backoff) => backoff.lost(probe),
            Self::Adaptive(adapt, scale) => adapt.lost_probe(probe, scale.law(now)),
        }
    }

    /// `open`, `pause`, `half_open`, or what an adaptive lane does, as the snapshot says it.
    pub(crate) fn state(&self, now: Timestamp) -> &'static str {
        match self {
            Self::Fixed(backoff) => backoff.state(now),
            Self::Adaptive(adapt, scale) => adapt.view(scale.law(now)).state,
        }
    }

    /// Failures in a row.
    pub(crate) fn failures(&self, now: Timestamp) -> u32 {
        match self {
            Self::Fixed(backoff) => backoff.failures(now),
            Self::Adaptive(adapt, scale) => adapt.view(scale.law(now)).failures,
        }
    }

    /// What it has found, in real time: requests per second, and requests at once.
    pub(crate) fn found(&self, now: Timestamp) -> Option<Found> {
        match self {
            Self::Fixed(_) => None,
            Self::Adaptive(adapt, scale) => {
                let view = adapt.view(scale.law(now));
                Some(Found {
                    pace_per_second: scale.real_rate(view.pace),
                    estimate_per_second: scale.real_rate(view.estimate),
                    cap: view.cap,
                })
            }
        }
    }

    /// The half-open probe that is out.
    pub(crate) fn probe(&self) -> Option<PermitId> {
        match self {
            Self::Fixed(backoff) => backoff.probe(),
            Self::Adaptive(adapt, _) => adapt.probe(),
        }
    }
}

/// Hints in the time of the law: it runs faster, so that a rate per second is less in it.
fn scaled(hints: Hints, scale: Scale) -> Hints {
    let longer = |time: Option<Duration>| time.map(|time| scale.law_time(time));
    Hints {
        retry_after: longer(hints.retry_after),
        exhausted: longer(hints.exhausted),
        rate_for: longer(hints.rate_for),
        rate: hints.rate.map(|rate| scale.law_rate(rate)),
        ..hints
    }
}
