//! Groups that nobody asks for are dropped: memory is bounded by what is at work, not by how many hosts were
//! ever met.
//!
//! A group is at work while it has permits out or somebody waits, and while a time has to pass before its next
//! request: such a bound is never dropped, for it has to hold. All others rest. A hand goes round all groups, a
//! few at each step, and drops those that it finds at rest: the work of a step does not grow with their number.

use std::collections::VecDeque;
use std::time::Duration;

use super::attic::{GroupRest, LaneRest};
use super::learner::Bound;
use super::{Group, Ledger};
use crate::model::Timestamp;

/// So many groups stay, however long they rest: a few megabytes, and a job of some sites has a whole report.
const ROOM: usize = 256;
/// Of more groups than this, those that rest are dropped though they may be needed again soon: some tens of
/// megabytes.
const CROWD: usize = 4096;
/// Who was not asked for so long is not about to be: longer than any pause that a lane makes by itself, and than
/// most crawl delays.
const LONG: Duration = Duration::from_secs(600);
/// Groups looked at for each new one. Of groups that are asked once two looks drop one: the first is passed over
/// if it was used since the one before. So their number falls wherever two in three are at rest, and one that is
/// used oftener than a third of a crowd comes in is not dropped.
const LOOKS_PER_NEW: usize = 3;
/// Groups looked at in each step besides; these looks pass over what the others would.
const LOOKS_PER_STEP: usize = 1;

/// When a group is dropped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) room: usize,
    pub(super) crowd: usize,
    pub(super) long: Duration,
}

impl Rules {
    /// `scale`: length of a second of the law.
    pub(super) fn new(scale: f64) -> Self {
        Self {
            room: ROOM,
            crowd: CROWD,
            long: LONG.mul_f64(scale.clamp(0.001, 1.0)),
        }
    }
}

/// The way of the hand: each group stands in it once.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// A group, and when it had been used last at the hand's last visit.
    way: VecDeque<(u32, Timestamp)>,
    /// Groups since the last sweep.
    new: usize,
}

impl Round {
    /// A new group.
    pub(super) fn enter(&mut self, group: u32) {
        self.way.push_back((group, Timestamp::ZERO));
        self.new += 1;
    }
}

impl Ledger {
    /// Drops some of the groups that rest, with their lanes: to be called now and then, best after each batch of
    /// messages. A [`LaneId`](super::LaneId) from before may not be valid after it.
    pub fn sweep(&mut self) {
        let new = std::mem::take(&mut self.round.new);
        if self.groups.len() > self.rules.room {
            self.look_round(LOOKS_PER_NEW * new, true);
            self.look_round(LOOKS_PER_STEP, false);
        }
    }

    /// The same with as many looks as there are groups, within reason: for a governor that has nothing to do.
    pub fn sweep_all(&mut self) {
        if self.groups.len() > self.rules.room {
            self.look_round(self.groups.len().min(2 * self.rules.crowd), false);
        }
    }

    /// `counts`: what is passed over now is dropped by the next look, unless it is used before.
    fn look_round(&mut self, looks: usize, counts: bool) {
        for _ in 0..looks.min(self.round.way.len()) {
            if self.groups.len() <= self.rules.room {
                break;
            }
            let Some((id, seen)) = self.round.way.pop_front() else {
                break;
            };
            if self.may_go(id, seen) {
                self.drop_group(id);
            } else {
                // Where there are not too many, nothing is dropped but for its age.
                let seen = match counts && self.groups.len() > self.rules.crowd {
                    true => self.groups[id as usize].used,
                    false => seen,
                };
                self.round.way.push_back((id, seen));
            }
        }
        if self.round.way.capacity() > 64 + 4 * self.round.way.len() {
            self.round.way.shrink_to(2 * self.round.way.len());
        }
    }

    /// Whether a group rests, for long enough; `seen`: when it had been used at the last look.
    fn may_go(&self, id: u32, seen: Timestamp) -> bool {
        let group = &self.groups[id as usize];
        let long = self.now.since(group.used) >= self.rules.long;
        let crowded = self.groups.len() > self.rules.crowd && group.used <= seen;
        if !(long || crowded) || group.is_at_work(self.now) {
            return false;
        }
        group.lanes.iter().all(|lane| {
            let learner = self.learner(*lane);
            let lane = &self.lanes[*lane as usize];
            lane.queue.is_empty()
                && lane.level.is_at_rest(self.now)
                && match learner.bound(self.now) {
                    Bound::Live => false,
                    Bound::Fading => long,
                    Bound::None => true,
                }
        })
    }

    fn drop_group(&mut self, id: u32) {
        let Some(mut group) = self.groups.remove(id) else {
            return;
        };
        // Who waited may have gone while its gate was closed.
        self.claims.leave(&mut group.share);
        let mut lanes = std::mem::take(&mut group.resting);
        for lane in &group.lanes {
            self.tell_last_news(*lane);
            let learner = self.learner(*lane);
            lanes.push(LaneRest::of(&self.lanes[*lane as usize], learner));
        }
        let lanes_there = group.lanes.iter();
        let shared: Vec<u32> = lanes_there
            .filter_map(|lane| self.lanes[*lane as usize].kin)
            .collect();
        for number in &group.lanes {
            let events = self.learner(*number).events();
            let Some(lane) = self.lanes.remove(*number) else {
                continue;
            };
            self.gone.add(&lane, events);
            self.lane_ids.remove(&lane.key);
            if self.dirty.tracked {
                self.dirty.lanes.push(*number);
            }
        }
        for kin in shared {
            if self.kin.remove(kin).is_some() && self.dirty.tracked {
                self.dirty.kin.push(kin);
            }
        }
        let rest = GroupRest {
            level: group.level.memory(),
            service: group.share.service(),
            lanes,
        };
        let name = (group.site, group.host);
        self.group_ids.remove(&name);
        if self.dirty.tracked {
            self.dirty.groups.push(id);
            self.dirty.attic.push(name.clone());
        }
        self.attic.put(name, rest);
        shrink(&mut self.lane_ids);
        shrink(&mut self.group_ids);
    }

    /// Lanes that are there.
    #[must_use]
    pub fn lanes_in_memory(&self) -> usize {
        self.lanes.len()
    }
}

impl Group {
    fn is_at_work(&self, now: Timestamp) -> bool {
        self.open > 0 || !self.level.is_at_rest(now)
    }
}

/// A map that was large gives its memory back. Each time it falls to a quarter, so that it is amortised.
fn shrink<K: Eq + std::hash::Hash, V>(map: &mut std::collections::HashMap<K, V>) {
    if map.capacity() > 1024 + 4 * map.len() {
        map.shrink_to(2 * map.len());
    }
}
