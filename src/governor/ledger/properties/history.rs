//! How a random history is read: each step is at least one message.

use std::time::Duration;

use super::Op;
use super::Property;
use super::coverage::Kind;
use super::model::{Held, PhaseModel};
use super::world::{Checked, World, limits};
use crate::governor::ledger::Msg;
use crate::governor::messages::{Hints, PermitId, Target, Ticket};
use crate::model::{Outcome, Timestamp};
use crate::settings::LimitMode;

/// A step that has nothing to act on waits for the next event, if that is as near as this.
const NEAR: Duration = Duration::from_secs(2);

impl World {
    pub(super) fn run(&mut self, ops: &[Op]) -> Checked {
        for (place, op) in ops.iter().enumerate() {
            self.step(place, *op)?;
        }
        self.check_size()?;
        self.finish()
    }

    fn step(&mut self, place: usize, op: Op) -> Checked {
        let [kind, a, b, low, high, ..] = op.to_le_bytes();
        let c = u16::from_le_bytes([low, high]);
        self.now = self.now
            + match kind >> 5 {
                0..=3 => Duration::ZERO,
                4 | 5 => Duration::from_millis(u64::from(c % 60)),
                6 => Duration::from_millis(u64::from(c % 2500)),
                _ if b.is_multiple_of(4) => Duration::from_secs(u64::from(c % 90)),
                _ => Duration::from_millis(u64::from(c % 300)),
            };
        let millis = Duration::from_millis(u64::from(c));
        // The place makes even a history that was shrunk to nothing go over all lanes.
        let lane = (place + usize::from(a)) % self.lanes.len();
        match kind & 31 {
            0..=9 => self.acquire(lane, b, c),
            10..=14 => match self.pick(a, |held| held.released.is_none()) {
                Some((permit, lane)) => {
                    self.note(Kind::Release, Some(lane));
                    self.release(permit, !b.is_multiple_of(8))
                }
                None => self.otherwise(lane, b, c),
            },
            15..=19 => match self.pick(a, |held| held.released.is_some() == (b % 8 > 1)) {
                Some((permit, lane)) => {
                    let repeated = self.held[&permit].reported;
                    let kind = if repeated { Kind::Repeat } else { Kind::Report };
                    self.note(kind, Some(lane));
                    let retry_after = (c.is_multiple_of(3)).then(|| millis / 4);
                    self.report(permit, outcome(b), retry_after)
                }
                None => self.otherwise(lane, b, c),
            },
            20 => {
                let ticket = Ticket(self.asked.saturating_sub(u64::from(a) % 20));
                let lane = self.waiting.get(&ticket).map_or(lane, |(lane, _)| *lane);
                self.note(Kind::Cancel, Some(lane));
                self.handle(Msg::Cancel { ticket })
            }
            21 => match self.pick(a, |held| held.released.is_none()) {
                Some((permit, lane)) => {
                    self.note(Kind::Drop, Some(lane));
                    self.release(permit, true)?;
                    self.report(permit, Outcome::Cancelled, None)
                }
                None => self.otherwise(lane, b, c),
            },
            22 => self.late(lane, (a, b, c)),
            23 if !self.kills => self.retune(lane, b),
            24 => {
                self.note(Kind::Pause, Some(lane));
                let target = self.target(lane, b);
                let length = (!c.is_multiple_of(5)).then_some(millis);
                let until = length.map_or(Timestamp::MAX, |length| self.now + length);
                self.pauses.insert(target.clone(), until);
                self.spread_pauses();
                self.handle(Msg::Pause { target, length })
            }
            25 => {
                self.note(Kind::Resume, Some(lane));
                let count = self.pauses.len().max(1);
                let target = self.pauses.keys().nth(usize::from(a) % count).cloned();
                let target = target.unwrap_or(Target::Global);
                self.pauses.remove(&target);
                self.spread_pauses();
                self.handle(Msg::Resume { target })
            }
            26 => {
                self.note(Kind::Tick, None);
                self.handle(Msg::Tick)
            }
            27 => {
                self.note(Kind::Snapshot, None);
                self.compare_snapshot()
            }
            28 if b < 100 => self.restart(c),
            29 if self.kills && b < 60 => self.kill(),
            _ if self.store_asked() => self.answer_store(b),
            _ => self.otherwise(lane, b, c),
        }
    }

    /// A step that found nothing to act on.
    fn otherwise(&mut self, lane: usize, b: u8, c: u16) -> Checked {
        match self.ledger.next_wake() {
            Some(at) if b.is_multiple_of(2) && at <= self.now + NEAR => {
                self.now = self.now.max(at);
                self.note(Kind::Tick, None);
                self.handle(Msg::Tick)
            }
            _ => self.acquire(lane, b, c),
        }
    }

    fn pick(&self, a: u8, which: impl Fn(&Held) -> bool) -> Option<(PermitId, usize)> {
        let some = || self.held.iter().filter(|(_, held)| which(held));
        let count = some().count().max(1);
        some()
            .nth(usize::from(a) % count)
            .map(|(id, held)| (*id, held.lane))
    }

    pub(super) fn target(&self, lane: usize, b: u8) -> Target {
        let key = &self.keys[lane];
        match b % 4 {
            0 => Target::Global,
            1 => Target::Site(key.site.clone()),
            _ => Target::Endpoint(key.site.clone(), key.endpoint.clone()),
        }
    }

    fn acquire(&mut self, lane: usize, b: u8, c: u16) -> Checked {
        self.note(Kind::Acquire, Some(lane));
        let patience = if c.is_multiple_of(3) {
            Duration::MAX
        } else {
            Duration::from_millis(u64::from(c))
        };
        let priority = b % 3;
        self.asked += 1;
        let ticket = Ticket(self.asked);
        let due = self.now + Duration::from_secs(10) * u32::from(priority);
        let due = (due, self.asked);
        self.waiting.insert(ticket, (lane, due));
        self.lanes[lane].waiting.insert(due, ticket);
        self.lanes[lane].asked = true;
        let lane = self.ledger.lane(&self.keys[lane]);
        self.handle(Msg::Acquire {
            ticket,
            lane,
            priority,
            patience,
        })
    }

    pub(super) fn release(&mut self, permit: PermitId, used: bool) -> Checked {
        self.expire();
        if let Some(held) = self.held.get_mut(&permit) {
            let lane = held.lane;
            let group = self.lanes[lane].group;
            self.released += 1;
            self.ended.push(permit);
            self.out.remove(lane, group);
            held.released = Some(self.now);
            self.next_end = self.next_end.min(self.now + self.config.report_timeout);
            // What was answered was used.
            let used = used || held.reported;
            if !used || held.reported {
                self.held.remove(&permit);
            }
            if !used {
                self.lanes[lane].lost(permit);
                self.lanes[lane].level.unsend(permit);
                self.groups[group].unsend(permit);
            }
        }
        self.handle(Msg::Release { permit, used })
    }

    /// Late and double releases and reports.
    fn late(&mut self, lane: usize, (a, b, c): (u8, u8, u16)) -> Checked {
        let count = self.ended.len().max(1);
        let Some(permit) = self.ended.get(usize::from(a) % count).copied() else {
            return self.otherwise(lane, b, c);
        };
        self.handle(Msg::Release { permit, used: true })?;
        if self.held.contains_key(&permit) {
            return Ok(());
        }
        let hints = Hints {
            retry_after: Some(Duration::from_millis(u64::from(c))),
            ..Hints::default()
        };
        self.handle(Msg::Report {
            permit,
            outcome: Outcome::Limited,
            hints,
        })
    }

    /// A report, before or after the release. A second one of the same permit changes nothing.
    pub(super) fn report(
        &mut self,
        permit: PermitId,
        outcome: Outcome,
        retry_after: Option<Duration>,
    ) -> Checked {
        self.expire();
        let held = self.held.get(&permit).copied();
        let first = held.filter(|held| !held.reported);
        if let Some(held) = first {
            self.learn(permit, held, outcome, retry_after);
        }
        let hints = Hints {
            retry_after,
            bucket: (self.adaptive() && permit.0.is_multiple_of(7)).then_some(permit.0 % 3),
            ..Hints::default()
        };
        self.handle(Msg::Report {
            permit,
            outcome,
            hints,
        })?;
        let Some(held) = held else {
            return Ok(());
        };
        if self.adaptive() {
            return Ok(());
        }
        let epoch = self.state_of(held.lane).learner.backoff().epoch();
        let (now, base) = (self.now, self.config.backoff.base);
        let lane = &mut self.lanes[held.lane];
        // Of the breaker only this is modelled: it opens on a failure, after some others.
        let breaker = first.is_some()
            && matches!(outcome, Outcome::ServerError | Outcome::Timeout)
            && epoch == lane.epoch + 1
            && (lane.failures_in_epoch >= 6 || outcome == Outcome::ServerError);
        if breaker && lane.phase == PhaseModel::Open {
            lane.cut(now, base);
        }
        let expected = lane.epoch;
        self.check(Property::Backoff, epoch == expected, || {
            format!("epoch {epoch}, not {expected}, after {outcome:?} of {permit:?}")
        })
    }

    /// What follows from the first report of a permit.
    fn learn(
        &mut self,
        permit: PermitId,
        held: Held,
        outcome: Outcome,
        retry_after: Option<Duration>,
    ) {
        let (now, base) = (self.now, self.config.backoff.base);
        let lane = &mut self.lanes[held.lane];
        if let Some(wait) = retry_after {
            lane.not_before = lane.not_before.max(now + wait);
        }
        let refused = matches!(outcome, Outcome::Limited | Outcome::Blocked);
        let failed = matches!(outcome, Outcome::ServerError | Outcome::Timeout);
        if self.only == Property::Adaptive {
            // What it learns is the law's affair.
        } else if lane.phase == PhaseModel::Probing(permit) {
            match outcome {
                Outcome::Cancelled => lane.lost(permit),
                // Whether a 5xx counts against a probe depends on what the pause was for.
                Outcome::ServerError => lane.phase = PhaseModel::Open,
                _ if refused || failed => lane.cut(now, base),
                _ => lane.phase = PhaseModel::Open,
            }
        } else if lane.phase == PhaseModel::Open && held.epoch == lane.epoch {
            lane.failures_in_epoch += u32::from(failed);
            if refused {
                lane.cut(now, base);
            }
        }
        match self.held.get_mut(&permit) {
            Some(held) if held.released.is_none() => held.reported = true,
            _ => drop(self.held.remove(&permit)),
        }
    }

    fn retune(&mut self, lane: usize, b: u8) -> Checked {
        self.note(Kind::Retune, Some(lane));
        let target = self.target(lane, b);
        let mut limits = limits(&mut self.rng, self.plain);
        if self.adaptive() {
            limits.mode = Some(LimitMode::Adaptive);
        }
        match &target {
            Target::Global => {
                self.cap = u32::from(b) % 7 + 1;
                limits.max_concurrency_num = Some(self.cap);
            }
            Target::Site(site) => {
                for lane in 0..self.lanes.len() {
                    if self.keys[lane].site == *site && lane.is_multiple_of(3) {
                        self.groups[self.lanes[lane].group].retune(limits.clone(), self.now);
                    }
                }
            }
            Target::Endpoint(site, endpoint) => {
                for (key, lane) in self.keys.iter().zip(&mut self.lanes) {
                    if key.site == *site && key.endpoint == *endpoint {
                        lane.level.retune(limits.clone(), self.now);
                    }
                }
            }
        }
        self.handle(Msg::Retune { target, limits })
    }
}

fn outcome(b: u8) -> Outcome {
    match b >> 4 {
        0..=3 => Outcome::Limited,
        4 => Outcome::Blocked,
        5 | 6 => Outcome::ServerError,
        7 => Outcome::Timeout,
        8 => Outcome::Gone,
        9 => Outcome::Cancelled,
        _ => Outcome::Ok,
    }
}
