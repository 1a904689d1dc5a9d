//! What is asked of every action, and of the end of a history.

use super::Property;
use super::coverage::Kind;
use super::model::{Held, PhaseModel};
use super::world::{Checked, World};
use crate::governor::ledger::{Action, LaneId, Msg};
use crate::governor::messages::{PermitId, Ticket};
use crate::model::{Outcome, Timestamp};

impl World {
    pub(super) fn see(&mut self, action: Action) -> Checked {
        match action {
            Action::Refuse { ticket, .. } => self.answered(ticket).map(drop),
            // Answered when the history says so, be it before it was asked.
            Action::Load | Action::LoadLearned | Action::KeepLearned => Ok(()),
            Action::Store { permit, uses } => {
                let scopes = uses.into_iter().map(|used| used.scope).collect();
                self.storing.push_back((permit, scopes));
                Ok(())
            }
            Action::Grant {
                ticket,
                permit,
                lane,
                deadline,
            } => self.granted(ticket, permit, lane, deadline),
        }
    }

    /// Whether the ticket was the first of its lane.
    fn answered(&mut self, ticket: Ticket) -> Result<bool, String> {
        let Some((lane, due)) = self.waiting.remove(&ticket) else {
            let what = || format!("{ticket:?} is answered and did not wait");
            return self.check(Property::OneAnswer, false, what).map(|()| false);
        };
        let waiting = &mut self.lanes[lane].waiting;
        let first = waiting.first_key_value().is_some_and(|(at, _)| *at == due);
        waiting.remove(&due);
        Ok(first)
    }

    fn granted(
        &mut self,
        ticket: Ticket,
        permit: PermitId,
        id: LaneId,
        deadline: Timestamp,
    ) -> Checked {
        let first = self.answered(ticket)?;
        let key = self.ledger.key(id).clone();
        let Some(id) = self.keys.iter().position(|own| *own == key) else {
            return Err(format!("{key} is granted and was never asked for"));
        };
        // A use that is stored puts the order of decisions before that of grants.
        self.check(Property::Order, first || !self.plain, || {
            format!("{ticket:?} was not the first of its lane")
        })?;
        let fresh = self.first_time(permit);
        self.check(Property::OneAnswer, fresh, || {
            format!("{permit:?} is given twice")
        })?;
        let lease = deadline == self.now + self.config.permit_lease;
        self.check(Property::OneAnswer, lease, || {
            format!("{permit:?} ends at {deadline:?}")
        })?;
        self.granted += 1;
        let lane = &self.lanes[id];
        let held = Held {
            lane: id,
            deadline,
            epoch: lane.epoch,
            released: None,
            reported: false,
        };
        self.out.add(id, lane.group);
        self.next_end = self.next_end.min(deadline);
        self.held.insert(permit, held);
        self.check_times(permit, id)?;
        self.check_caps(id)
    }

    fn first_time(&mut self, permit: PermitId) -> bool {
        let number = usize::try_from(permit.0).expect("small");
        if self.seen.len() <= number {
            self.seen.resize(number + 1, false);
        }
        !std::mem::replace(&mut self.seen[number], true)
    }

    /// Back-off, not-before, pauses and quotas, at a grant.
    fn check_times(&mut self, permit: PermitId, id: usize) -> Checked {
        let now = self.now;
        let lane = &mut self.lanes[id];
        let group = lane.group;
        let phase = lane.phase;
        lane.level.send(permit, now);
        self.groups[group].send(permit, now);
        let fits = match phase {
            PhaseModel::Open => true,
            PhaseModel::Closed(until) => now >= until,
            PhaseModel::Probing(_) => false,
        };
        if phase != PhaseModel::Open {
            lane.phase = PhaseModel::Probing(permit);
        }
        let earliest = lane.not_before.max(lane.paused);
        self.check(Property::Backoff, fits, || {
            format!("{permit:?} granted while {phase:?}")
        })?;
        self.check(Property::Windows, now >= earliest, || {
            format!("{permit:?} granted before {earliest:?}")
        })?;
        for level in [&self.lanes[id].level, &self.groups[group]] {
            let quota = level.check_quota(now);
            self.check(Property::Windows, quota.is_ok(), || format!("{quota:?}"))?;
        }
        Ok(())
    }

    fn check_caps(&self, id: usize) -> Checked {
        let lane = &self.lanes[id];
        let group = &self.groups[lane.group];
        let levels = [
            ("global", self.out.all, Some(self.cap)),
            (
                "group",
                self.out.groups[lane.group],
                group.limits.max_concurrency_num,
            ),
            (
                "lane",
                self.out.lanes[id],
                lane.level.limits.max_concurrency_num,
            ),
        ];
        for (level, out, cap) in levels {
            let holds = cap.is_none_or(|cap| out <= cap as usize);
            self.check(Property::Caps, holds, || {
                format!("{level}: {out} out, cap {cap:?}")
            })?;
        }
        Ok(())
    }

    pub(super) fn compare_snapshot(&mut self) -> Checked {
        self.handle(Msg::Tick)?;
        let seen = self.ledger.snapshot(self.now);
        let mine = (self.granted, self.released, self.reaped);
        let theirs = (seen.granted, seen.released, seen.reaped);
        self.check(Property::Conservation, mine == theirs, || {
            format!("granted, released, reaped: {mine:?}, snapshot {theirs:?}")
        })?;
        let waiting: usize = seen.lanes.iter().map(|lane| lane.waiting as usize).sum();
        let missing = self.waiting.len().saturating_sub(waiting);
        self.check(Property::OneAnswer, missing <= self.storing.len(), || {
            format!("{waiting} wait of {}", self.waiting.len())
        })
    }

    /// The end: windows are judged, then everybody behaves, and all who wait must be answered.
    pub(super) fn finish(&mut self) -> Checked {
        let lanes = self.lanes.iter().map(|lane| &lane.level);
        for (name, level) in self.groups.iter().chain(lanes).enumerate() {
            let rate = level.check_rate();
            self.check(Property::Windows, rate.is_ok(), || {
                format!("level {name}: {rate:?}")
            })?;
        }
        let drains = self.rng.bool();
        if drains {
            self.note(Kind::Drain, None);
            self.handle(Msg::Drain)?;
        }
        for target in self.pauses.keys().cloned().collect::<Vec<_>>() {
            self.pauses.remove(&target);
            self.spread_pauses();
            self.handle(Msg::Resume { target })?;
        }
        self.play_out()?;
        let waiting = self.waiting.len();
        let property = if drains {
            Property::OneAnswer
        } else {
            Property::Order
        };
        self.check(property, waiting == 0, || {
            format!("{waiting} wait for ever")
        })?;
        let left = self.ledger.in_flight();
        self.check(Property::Conservation, left == 0, || {
            format!("{left} in flight at the end")
        })?;
        self.compare_snapshot()
    }

    /// Every permit is given back with a good answer, every use is stored, and time goes on.
    fn play_out(&mut self) -> Checked {
        for _ in 0..2000 {
            while self.store_asked() {
                self.answer_store(7)?;
            }
            for permit in self.held.keys().copied().collect::<Vec<_>>() {
                let is_out = |held: &Held| held.released.is_none();
                if self.held.get(&permit).is_some_and(is_out) {
                    self.release(permit, true)?;
                }
                if self.held.contains_key(&permit) {
                    self.report(permit, Outcome::Ok, None)?;
                }
            }
            if !self.storing.is_empty() || self.out.all > 0 {
                continue;
            }
            if self.waiting.is_empty() {
                break;
            }
            match self.ledger.next_wake() {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
            self.handle(Msg::Tick)?;
        }
        Ok(())
    }
}
