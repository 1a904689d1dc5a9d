//! From a permit back to a free slot, and what its answer teaches.

use std::sync::Arc;
use std::time::Duration;

use super::carry::PermitMemory;
use super::timers::{Wake, due};
use super::{Action, Fault, Ledger, OutPermit, Stage};
use crate::governor::messages::{Hints, LaneKey, PermitId};
use crate::model::{Outcome, Timestamp};

impl Ledger {
    pub(super) fn release(&mut self, permit: PermitId, used: bool, actions: &mut Vec<Action>) {
        // A permit that is unknown, reaped or returned already changes nothing: late and double
        // releases are normal after a timeout or a restart.
        let now = self.now;
        let Some(out) = self.out.get_mut(&permit) else {
            return;
        };
        if out.stage == Stage::Storing
            || (out.stage == Stage::Returned && !self.faults.on(Fault::ReleaseTwice))
        {
            return;
        }
        let lane = out.lane;
        self.totals.released += 1;
        if out.reported {
            // Answered, so it was sent, whatever its holder says; nothing more is awaited.
            self.forget(permit);
        } else if used {
            let until = now + self.config.report_timeout;
            let granted = out.granted;
            out.stage = Stage::Returned;
            out.held = Some(now.since(granted));
            out.deadline = until;
            self.free(lane, granted);
            self.timers.add_report(until, permit);
            self.touch_permit(permit);
        } else {
            let (of_lane, of_group) = (out.lane_sequence, out.group_sequence);
            let lane = &mut self.lanes[lane as usize];
            lane.level.unused(of_lane);
            self.groups[lane.group as usize].level.unused(of_group);
            self.forget(permit);
        }
        self.look_at_lane_and_group(lane, actions);
        if self.timers.has_leftovers(self.out.len()) {
            self.tidy();
        }
    }

    pub(super) fn report(
        &mut self,
        permit: PermitId,
        outcome: Outcome,
        hints: Hints,
        actions: &mut Vec<Action>,
    ) {
        let Some(out) = self.out.get(&permit).copied() else {
            return;
        };
        // A report is heard once: one that comes before its release is not repeated by the one after.
        if out.stage == Stage::Storing || out.reported {
            return;
        }
        self.lanes[out.lane as usize].outcomes[outcome as usize] += 1;
        self.learn(out.lane, permit, &out, outcome, hints, actions);
        self.note_news(out.lane);
        if out.stage == Stage::Returned {
            self.discard(permit, out.lane);
        } else if let Some(out) = self.out.get_mut(&permit) {
            out.reported = true;
        }
        self.touch_permit(permit);
        self.touch_lane(out.lane);
        self.look_at_lane_and_group(out.lane, actions);
    }

    /// The lane of a permit that is out, and for how long it has been.
    #[must_use]
    pub fn held(&self, permit: PermitId, now: Timestamp) -> Option<(&Arc<LaneKey>, Duration)> {
        let out = self.out.get(&permit)?;
        let lane = &self.lanes[out.lane as usize];
        (out.stage == Stage::Out).then(|| (&lane.key, now.since(out.granted)))
    }

    /// Frees the slots of a permit.
    #[inline]
    fn free(&mut self, lane: u32, granted: Timestamp) {
        if self.faults.on(Fault::ReleaseForgotten) {
            return;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        let held = self.now.since(granted);
        let lane = &mut self.lanes[lane as usize];
        lane.level.free();
        lane.busy += held;
        let group = &mut self.groups[lane.group as usize];
        group.level.free();
        group.share.charge(held);
    }

    /// A permit ends without a report to come.
    pub(super) fn forget(&mut self, permit: PermitId) {
        let Some(out) = self.out.get(&permit) else {
            return;
        };
        // Copied field by field: this is half of what a release costs.
        let (lane, granted, stage, stamp) = (out.lane, out.granted, out.stage, out.stamp);
        self.discard(permit, lane);
        if stage != Stage::Returned {
            self.free(lane, granted);
        }
        let now = self.now;
        self.learner_mut(lane).0.lost(permit, stamp, now);
        self.touch_permit(permit);
        self.touch_lane(lane);
    }

    pub(super) fn look_at_lane_and_group(&mut self, lane: u32, actions: &mut Vec<Action>) {
        self.look_at_kin(lane, actions);
        self.look_at_group(self.lanes[lane as usize].group);
    }

    /// What is due by now happens first, so that the state depends on the time and not on the ticks.
    pub(super) fn pass_time(&mut self, actions: &mut Vec<Action>) {
        while let Some(permit) = due(&mut self.timers.leases, self.now) {
            let Some(out) = self.out.get(&permit).copied() else {
                continue;
            };
            if out.stage == Stage::Out {
                self.totals.reaped += 1;
                self.forget(permit);
                self.look_at_lane_and_group(out.lane, actions);
            }
        }
        while let Some(permit) = due(&mut self.timers.reports, self.now) {
            if let Some(out) = self.out.get(&permit).copied() {
                self.forget(permit);
                self.look_at_lane_and_group(out.lane, actions);
            }
        }
        while let Some((at, wake)) = self.timers.due_gate(self.now) {
            match wake {
                Wake::Lane(id) if self.wakes_lane(id, at) => {
                    self.lanes[id as usize].wake = Timestamp::MAX;
                    self.look_at_kin(id, actions);
                }
                Wake::Group(id) if self.wakes_group(id, at) => {
                    self.groups[id as usize].wake = Timestamp::MAX;
                    self.look_at_group(id);
                }
                // Overtaken by an earlier one, or the end of a global pause: `pump` follows anyway.
                _ => {}
            }
        }
        self.timers.all_done();
    }

    /// Whether a lane is to be looked at then, and has not been dropped.
    fn wakes_lane(&self, id: u32, at: Timestamp) -> bool {
        self.lanes.get(id).is_some_and(|lane| lane.wake == at)
    }

    fn wakes_group(&self, id: u32, at: Timestamp) -> bool {
        self.groups.get(id).is_some_and(|group| group.wake == at)
    }

    /// When [`Msg::Tick`](super::Msg::Tick) is next of use; `None` when only a message can change anything.
    pub fn next_wake(&mut self) -> Option<Timestamp> {
        self.tidy();
        while let Some(std::cmp::Reverse((at, wake))) = self.timers.gates.peek().copied() {
            let live = match wake {
                Wake::Lane(id) => self.wakes_lane(id, at),
                Wake::Group(id) => self.wakes_group(id, at),
                Wake::All => self.all_paused() == at,
            };
            if live {
                break;
            }
            self.timers.gates.pop();
        }
        let gate = self.timers.gates.peek().map(|entry| entry.0.0);
        let lease = self.timers.leases.front().map(|entry| entry.0);
        let report = self.timers.reports.front().map(|entry| entry.0);
        [gate, lease, report].into_iter().flatten().min()
    }

    /// Drops the entries of permits that ended in time, so that the queues hold little else than live ones.
    fn tidy(&mut self) {
        let out = &self.out;
        let is_out = |permit: &PermitId| out.get(permit).is_some_and(|p| p.stage == Stage::Out);
        let leases = &mut self.timers.leases;
        while leases.front().is_some_and(|(_, permit)| !is_out(permit)) {
            leases.pop_front();
        }
        let reports = &mut self.timers.reports;
        while reports
            .front()
            .is_some_and(|(_, permit)| !out.contains_key(permit))
        {
            reports.pop_front();
        }
        if self.timers.has_leftovers(out.len()) {
            self.timers.leases.retain(|(_, permit)| is_out(permit));
            let reports = &mut self.timers.reports;
            reports.retain(|(_, permit)| out.contains_key(permit));
        }
    }

    /// A permit of an earlier ledger goes on counting.
    pub(super) fn adopt(&mut self, permit: PermitId, memory: PermitMemory) {
        let Some(lane) = self.lanes.get_mut(memory.lane) else {
            return;
        };
        // None may be longer than one that begins now.
        let lease = memory.deadline.min(self.now + lane.lease);
        let report = self.now + self.config.report_timeout;
        let (stage, deadline) = match (memory.returned, memory.heard) {
            (false, _) => (Stage::Out, lease),
            (true, false) => (Stage::Returned, report),
            (true, true) => (Stage::Returned, report.min(memory.deadline)),
        };
        if stage == Stage::Out {
            self.timers.add_lease(deadline, permit);
            self.in_flight += 1;
            lane.level.adopt();
            self.groups[lane.group as usize].level.adopt();
        } else {
            self.timers.add_report(deadline, permit);
            self.totals.released += u64::from(!memory.heard);
        }
        self.enter(
            permit,
            OutPermit {
                lane: memory.lane,
                granted: memory.granted,
                deadline,
                stamp: memory.stamp,
                held: None,
                stage,
                reported: memory.reported,
                stored: (false, false),
                lane_sequence: 0,
                group_sequence: 0,
            },
        );
    }
}
