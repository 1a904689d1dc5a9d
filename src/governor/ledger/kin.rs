//! Lanes that learn together: endpoints of one site that turn out to share a limit of its server.
//!
//! Presumed, told or found. Of a server that nothing is known of the safe guess is one limit for all, so that
//! the endpoints of a site begin together: several that learn apart would find a shared limit several times,
//! and each would hold a part of it that another cannot use. The server may tell (both name the same bucket).
//! And a shared limit refuses lanes at the same moment, also one that was holding a pace it had proved.
//!
//! Merged lanes have one pace and one memory. They part when it is unlikely that chance alone picked those
//! that were refused, or when their refusals stop to coincide.

mod bonds;

use std::time::Duration;

use super::learner::{Ended, Learner, Stamp};
use super::places::Places;
use super::{Action, Lane, Ledger, OutPermit};
use crate::governor::messages::{Hints, PermitId};
use crate::model::{Outcome, Timestamp};

/// Refusals of two lanes in the same moment, so many times in a row, are no chance.
const COINCIDENCES: u8 = 3;
/// The least that counts as the same moment.
const MOMENT: Duration = Duration::from_millis(50);

/// Lanes that learn together. Empty when they have parted.
#[derive(Clone, Debug)]
pub(crate) struct Kin {
    learner: Learner,
    pub(crate) lanes: Vec<u32>,
    /// Changed since the last save.
    pub(super) dirty: bool,
    /// The lane that was served last: the others come first.
    served: u32,
    /// When more than one of them was refused in one event.
    together: Timestamp,
    /// The event being looked at: when it began, and who was refused in it.
    event: Timestamp,
    refused: Vec<u32>,
    /// Probability that a shared limit would have picked `loner` alone in all the events in a row that did.
    chance: f64,
    alone: u32,
    loner: u32,
    /// Grants per lane since the event, and from the one before to it.
    grants: Vec<u64>,
    before: Vec<u64>,
}

/// What a lane remembers of its refusals, to find its kin.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    /// Its last event, and whether it was holding its pace then.
    last: Option<(Timestamp, bool)>,
    /// Coincidences in a row with another lane.
    with: Vec<(u32, u8)>,
    /// The bucket the server names.
    bucket: Option<u64>,
    /// It was found to have a limit of its own.
    parted: bool,
}

/// The learner of a lane, apart from the rest of its ledger.
fn learner_in<'l>(
    lanes: &'l mut Places<Lane>,
    kin: &'l mut Places<Kin>,
    lane: u32,
) -> &'l mut Learner {
    let lane = &mut lanes[lane as usize];
    match lane.kin {
        Some(place) => &mut kin[place as usize].learner,
        None => &mut lane.learner,
    }
}

impl Ledger {
    /// The learner of a lane: its own, or the one it shares.
    pub(super) fn learner(&self, lane: u32) -> &Learner {
        let lane = &self.lanes[lane as usize];
        match lane.kin {
            Some(kin) => &self.kin[kin as usize].learner,
            None => &lane.learner,
        }
    }

    /// The same, and how many permits are out under it.
    pub(super) fn learner_mut(&mut self, lane: u32) -> (&mut Learner, u32) {
        let in_flight = match self.lanes[lane as usize].kin {
            Some(kin) => {
                // Whoever asks for it may change it, and a successor has to know.
                self.touch_kin(kin);
                let lanes = self.kin[kin as usize].lanes.iter();
                lanes
                    .map(|lane| self.lanes[*lane as usize].level.in_flight)
                    .sum()
            }
            None => self.lanes[lane as usize].level.in_flight,
        };
        let learner = learner_in(&mut self.lanes, &mut self.kin, lane);
        (learner, in_flight)
    }

    /// The stamp of a permit that is granted now.
    pub(super) fn stamp(&mut self, lane: u32, permit: PermitId) -> Stamp {
        let now = self.now;
        if let Some(kin) = self.lanes[lane as usize].kin {
            let kin = &mut self.kin[kin as usize];
            kin.served = lane;
            if let Some(place) = kin.lanes.iter().position(|other| *other == lane) {
                kin.grants[place] += 1;
            }
        }
        let (learner, in_flight) = self.learner_mut(lane);
        learner.begin(permit, now, in_flight)
    }

    /// What the answer to a permit teaches its lane, and whom it shows to be kin.
    pub(super) fn learn(
        &mut self,
        lane: u32,
        permit: PermitId,
        out: &OutPermit,
        outcome: Outcome,
        hints: Hints,
        actions: &mut Vec<Action>,
    ) {
        let ended = Ended {
            permit,
            stamp: out.stamp,
            outcome,
            hints,
            held: out.held,
        };
        let (now, faults) = (self.now, self.faults);
        if let Some(kin) = self.lanes[lane as usize].kin {
            self.touch_kin(kin);
        }
        let learner = learner_in(&mut self.lanes, &mut self.kin, lane);
        let before = learner.events();
        let steady = learner.is_steady();
        learner.report(&ended, now, &self.config.backoff, &mut self.rng, faults);
        let event = learner.events() != before;
        if let Some(wait) = hints.wait() {
            self.named(lane, wait, actions);
            if hints.whole_site {
                self.hold_site(lane, now + wait);
            }
        }
        if matches!(self.learner(lane), Learner::Fixed(_)) {
            return;
        }
        if let Some(bucket) = hints.bucket
            && self.lanes[lane as usize].trace.bucket != Some(bucket)
        {
            self.lanes[lane as usize].trace.bucket = Some(bucket);
            self.meet(lane, bucket);
        }
        if matches!(outcome, Outcome::Limited | Outcome::Blocked) {
            match self.lanes[lane as usize].kin {
                Some(kin) => self.refused_together(kin, lane, event),
                None if event => self.refused_alone(lane, steady),
                None => {}
            }
        }
    }

    /// The server spoke of all its endpoints.
    fn hold_site(&mut self, lane: u32, until: Timestamp) {
        let group = self.lanes[lane as usize].group as usize;
        for place in 0..self.groups[group].lanes.len() {
            let other = self.groups[group].lanes[place];
            self.learner_mut(other).0.not_before(until);
            self.touch_lane(other);
        }
    }

    /// Lanes whose server counts them in one bucket.
    fn meet(&mut self, lane: u32, bucket: u64) {
        let group = &self.groups[self.lanes[lane as usize].group as usize];
        let other = group.lanes.iter().copied().find(|other| {
            *other != lane && self.lanes[*other as usize].trace.bucket == Some(bucket)
        });
        if let Some(other) = other {
            self.merge(lane, other);
        }
    }

    /// An event of a lane that learns by itself: does it coincide with one of another?
    fn refused_alone(&mut self, lane: u32, steady: bool) {
        let now = self.now;
        let group = self.lanes[lane as usize].group as usize;
        let moment = self.moment(lane);
        let mut kin = None;
        for place in 0..self.groups[group].lanes.len() {
            let other = self.groups[group].lanes[place];
            if other == lane {
                continue;
            }
            let theirs = &self.lanes[other as usize];
            // One that sent nothing meanwhile shows nothing.
            let Some((at, was_steady)) = self.last_event(other) else {
                continue;
            };
            let same = now.since(at) <= moment.max(self.moment(other));
            let telling = steady || was_steady;
            let idle = theirs.queue.is_empty() && theirs.level.in_flight == 0;
            let trace = &mut self.lanes[lane as usize].trace;
            let count = match trace.with.iter_mut().find(|(with, _)| *with == other) {
                Some((_, count)) => count,
                None => {
                    trace.with.push((other, 0));
                    match trace.with.last_mut() {
                        Some((_, count)) => count,
                        None => continue,
                    }
                }
            };
            match (same, idle) {
                (true, _) if telling => *count += 1,
                (true, _) | (false, true) => {}
                (false, false) => *count = 0,
            }
            if *count >= COINCIDENCES {
                kin = Some(other);
            }
        }
        self.lanes[lane as usize].trace.last = Some((now, steady));
        if let Some(other) = kin {
            self.merge(lane, other);
        }
    }

    fn last_event(&self, lane: u32) -> Option<(Timestamp, bool)> {
        let lane = &self.lanes[lane as usize];
        match lane.kin {
            Some(kin) => Some((self.kin[kin as usize].event, true)),
            None => lane.trace.last,
        }
    }

    /// How close refusals are that have one cause: within one answer's time.
    fn moment(&self, lane: u32) -> Duration {
        self.learner(lane).latency().max(MOMENT)
    }

    /// Something happened to a lane: it concerns all that learn with it. Those that were not served last
    /// come first, so that they take turns.
    pub(super) fn look_at_kin(&mut self, lane: u32, actions: &mut Vec<Action>) {
        let Some(place) = self.lanes[lane as usize].kin else {
            return self.look_at_lane(lane, actions);
        };
        let kin = &self.kin[place as usize];
        let count = kin.lanes.len();
        let after = kin.lanes.iter().position(|other| *other == kin.served);
        let start = after.map_or(0, |place| place + 1);
        for step in 0..count {
            let lane = self.kin[place as usize].lanes[(start + step) % count];
            self.look_at_lane(lane, actions);
        }
    }

    /// The manner of a lane may have changed.
    pub(super) fn turn(&mut self, lane: u32) {
        let manner = self.config.manner(&self.lanes[lane as usize].key.clone());
        if let Some(kin) = self.lanes[lane as usize].kin
            && !self.learner(lane).is_of(manner)
        {
            self.part(kin);
        }
        let now = self.now;
        self.lanes[lane as usize].learner.turn(manner, now);
        self.touch_lane(lane);
    }

    /// A probe that was decided and never handed out died with the ledger that decided it.
    pub(super) fn forget_dead_probes(&mut self) {
        let out = &self.out;
        let now = self.now;
        let own = self.lanes.values_mut().map(|lane| &mut lane.learner);
        let shared = self.kin.values_mut().map(|kin| &mut kin.learner);
        for learner in own.chain(shared) {
            if let Some(probe) = learner.probe()
                && !out.contains_key(&probe)
            {
                learner.lost_probe(probe, now);
            }
        }
    }
}
