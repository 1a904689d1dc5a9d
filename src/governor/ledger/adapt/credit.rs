//! The budget of refusals: earned by successes, spent by refusals, needed to look for more.
//!
//! It bounds the share of refused requests by construction. It never holds back requests at the proven
//! pace: those are what earns it.

use super::Temper;

/// What a new lane may spend while it looks for its first limit.
const START: f64 = 4.5;
/// Good times are not saved without bound.
const MOST: f64 = 5.0;
/// Nor are bad ones held against the lane for ever.
const LEAST: f64 = -1.0;
/// What the first refusal of an event costs.
const EVENT: f64 = 1.0;
/// What each further refusal of the same event costs: those requests were out already.
const STALE: f64 = 0.15;
/// Seconds for one credit, however few successes there are: a slow lane must look around too.
const SLOWEST_EARNING: f64 = 75.0;
/// Refusals that any lane may meet, however few its requests.
const FEW: f64 = 4.0;
/// Time constant of the memory of refusals, in seconds: the windows of bans are of this order.
const MEMORY: f64 = 300.0;

/// What is left to be spent on refusals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credit {
    left: f64,
    /// Refusals, each forgotten with the time constant [`MEMORY`].
    recent: f64,
    /// Successes, forgotten likewise.
    served: f64,
    /// Lowered after a ban: whoever was shut out once pays more for every refusal.
    thrift: f64,
}

impl Credit {
    pub(super) fn new() -> Self {
        Self {
            left: START,
            recent: 0.0,
            served: 0.0,
            thrift: 1.0,
        }
    }

    /// `dt` seconds passed with `successes`.
    pub(super) fn earn(&mut self, temper: &Temper, successes: f64, dt: f64) {
        let fade = (-dt / MEMORY).exp();
        self.recent *= fade;
        self.served = self.served * fade + successes;
        // Idle time earns nothing.
        if successes > 0.0 {
            let dt = dt.min(SLOWEST_EARNING);
            let earned = (temper.earned_per_success * successes)
                .clamp(dt / SLOWEST_EARNING, dt / temper.fastest_earning);
            self.left = (self.left + earned * self.thrift).min(MOST);
        }
    }

    /// A request was refused; `first` of its event or one of those that were out already.
    pub(super) fn spend(&mut self, first: bool) {
        self.recent += 1.0;
        self.left = (self.left - if first { EVENT } else { STALE }).max(LEAST);
    }

    /// The server shut us out: from now on refusals are earned at half the rate.
    pub(super) fn banned(&mut self) {
        self.left = LEAST;
        self.thrift = (self.thrift * 0.5).max(0.1);
    }

    /// Whether an event may be provoked.
    pub(super) fn affords_event(&self, temper: &Temper) -> bool {
        let bearable = (FEW + temper.young_share * self.served)
            .min(temper.recent_refusals)
            .max(temper.recent_share * self.served);
        self.left >= EVENT && self.recent < bearable * self.thrift
    }

    /// Refusals of the last few minutes.
    pub(super) fn recent(&self) -> f64 {
        self.recent
    }

    pub(super) fn left(&self) -> f64 {
        self.left
    }
}
