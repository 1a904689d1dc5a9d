//! The conversation with the quota store: what earlier processes used, and what became of a use.

use std::time::Duration;

use super::grant::refuse;
use super::learner::Stamp;
use super::{Action, Ledger, Stage, group_scope};
use crate::governor::messages::{LaneKey, PermitId, Refused, Target};
use crate::model::{Name, Timestamp};

impl Ledger {
    pub(super) fn use_stored(&mut self, permit: PermitId, actions: &mut Vec<Action>) {
        let Some(out) = self.out.get(&permit) else {
            return;
        };
        if out.stage != Stage::Storing {
            return;
        }
        let (lane, stamp, stored) = (out.lane, out.stamp, out.stored);
        let waiting = self.storing.get(&permit).map(|(_, waiter)| waiter.ticket);
        match waiting {
            Some(ticket) if self.covered(lane, stored) && self.still_open(lane, permit, stamp) => {
                self.storing.remove(&permit);
                self.hand_out(permit, ticket, actions);
                self.look_at_lane_and_group(lane, actions);
            }
            // Limits fell, a pause began, or nobody wants it any more. Nothing is sent; that the use is
            // on disk errs on the safe side.
            _ => self.take_back(permit, actions),
        }
    }

    /// Whether all is stored that has to be: new limits may ask for more than those it was decided under.
    fn covered(&self, lane: u32, (of_lane, of_group): (bool, bool)) -> bool {
        let lane = &self.lanes[lane as usize];
        let group = &self.groups[lane.group as usize];
        (of_lane || !lane.level.stored()) && (of_group || !group.level.stored())
    }

    /// Whether a permit decided earlier would be decided again now.
    fn still_open(&mut self, id: u32, permit: PermitId, stamp: Stamp) -> bool {
        let (now, faults) = (self.now, self.faults);
        let mut open = self.learner(id).still_open(permit, stamp, now);
        let lane = &mut self.lanes[id as usize];
        let group = &mut self.groups[lane.group as usize];
        for level in [&mut lane.level, &mut group.level] {
            open &= level.would_open(now, faults);
        }
        let global = self.in_flight <= self.config.cap() && self.all_paused() <= now;
        open && global && !self.draining
    }

    pub(super) fn use_behind(
        &mut self,
        permit: PermitId,
        uses: Vec<(String, Timestamp)>,
        actions: &mut Vec<Action>,
    ) {
        self.foreign_uses(&uses);
        self.take_back(permit, actions);
    }

    pub(super) fn use_failed(
        &mut self,
        permit: PermitId,
        wait: Duration,
        actions: &mut Vec<Action>,
    ) {
        if let Some(out) = self.out.get(&permit)
            && out.stage == Stage::Storing
        {
            let until = self.now + wait;
            let lane = &mut self.lanes[out.lane as usize];
            let group = &mut self.groups[lane.group as usize];
            // The gate of the level that has to be stored; if both have, either will do.
            if group.level.stored() {
                group.level.block(until);
            } else {
                lane.level.block(until);
            }
            let group = lane.group;
            self.take_back(permit, actions);
            self.send_group_away(group as usize, actions);
        }
    }

    /// A decided permit is not handed out: its waiter goes back to its place.
    fn take_back(&mut self, permit: PermitId, actions: &mut Vec<Action>) {
        let Some(out) = self.out.get(&permit) else {
            return;
        };
        if out.stage != Stage::Storing {
            return;
        }
        let id = out.lane;
        let waiting = self.storing.remove(&permit);
        let lane = &mut self.lanes[id as usize];
        lane.level.abort();
        self.groups[lane.group as usize].level.abort();
        self.forget(permit);
        match waiting {
            Some((_, waiter)) if self.draining => refuse(waiter.ticket, Refused::Stopping, actions),
            Some((place, waiter)) => {
                self.tickets.insert(waiter.ticket, (id, place));
                self.lanes[id as usize].queue.push(place, waiter);
            }
            None => {}
        }
        self.look_at_lane_and_group(id, actions);
    }

    pub(super) fn uses_loaded(
        &mut self,
        uses: Vec<(String, Timestamp)>,
        actions: &mut Vec<Action>,
    ) {
        if self.loaded {
            return;
        }
        self.loaded = true;
        for (scope, at) in uses {
            self.history
                .entry(scope)
                .or_default()
                .push(at.min(self.now));
        }
        for uses in self.history.values_mut() {
            // A pace replays them in order.
            uses.sort_unstable();
        }
        for group in self.groups.values_mut() {
            let scope = group_scope(&group.site, group.host.as_ref());
            group
                .level
                .recall(self.history.remove(&scope).unwrap_or_default());
        }
        for lane in self.lanes.values_mut() {
            let scope = lane.key.to_string();
            lane.level
                .recall(self.history.remove(&scope).unwrap_or_default());
        }
        // A successor must not count them again, nor forget them.
        self.touch_all();
        self.look_at_target(&Target::Global, actions);
    }

    /// Uses of processes beside this one.
    pub(super) fn foreign_uses(&mut self, uses: &[(String, Timestamp)]) {
        for (scope, at) in uses {
            let at = (*at).min(self.now);
            if let Some(lane) = self.lane_of_scope(scope) {
                self.lanes[lane as usize].level.foreign(at);
            } else if let Some(group) = self.group_of_scope(scope) {
                self.groups[group as usize].level.foreign(at);
            } else {
                self.history.entry(scope.clone()).or_default().push(at);
            }
        }
    }

    /// The lane of `site/endpoint` or `site@host/endpoint`, if it is there.
    pub(super) fn lane_of_scope(&self, scope: &str) -> Option<u32> {
        // No part of a name has a slash, but where names are those of a program of its own: all splits are tried.
        scope.match_indices('/').find_map(|(place, _)| {
            let endpoint = scope.get(place + 1..)?;
            group_names(scope.get(..place)?).find_map(|(site, host)| {
                let key = LaneKey {
                    site,
                    host,
                    endpoint: Name::from(endpoint),
                };
                self.lane_ids.get(&key).copied()
            })
        })
    }

    /// The group of `site` or `site@host`, if it is there.
    fn group_of_scope(&self, scope: &str) -> Option<u32> {
        group_names(scope).find_map(|name| self.group_ids.get(&name).copied())
    }
}

/// What a group of this scope may be called.
fn group_names(scope: &str) -> impl Iterator<Item = (Name, Option<Name>)> + '_ {
    let hosts = scope.match_indices('@').filter_map(|(place, _)| {
        let host = scope.get(place + 1..)?;
        Some((Name::from(scope.get(..place)?), Some(Name::from(host))))
    });
    hosts.chain(std::iter::once((Name::from(scope), None)))
}
