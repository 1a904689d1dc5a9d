//! Who learns together: how lanes join, and when they part.

use std::time::Duration;

use super::{Kin, Trace};
use crate::governor::ledger::Ledger;
use crate::governor::ledger::learner::Learner;

/// Merged lanes that are never refused together for so long part.
const PART_AFTER: Duration = Duration::from_secs(600);
/// So do those of which one is refused time and again, when a shared limit would have picked it with less
/// than this probability: a shared limit picks each by its share of the requests.
const UNLIKELY: f64 = 0.13;
/// One event is no "time and again".
const LEAST_EVENTS: u32 = 2;

impl Ledger {
    /// A lane that has learned nothing of its own joins those of its group, unless some have parted there.
    pub(in crate::governor::ledger) fn presume(&mut self, lane: u32) {
        let one = &self.lanes[lane as usize];
        let group = &self.groups[one.group as usize].lanes;
        if group
            .iter()
            .any(|other| self.lanes[*other as usize].trace.parted)
        {
            return;
        }
        let alike = group
            .iter()
            .copied()
            .find(|other| *other != lane && one.learner.knows_no_other(self.learner(*other)));
        let Some(other) = alike else {
            return;
        };
        match self.lanes[other as usize].kin {
            Some(place) => {
                let kin = &mut self.kin[place as usize];
                kin.lanes.push(lane);
                kin.grants.push(0);
                kin.before.push(0);
                self.lanes[lane as usize].kin = Some(place);
                self.touch_lane(lane);
                self.touch_kin(place);
            }
            None => {
                let learner = self.learner(other).clone();
                self.bind(learner, vec![other, lane]);
            }
        }
    }

    /// Two lanes learn together from now on.
    pub(super) fn merge(&mut self, one: u32, other: u32) {
        let (ones, others) = (self.lanes[one as usize].kin, self.lanes[other as usize].kin);
        if ones.is_some() && ones == others {
            return;
        }
        let both = [self.learner(one), self.learner(other)];
        let Some(learner) = Learner::joined(both, self.now) else {
            return;
        };
        let mut lanes = Vec::new();
        for (lane, kin) in [(one, ones), (other, others)] {
            match kin {
                Some(kin) => {
                    self.touch_kin(kin);
                    let gone = self.kin.remove(kin);
                    lanes.extend(gone.into_iter().flat_map(|kin| kin.lanes));
                }
                None => lanes.push(lane),
            }
        }
        self.bind(learner, lanes);
    }

    /// These lanes learn by this learner.
    fn bind(&mut self, learner: Learner, lanes: Vec<u32>) {
        let kin = Kin {
            learner,
            dirty: false,
            served: lanes[0],
            together: self.now,
            event: self.now,
            refused: Vec::new(),
            chance: 1.0,
            alone: 0,
            loner: lanes[0],
            grants: vec![0; lanes.len()],
            before: vec![0; lanes.len()],
            lanes,
        };
        let number = self.kin.insert(kin);
        let place = number as usize;
        for index in 0..self.kin[place].lanes.len() {
            let lane = self.kin[place].lanes[index];
            self.lanes[lane as usize].kin = Some(number);
            self.touch_lane(lane);
        }
        self.touch_kin(number);
    }

    /// A refusal among merged lanes: are they still refused together?
    pub(super) fn refused_together(&mut self, place: u32, lane: u32, event: bool) {
        let now = self.now;
        self.touch_kin(place);
        let kin = &mut self.kin[place as usize];
        if event {
            kin.judge();
            kin.event = now;
        }
        if !kin.refused.contains(&lane) {
            kin.refused.push(lane);
        }
        if kin.refused.len() > 1 {
            kin.together = now;
            (kin.chance, kin.alone) = (1.0, 0);
        }
        let lone = kin.chance < UNLIKELY && kin.alone >= LEAST_EVENTS;
        if lone || now.since(kin.together) > PART_AFTER {
            self.part(place);
        }
    }

    /// Merged lanes learn by themselves again, each from what they had learned together.
    pub(super) fn part(&mut self, place: u32) {
        self.touch_kin(place);
        let Some(kin) = self.kin.remove(place) else {
            return;
        };
        let shares: Vec<f64> = (0..kin.lanes.len()).map(|place| kin.share(place)).collect();
        let loner = (kin.alone > 0).then_some(kin.loner);
        let (lanes, shared) = (kin.lanes, kin.learner);
        for (lane, share) in lanes.into_iter().zip(shares) {
            let key = self.lanes[lane as usize].key.clone();
            let manner = self.config.manner(&key);
            // What was met may have been the limit of the one that was refused: the others look for theirs.
            let met = loner.is_none_or(|loner| loner == lane);
            let alone = shared.parted(manner, share, met, self.now);
            let lane_state = &mut self.lanes[lane as usize];
            lane_state.learner = alone;
            lane_state.kin = None;
            lane_state.trace = Trace {
                bucket: lane_state.trace.bucket,
                parted: true,
                ..Trace::default()
            };
            self.touch_lane(lane);
        }
    }
}

impl Kin {
    /// Share of the requests before the event that a lane sent.
    fn share(&self, place: usize) -> f64 {
        // One request more for each, so that few requests show little.
        let all = self.before.iter().sum::<u64>() + self.lanes.len() as u64;
        (self.before[place] + 1) as f64 / all as f64
    }

    /// The event before is over: whom it refused, all know now.
    fn judge(&mut self) {
        if let [loner] = self.refused[..]
            && let Some(place) = self.lanes.iter().position(|lane| *lane == loner)
        {
            if loner != self.loner {
                (self.chance, self.alone) = (1.0, 0);
            }
            self.chance *= self.share(place);
            self.alone += 1;
            self.loner = loner;
        }
        self.refused.clear();
        std::mem::swap(&mut self.before, &mut self.grants);
        self.grants.fill(0);
    }
}
