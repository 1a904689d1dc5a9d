//! What the ledger asks of a lane's law when lanes learn together, and when they part.

use std::time::Duration;

use super::halt::Halt;
use super::temper::Temper;
use super::{Adapt, Learned};
use crate::governor::messages::PermitId;
use crate::model::Timestamp;
use crate::settings::Profile;

impl Adapt {
    /// One law for two lanes that share a limit: each had found its part of it, so that the sum of both
    /// is proved.
    pub(crate) fn joined(one: &Self, other: &Self, now: Timestamp) -> Self {
        let (a, b) = (one.learned(), other.learned());
        let sum = Learned {
            rate: a.rate + b.rate,
            cap: a.cap.zip(b.cap).map(|(a, b)| a.saturating_add(b)),
            latency: a.latency.max(b.latency),
            horizon: a.horizon.max(b.horizon),
            met: true,
        };
        let mut joined = one.clone();
        let fresh = Self::new(Profile::BanSafe, Some(&sum), now);
        joined.w = fresh.w;
        joined.phase = fresh.phase;
        joined.slots = fresh.slots;
        joined.horizon = fresh.horizon;
        joined.halt = Halt::joined(&one.halt, &other.halt);
        joined.cycle.resume(false, now, now);
        joined.pacer.restart(now, sum.rate);
        joined
    }

    /// Goes on where lanes learned together: permits that are out are of an earlier epoch.
    pub(crate) fn follow(&mut self, shared: &Self) {
        self.halt = shared.halt;
        self.halt.next_epoch();
    }

    /// Nothing leaves before `at`.
    pub(crate) fn not_before(&mut self, at: Timestamp) {
        self.halt.hold_until(at);
    }

    pub(crate) fn set_profile(&mut self, profile: Profile) {
        self.temper = Temper::of(profile);
    }

    /// Congestion events so far.
    pub(crate) fn events(&self) -> u64 {
        u64::from(self.events)
    }

    /// Whether it holds a pace that it has proved: a refusal now is not of its own making.
    pub(crate) fn is_steady(&self) -> bool {
        self.halt.is_open() && self.phase.is_steady()
    }

    /// The mean time that a permit is held.
    pub(crate) fn latency(&self) -> Duration {
        super::units::span(self.latency.mean())
    }

    /// The half-open probe was never handed out.
    pub(crate) fn lost_probe(&mut self, probe: PermitId, _: Timestamp) {
        self.halt.lost(probe);
    }
}
