//! Tests of the law alone.

mod bench;
mod cases;
mod convergence;
mod properties;

use std::time::Duration;

use super::{Adapt, Profile, Sent};
use crate::governor::ledger::level::Gate;
use crate::governor::messages::{Hints, PermitId};
use crate::model::{Outcome, Timestamp};

/// So many seconds after the origin.
fn at(seconds: f64) -> Timestamp {
    Timestamp::ZERO + Duration::from_secs_f64(seconds)
}

fn retry_after(seconds: f64) -> Hints {
    Hints {
        retry_after: Some(Duration::from_secs_f64(seconds)),
        ..Hints::default()
    }
}

/// A lane driven by hand.
struct Hand {
    lane: Adapt,
    rng: fastrand::Rng,
    next: u64,
}

impl Hand {
    fn new(seed: u64) -> Self {
        Self {
            lane: Adapt::new(Profile::BanSafe, None, Timestamp::ZERO),
            rng: fastrand::Rng::with_seed(seed),
            next: 0,
        }
    }

    fn gate(&mut self, now: Timestamp, in_flight: u32) -> Gate {
        self.lane.advance(now);
        self.lane.gate(now, in_flight)
    }

    /// A request leaves, whatever the gate says.
    fn send(&mut self, now: Timestamp, in_flight: u32) -> (PermitId, Sent) {
        self.lane.advance(now);
        self.next += 1;
        let permit = PermitId(self.next);
        (permit, self.lane.begin(permit, now, in_flight))
    }

    fn answer(&mut self, sent: (PermitId, Sent), outcome: Outcome, hints: &Hints, now: Timestamp) {
        self.lane.advance(now);
        let held = now.since(sent.1.at);
        self.lane.report(
            sent.0,
            &sent.1,
            outcome,
            hints,
            Some(held),
            now,
            &mut self.rng,
        );
    }

    /// The first instant from `now` on at which one more may leave, `limit` seconds from now at most.
    fn opens(&mut self, now: Timestamp, in_flight: u32, limit: f64) -> Option<Timestamp> {
        let mut then = now;
        while then <= now + Duration::from_secs_f64(limit) {
            match self.gate(then, in_flight) {
                Gate::Open => return Some(then),
                Gate::At(when, _) => {
                    assert!(when > then, "a wait that is over");
                    then = when;
                }
                Gate::Wait(_) => return None,
            }
        }
        None
    }
}
