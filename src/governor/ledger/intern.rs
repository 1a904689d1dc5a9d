//! Lanes and their groups are made when they are first asked for, of what is known of them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::kin::Trace;
use super::level::{Level, LevelMemory};
use super::queue::Queue;
use super::share::Share;
use super::waits::Waits;
use super::{Group, Lane, Ledger, group_scope};
use crate::governor::messages::{LaneKey, Target};
use crate::model::{Name, Timestamp};
use crate::settings::LimitSettings;

impl Ledger {
    /// A lane that is not there yet.
    pub(super) fn intern(&mut self, key: &Arc<LaneKey>) -> u32 {
        let group = self.intern_group(key);
        let resting = &mut self.groups[group as usize].resting;
        let rest = resting
            .iter()
            .position(|rest| rest.endpoint == key.endpoint)
            .map(|place| resting.swap_remove(place));
        let level = rest.as_ref().map(|rest| rest.level).unwrap_or_default();
        let mut lane = self.new_lane(key.clone(), group, level);
        if let Some(rest) = rest {
            self.touch_group(group);
            rest.wake(&mut lane, self.config.manner(key), self.now);
        }
        let number = self.lanes.insert(lane);
        self.groups[group as usize].lanes.push(number);
        self.lane_ids.insert(key.clone(), number);
        self.touch_lane(number);
        number
    }

    pub(super) fn new_lane(&mut self, key: Arc<LaneKey>, group: u32, memory: LevelMemory) -> Lane {
        let limits = self.config.endpoint(&key);
        let scope = key.to_string();
        let mut level = self.new_level(&limits, memory, &scope);
        let target = Target::Endpoint(key.site.clone(), key.endpoint.clone());
        level.paused = self.pauses.get(&target).copied().unwrap_or_default();
        let known = self.known.remove(&scope);
        let learner = self.new_learner(&key, known);
        self.born = self.born.wrapping_add(1);
        Lane {
            lease: self.config.lease(&key),
            key,
            born: self.born,
            group,
            level,
            learner,
            kin: None,
            trace: Trace::default(),
            queue: Queue::default(),
            in_ring: false,
            wake: Timestamp::MAX,
            dirty: false,
            news: false,
            granted: 0,
            refused: 0,
            outcomes: [0; 19],
            waits: Waits::default(),
            busy: Duration::ZERO,
            since: None,
        }
    }

    fn intern_group(&mut self, key: &LaneKey) -> u32 {
        let name = (key.site.clone(), key.host.clone());
        if let Some(id) = self.group_ids.get(&name) {
            return *id;
        }
        let rest = self.attic.take(&name);
        if rest.is_some() && self.dirty.tracked {
            self.dirty.attic.push(name.clone());
        }
        let rest = rest.unwrap_or_default();
        let mut group = self.new_group(&name, rest.level);
        group.share.resume(rest.service);
        group.resting = rest.lanes;
        let id = self.groups.insert(group);
        self.group_ids.insert(name, id);
        self.round.enter(id);
        self.touch_group(id);
        id
    }

    pub(super) fn new_group(&mut self, name: &(Name, Option<Name>), memory: LevelMemory) -> Group {
        let (site, host) = name.clone();
        let limits = self.config.site(&site).clone();
        let mut level = self.new_level(&limits, memory, &group_scope(&site, host.as_ref()));
        let target = Target::Site(site.clone());
        level.paused = self.pauses.get(&target).copied().unwrap_or_default();
        Group {
            level,
            share: Share::new(self.config.weight(&site)),
            site,
            host,
            lanes: Vec::new(),
            ring: VecDeque::new(),
            wake: Timestamp::MAX,
            dirty: false,
            open: 0,
            used: self.now,
            resting: Vec::new(),
        }
    }

    fn new_level(&mut self, limits: &LimitSettings, memory: LevelMemory, scope: &str) -> Level {
        // What an earlier process sent just before this one started is unknown where it is not stored:
        // the first request waits until a whole interval has passed since the start.
        let interval = limits.rate.map(|rate| rate.interval()).unwrap_or_default();
        let start = self.now.max(self.started + interval);
        let mut level = Level::new(limits, start, memory);
        if self.loaded {
            let uses = self.history.remove(scope).unwrap_or_default();
            if memory.recalled {
                // Its pace knows its own; these are of others, who used it while it was not there.
                uses.into_iter().for_each(|at| level.foreign(at));
            } else {
                level.recall(uses);
            }
        }
        level
    }
}
