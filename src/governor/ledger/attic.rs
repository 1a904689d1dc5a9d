//! What is remembered of groups that were dropped: little, and of a bounded number.
//!
//! Nothing here holds a request back any more: a group with a bound in the future is not dropped. It serves to
//! go on where the group stopped, not to keep a limit.

use std::collections::{HashMap, VecDeque};

use super::Lane;
use super::adapt::Learned;
use super::backoff::Backoff;
use super::learner::{Learner, Manner};
use super::level::LevelMemory;
use crate::model::{Name, Timestamp};

/// Groups that have learned something are remembered up to this number, and as many of the others: so that a
/// crowd of hosts that refuse nothing does not push out the few that do. About half a kilobyte each.
const ROOM: usize = 4096;

/// Site and host.
pub(super) type GroupName = (Name, Option<Name>);

/// A lane that was dropped.
#[derive(Clone, Debug)]
pub(crate) struct LaneRest {
    pub(super) endpoint: Name,
    pub(super) level: LevelMemory,
    learner: Kept,
}

#[derive(Clone, Debug)]
enum Kept {
    Fixed(Backoff),
    /// In real time, as for the next run.
    Adaptive(Learned),
}

/// A group that was dropped, with its lanes.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupRest {
    pub(super) level: LevelMemory,
    pub(super) service: u64,
    pub(super) lanes: Vec<LaneRest>,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Attic {
    groups: HashMap<GroupName, (u64, GroupRest)>,
    /// In the order they came, those that have learned something apart; with a number that tells whether the
    /// entry is still the one.
    rooms: [VecDeque<(u64, GroupName)>; 2],
    count: u64,
}

impl LaneRest {
    /// What is kept of a lane; `learner`: its own, or the one it shares.
    pub(super) fn of(lane: &Lane, learner: &Learner) -> Self {
        Self {
            endpoint: lane.key.endpoint.clone(),
            level: lane.level.memory(),
            learner: match learner {
                Learner::Fixed(backoff) => Kept::Fixed(backoff.clone()),
                Learner::Adaptive(adapt, scale) => {
                    Kept::Adaptive(scale.real_learned(adapt.learned()))
                }
            },
        }
    }

    /// A new lane goes on where this one stopped.
    pub(super) fn wake(self, lane: &mut Lane, manner: Manner, now: Timestamp) {
        let kept = match self.learner {
            Kept::Fixed(backoff) => Learner::Fixed(backoff),
            Kept::Adaptive(learned) => Learner::new(manner, Some(&learned), now),
        };
        // It may be told to learn in another way meanwhile.
        if kept.is_of(manner) {
            lane.learner = kept;
        }
    }

    fn is_worth(&self) -> bool {
        match &self.learner {
            Kept::Fixed(backoff) => backoff.is_marked(),
            Kept::Adaptive(learned) => learned.met,
        }
    }
}

impl Attic {
    pub(super) fn put(&mut self, name: GroupName, rest: GroupRest) {
        let met = rest.level.ceiling.is_some() || rest.lanes.iter().any(LaneRest::is_worth);
        let room = usize::from(met);
        self.count += 1;
        self.rooms[room].push_back((self.count, name.clone()));
        self.groups.insert(name, (self.count, rest));
        while self.rooms[room].len() > ROOM {
            let oldest = self.rooms[room].pop_front();
            if let Some((number, name)) = oldest
                && self
                    .groups
                    .get(&name)
                    .is_some_and(|(own, _)| *own == number)
            {
                self.groups.remove(&name);
            }
        }
    }

    pub(super) fn take(&mut self, name: &GroupName) -> Option<GroupRest> {
        self.groups.remove(name).map(|(_, rest)| rest)
    }

    pub(super) fn get(&self, name: &GroupName) -> Option<&GroupRest> {
        self.groups.get(name).map(|(_, rest)| rest)
    }
}
