//! From a request to a permit: gates, waiting, and whose turn it is.

use super::learner::Stamp;
use super::level::Gate;
use super::queue::{Place, Waiter};
use super::timers::Wake;
use super::{Action, Fault, Lane, LaneId, Ledger, OutPermit, Stage, group_scope};
use crate::governor::messages::{PermitId, Refused, Ticket, WaitReason};
use crate::governor::quota_store::Use;
use crate::model::Timestamp;

impl Ledger {
    pub(super) fn acquire(
        &mut self,
        ticket: Ticket,
        lane: LaneId,
        priority: u8,
        waiter: Waiter,
        actions: &mut Vec<Action>,
    ) {
        if self.draining {
            return refuse(ticket, Refused::Stopping, actions);
        }
        // A ticket names one request; the first keeps it.
        if !self.is_there(lane) || self.tickets.contains_key(&ticket) {
            return refuse(ticket, Refused::Cancelled, actions);
        }
        let lane = lane.place;
        self.asked(lane);
        if let Some(epoch) = self.calm(lane) {
            return self.grant_at_once(lane, epoch, ticket, actions);
        }
        if let Some(why) = self.too_long(lane, waiter) {
            self.lanes[lane as usize].refused += 1;
            return refuse(ticket, why, actions);
        }
        self.arrivals += 1;
        let mut order = self.arrivals;
        if self.faults.on(Fault::LastComeFirstServed) {
            order = u64::MAX - order;
        }
        let place = Place::new(self.now, priority, order);
        let group = self.lanes[lane as usize].group as usize;
        if self.lanes[lane as usize].queue.is_empty()
            && self.groups[group].ring.is_empty()
            && self.global_open()
            && self.groups[group].level.gate(self.now, self.faults) == Gate::Open
            && self.lane_gate(lane) == Gate::Open
        {
            self.lanes[lane as usize].waits.at_once();
            return self.begin(lane, place, waiter, actions);
        }
        if self.lanes[lane as usize].queue.len() >= self.config.max_waiters {
            self.lanes[lane as usize].refused += 1;
            return refuse(ticket, Refused::QueueFull, actions);
        }
        self.tickets.insert(ticket, (lane, place));
        self.lanes[lane as usize].queue.push(place, waiter);
        self.look_at_lane(lane, actions);
    }

    #[inline]
    fn asked(&mut self, lane: u32) {
        let now = self.now;
        let lane = &mut self.lanes[lane as usize];
        lane.since.get_or_insert(now);
        self.groups[lane.group as usize].used = now;
    }

    /// The epoch of a permit, where a request of the lane leaves as soon as it asks: what most do where limits
    /// are not reached.
    #[inline]
    fn calm(&self, lane: u32) -> Option<u32> {
        let lane = &self.lanes[lane as usize];
        let group = &self.groups[lane.group as usize];
        let open = self.global_open()
            && lane.queue.is_empty()
            && group.ring.is_empty()
            && lane.kin.is_none()
            && lane.level.is_calm(self.now)
            && group.level.is_calm(self.now);
        if open {
            lane.learner.calm(self.now)
        } else {
            None
        }
    }

    /// What [`Ledger::begin`] and [`Ledger::hand_out`] do, for a request that has nothing to wait for.
    #[inline]
    fn grant_at_once(&mut self, id: u32, epoch: u32, ticket: Ticket, actions: &mut Vec<Action>) {
        let now = self.now;
        let permit = PermitId(self.next_permit);
        self.next_permit += 1;
        self.arrivals += 1;
        self.in_flight += 1;
        self.totals.peak = self.totals.peak.max(self.in_flight);
        let lane = &mut self.lanes[id as usize];
        let group = &mut self.groups[lane.group as usize];
        lane.waits.at_once();
        group.open += 1;
        let deadline = now + lane.lease;
        let out = OutPermit {
            lane: id,
            granted: now,
            deadline,
            stamp: Stamp::Fixed(epoch),
            held: None,
            stage: Stage::Out,
            reported: false,
            stored: (false, false),
            lane_sequence: lane.level.grant(now),
            group_sequence: group.level.grant(now),
        };
        self.out.insert(permit, out);
        self.handed_out(id, permit, ticket, deadline, actions);
    }

    /// A permit is out: it is counted, its lease runs, and its holder is told.
    #[inline]
    fn handed_out(
        &mut self,
        id: u32,
        permit: PermitId,
        ticket: Ticket,
        deadline: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        self.totals.granted += 1;
        let lane = &mut self.lanes[id as usize];
        lane.granted += 1;
        let (group, born) = (lane.group, lane.born);
        self.timers.add_lease(deadline, permit);
        actions.push(Action::Grant {
            ticket,
            permit,
            lane: LaneId { place: id, born },
            deadline,
        });
        self.touch_permit(permit);
        self.touch_lane(id);
        self.touch_group(group);
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, actions: &mut Vec<Action>) {
        if let Some((lane, place)) = self.tickets.remove(&ticket) {
            self.lanes[lane as usize].queue.remove(place);
            if self.faults.on(Fault::CancelLosesSlot) {
                self.in_flight += 1;
            }
            refuse(ticket, Refused::Cancelled, actions);
            return;
        }
        let storing = self
            .storing
            .iter()
            .find_map(|(permit, (_, waiter))| (waiter.ticket == ticket).then_some(*permit));
        if let Some(permit) = storing {
            // The use may be on disk already; the slot comes back when the store has answered.
            self.storing.remove(&permit);
            refuse(ticket, Refused::Cancelled, actions);
        }
    }

    /// Whether the global cap lets one more through.
    #[inline]
    pub(super) fn global_open(&self) -> bool {
        !self.draining && self.in_flight < self.config.cap() && self.all_paused() <= self.now
    }

    pub(super) fn all_paused(&self) -> Timestamp {
        self.pauses
            .get(&super::Target::Global)
            .copied()
            .unwrap_or_default()
    }

    pub(super) fn lane_gate(&mut self, id: u32) -> Gate {
        let (now, faults) = (self.now, self.faults);
        let lane = &self.lanes[id as usize];
        if !self.known_loaded || self.needs_load(lane) {
            return Gate::Wait(WaitReason::Quota);
        }
        match lane.level.gate(now, faults) {
            Gate::Open => {
                let (learner, in_flight) = self.learner_mut(id);
                learner.gate(now, in_flight, faults)
            }
            closed => closed,
        }
    }

    /// Whether a lane waits for what earlier processes stored.
    fn needs_load(&self, lane: &Lane) -> bool {
        let group = &self.groups[lane.group as usize].level;
        !self.loaded && (lane.level.stored() || group.stored())
    }

    /// The latest of all times that have to pass before a request of the lane.
    pub(super) fn lane_time(&self, lane: u32) -> Option<(Timestamp, WaitReason)> {
        let learner = self.learner(lane);
        let lane = &self.lanes[lane as usize];
        let all = self.all_paused();
        [
            learner.time_gate(self.now),
            lane.level.time_gate(self.now),
            self.groups[lane.group as usize].level.time_gate(self.now),
            (all > self.now).then_some((all, WaitReason::Paused)),
        ]
        .into_iter()
        .flatten()
        .max_by_key(|(at, _)| *at)
    }

    fn too_long(&self, lane: u32, waiter: Waiter) -> Option<Refused> {
        let (at, why) = self.lane_time(lane)?;
        (at.since(self.now) > waiter.patience).then(|| self.later(at, why))
    }

    fn later(&self, at: Timestamp, why: WaitReason) -> Refused {
        if at == Timestamp::MAX && why == WaitReason::Paused {
            return Refused::Paused;
        }
        Refused::Later {
            wait: at.since(self.now),
            why,
        }
    }

    /// Sends away those who will not wait for what the lane has to wait for.
    pub(super) fn send_impatient_away(&mut self, lane: u32, actions: &mut Vec<Action>) {
        let Some((at, why)) = self.lane_time(lane) else {
            return;
        };
        let wait = at.since(self.now);
        for waiter in self.lanes[lane as usize].queue.impatient(wait) {
            self.lanes[lane as usize].refused += 1;
            self.tickets.remove(&waiter.ticket);
            refuse(waiter.ticket, self.later(at, why), actions);
        }
    }

    /// Something happened to a lane: is it ready, and if not, when is it to be looked at again?
    pub(super) fn look_at_lane(&mut self, id: u32, actions: &mut Vec<Action>) {
        if self.lanes[id as usize].queue.is_empty() {
            return;
        }
        self.send_impatient_away(id, actions);
        if !self.load_asked && self.needs_load(&self.lanes[id as usize]) {
            self.load_asked = true;
            actions.push(Action::Load);
        }
        if !self.known_asked && !self.known_loaded {
            self.known_asked = true;
            actions.push(Action::LoadLearned);
        }
        let gate = self.lane_gate(id);
        let lane = &mut self.lanes[id as usize];
        if lane.queue.is_empty() {
            return;
        }
        match gate {
            Gate::Open => {
                let group = lane.group;
                if !lane.in_ring {
                    lane.in_ring = true;
                    self.groups[group as usize].ring.push_back(id);
                }
                self.look_at_group(group);
            }
            Gate::At(at, _) => {
                if at < lane.wake {
                    lane.wake = at;
                    self.timers.add_gate(at, Wake::Lane(id));
                }
            }
            Gate::Wait(_) => {}
        }
    }

    /// The same for a group.
    #[inline]
    pub(super) fn look_at_group(&mut self, id: u32) {
        let group = &mut self.groups[id as usize];
        if group.ring.is_empty() {
            self.claims.leave(&mut group.share);
            return;
        }
        match group.level.gate(self.now, self.faults) {
            Gate::Open => {
                let in_flight = group.level.in_flight;
                self.claims.enter(id, &mut group.share, in_flight);
            }
            closed => {
                self.claims.leave(&mut group.share);
                if let Gate::At(at, _) = closed
                    && at < group.wake
                {
                    group.wake = at;
                    self.timers.add_gate(at, Wake::Group(id));
                }
            }
        }
    }

    /// Grants while there is a slot and somebody who may use it.
    pub(super) fn pump(&mut self, actions: &mut Vec<Action>) {
        while !self.claims.is_empty() && self.global_open() {
            let Some(id) = self.claims.first() else {
                return;
            };
            self.claims.leave(&mut self.groups[id as usize].share);
            let Some(lane) = self.next_lane(id, actions) else {
                continue;
            };
            if self.groups[id as usize].level.gate(self.now, self.faults) != Gate::Open {
                self.groups[id as usize].ring.push_front(lane);
                self.look_at_group(id);
                continue;
            }
            self.claims.served(&self.groups[id as usize].share);
            let place = &mut self.lanes[lane as usize];
            place.in_ring = false;
            if let Some((place, waiter)) = place.queue.pop() {
                self.tickets.remove(&waiter.ticket);
                self.lanes[lane as usize]
                    .waits
                    .after(self.now.since(waiter.asked));
                self.begin(lane, place, waiter, actions);
            }
            self.look_at_lane(lane, actions);
            self.look_at_group(id);
        }
    }

    /// The first lane of the group's ring that is ready indeed; those that are not leave the ring.
    fn next_lane(&mut self, group: u32, actions: &mut Vec<Action>) -> Option<u32> {
        while let Some(id) = self.groups[group as usize].ring.pop_front() {
            if !self.lanes[id as usize].queue.is_empty() && self.lane_gate(id) == Gate::Open {
                return Some(id);
            }
            self.lanes[id as usize].in_ring = false;
            self.look_at_lane(id, actions);
        }
        None
    }

    /// Takes slots and tokens for a request whose gates are all open.
    fn begin(&mut self, lane_id: u32, place: Place, waiter: Waiter, actions: &mut Vec<Action>) {
        let permit = PermitId(self.next_permit);
        self.next_permit += 1;
        self.in_flight += 1;
        self.totals.peak = self.totals.peak.max(self.in_flight);
        let stamp = self.stamp(lane_id, permit);
        let lane = &mut self.lanes[lane_id as usize];
        let group = &mut self.groups[lane.group as usize];
        lane.level.reserve();
        group.level.reserve();
        let stored = match self.config.store_uses {
            true => (lane.level.stored(), group.level.stored()),
            false => (false, false),
        };
        let out = OutPermit {
            lane: lane_id,
            granted: self.now,
            deadline: Timestamp::MAX,
            stamp,
            held: None,
            stage: Stage::Storing,
            reported: false,
            stored,
            lane_sequence: 0,
            group_sequence: 0,
        };
        self.enter(permit, out);
        if stored == (false, false) {
            return self.hand_out(permit, waiter.ticket, actions);
        }
        let lane = &self.lanes[lane_id as usize];
        let group_id = lane.group;
        let group = &self.groups[group_id as usize];
        let mut uses = Vec::with_capacity(2);
        if stored.1 {
            uses.push(Use {
                scope: group_scope(&group.site, group.host.as_ref()),
                keep: group.level.keep(),
            });
        }
        if stored.0 {
            uses.push(Use {
                scope: lane.key.to_string(),
                keep: lane.level.keep(),
            });
        }
        self.storing.insert(permit, (place, waiter));
        self.touch_lane(lane_id);
        self.touch_group(group_id);
        actions.push(Action::Store { permit, uses });
    }

    /// The request leaves now: tokens are dated, the lease begins.
    pub(super) fn hand_out(&mut self, permit: PermitId, ticket: Ticket, actions: &mut Vec<Action>) {
        let now = self.now;
        let Some(out) = self.out.get_mut(&permit) else {
            return;
        };
        let lane = &mut self.lanes[out.lane as usize];
        let group = &mut self.groups[lane.group as usize];
        out.lane_sequence = lane.level.commit(now, self.faults);
        out.group_sequence = group.level.commit(now, self.faults);
        out.stage = Stage::Out;
        out.granted = now;
        out.deadline = now + lane.lease;
        let (id, deadline) = (out.lane, out.deadline);
        self.handed_out(id, permit, ticket, deadline, actions);
        self.after_use(id, actions);
    }

    /// A quota may be used up now: those who wait for the group have to know.
    fn after_use(&mut self, lane: u32, actions: &mut Vec<Action>) {
        let group = self.lanes[lane as usize].group as usize;
        if self.groups[group].level.has_quota() {
            self.send_group_away(group, actions);
        } else if self.lanes[lane as usize].level.has_quota() {
            self.send_impatient_away(lane, actions);
        }
    }

    pub(super) fn send_group_away(&mut self, group: usize, actions: &mut Vec<Action>) {
        for place in 0..self.groups[group].lanes.len() {
            let lane = self.groups[group].lanes[place];
            self.send_impatient_away(lane, actions);
        }
    }
}

pub(super) fn refuse(ticket: Ticket, why: Refused, actions: &mut Vec<Action>) {
    actions.push(Action::Refuse { ticket, why });
}
