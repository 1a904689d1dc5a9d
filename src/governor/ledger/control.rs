//! What people tell a ledger: new limits, pauses, the end.

use std::time::Duration;

use super::grant::refuse;
use super::timers::Wake;
use super::{Action, LaneId, Ledger};
use crate::governor::messages::{Refused, Target};
use crate::model::Timestamp;
use crate::settings::LimitSettings;

impl Ledger {
    pub(super) fn retune(
        &mut self,
        target: &Target,
        limits: &LimitSettings,
        actions: &mut Vec<Action>,
    ) {
        self.config.retune(target, limits);
        self.dirty.config = true;
        let (now, faults) = (self.now, self.faults);
        for id in self.groups_of(target) {
            if matches!(target, Target::Site(_)) {
                self.groups[id as usize].level.retune(limits, now, faults);
                self.touch_group(id);
            }
        }
        for id in self.lanes_of(target) {
            if matches!(target, Target::Endpoint(..)) {
                self.lanes[id as usize].level.retune(limits, now, faults);
            }
            let lane = &mut self.lanes[id as usize];
            lane.lease = self.config.lease(&lane.key);
            self.turn(id);
        }
        self.look_at_target(target, actions);
    }

    /// The host of `lane` is asked at most once per `interval`, whatever its limits allow. Said again, it changes
    /// nothing; a new interval gives no request that the old one would not.
    pub(super) fn ceiling(&mut self, lane: LaneId, interval: Option<Duration>) {
        if !self.is_there(lane) {
            return;
        }
        let lane = &self.lanes[lane.place as usize];
        let group = lane.group;
        let limits = self.config.site(&lane.key.site);
        let level = &mut self.groups[group as usize].level;
        if level.set_ceiling(interval, limits, self.now, self.faults) {
            self.touch_group(group);
            self.look_at_group(group);
        }
    }

    pub(super) fn pause(&mut self, target: &Target, until: Timestamp, actions: &mut Vec<Action>) {
        self.pauses.insert(target.clone(), until);
        self.set_pause(target, until);
        if *target == Target::Global && until < Timestamp::MAX {
            self.timers.add_gate(until, Wake::All);
        }
        self.look_at_target(target, actions);
    }

    pub(super) fn resume(&mut self, target: &Target, actions: &mut Vec<Action>) {
        if self.pauses.remove(target).is_some() {
            self.set_pause(target, Timestamp::ZERO);
            self.look_at_target(target, actions);
        }
    }

    fn set_pause(&mut self, target: &Target, until: Timestamp) {
        self.dirty.config = true;
        match target {
            Target::Global => {}
            Target::Site(_) => {
                for id in self.groups_of(target) {
                    self.groups[id as usize].level.paused = until;
                }
            }
            Target::Endpoint(..) => {
                for id in self.lanes_of(target) {
                    self.lanes[id as usize].level.paused = until;
                }
            }
        }
    }

    /// Refuses all who wait; what is in flight goes on.
    pub(super) fn drain(&mut self, actions: &mut Vec<Action>) {
        self.draining = true;
        self.dirty.config = true;
        for lane in self.lanes.values_mut() {
            for waiter in lane.queue.clear() {
                refuse(waiter.ticket, Refused::Stopping, actions);
            }
        }
        self.tickets.clear();
    }

    fn groups_of(&self, target: &Target) -> Vec<u32> {
        let site = match target {
            Target::Global => None,
            Target::Site(site) | Target::Endpoint(site, _) => Some(site),
        };
        let groups = self.groups.iter();
        groups
            .filter(|(_, group)| site.is_none_or(|site| group.site == *site))
            .map(|(id, _)| id)
            .collect()
    }

    fn lanes_of(&self, target: &Target) -> Vec<u32> {
        let groups = self.groups_of(target);
        let lanes = groups
            .iter()
            .flat_map(|id| self.groups[*id as usize].lanes.iter());
        lanes
            .copied()
            .filter(|lane| match target {
                Target::Endpoint(_, endpoint) => {
                    self.lanes[*lane as usize].key.endpoint == *endpoint
                }
                _ => true,
            })
            .collect()
    }

    pub(super) fn look_at_target(&mut self, target: &Target, actions: &mut Vec<Action>) {
        for lane in self.lanes_of(target) {
            self.look_at_lane(lane, actions);
        }
        for group in self.groups_of(target) {
            self.look_at_group(group);
        }
    }
}
