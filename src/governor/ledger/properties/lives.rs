//! Deaths and the quota store: what is left after them, and what it answers.

use std::time::Duration;

use super::coverage::Kind;
use super::model::{Out, PhaseModel};
use super::world::{Checked, World};
use crate::governor::ledger::{Carried, Ledger, Msg};
use crate::model::Timestamp;

impl World {
    /// The governor dies; another goes on from what was carried.
    pub(super) fn restart(&mut self, c: u16) -> Checked {
        self.note(Kind::Restart, None);
        self.write(|| "restart".to_owned());
        self.expire();
        if c.is_multiple_of(3) {
            self.give_back_in_between();
        }
        self.lose_waiting(c.is_multiple_of(2));
        self.ledger = Ledger::restore_with(
            self.faults,
            self.config.clone(),
            u64::from(c),
            self.now,
            &self.carried,
        );
        self.begin();
        self.loading = !self.plain;
        self.handle(Msg::Tick)
    }

    /// Holders give back while there is no governor.
    fn give_back_in_between(&mut self) {
        let now = self.now;
        let (lanes, carried, ended) = (&self.lanes, &mut self.carried, &mut self.ended);
        let (out, released) = (&mut self.out, &mut self.released);
        self.held.retain(|permit, held| {
            if held.released.is_none() {
                held.released = Some(now);
                *released += 1;
                out.remove(held.lane, lanes[held.lane].group);
                carried.returned(*permit);
                ended.push(*permit);
                return !held.reported;
            }
            true
        });
        self.next_end = now;
    }

    /// The process dies: only what is on disk is left.
    pub(super) fn kill(&mut self) -> Checked {
        self.note(Kind::Kill, None);
        self.write(|| "kill".to_owned());
        self.lose_waiting(true);
        self.held.clear();
        self.out = Out::default();
        self.ended.clear();
        self.seen.clear();
        self.pauses.clear();
        self.spread_pauses();
        (self.granted, self.released, self.reaped) = (0, 0, 0);
        for lane in &mut self.lanes {
            lane.phase = PhaseModel::Open;
            lane.not_before = Timestamp::ZERO;
            lane.epoch = 0;
            lane.failures_in_epoch = 0;
        }
        self.carried = Carried::default();
        self.ledger = Ledger::new(self.config.clone(), 1, self.now);
        self.begin();
        self.loading = !self.plain;
        self.handle(Msg::Tick)
    }

    fn lose_waiting(&mut self, stored: bool) {
        for (_, scopes) in std::mem::take(&mut self.storing) {
            if stored {
                self.store(scopes);
            }
        }
        self.waiting.clear();
        for lane in &mut self.lanes {
            lane.waiting.clear();
        }
    }

    fn store(&mut self, scopes: Vec<String>) {
        let now = self.now;
        self.stored
            .extend(scopes.into_iter().map(|scope| (scope, now)));
    }

    /// Whether the quota store owes an answer.
    pub(super) fn store_asked(&self) -> bool {
        self.loading || !self.storing.is_empty()
    }

    /// The quota store answers, in the order it was asked.
    pub(super) fn answer_store(&mut self, b: u8) -> Checked {
        if std::mem::take(&mut self.loading) {
            return self.handle(Msg::UsesLoaded(self.stored.clone()));
        }
        let Some((permit, scopes)) = self.storing.pop_front() else {
            return Ok(());
        };
        let lane = self.ledger.out.get(&permit).map(|out| out.lane);
        let key = lane.map(|lane| self.ledger.lanes[lane as usize].key.clone());
        let lane = key.and_then(|key| self.keys.iter().position(|own| *own == key));
        match b % 8 {
            0 => {
                self.note(Kind::Failed, lane);
                self.handle(Msg::UseFailed(permit, Duration::from_secs(1)))
            }
            1 => {
                self.note(Kind::Behind, lane);
                let scope = self.keys[usize::from(b) % self.keys.len()].to_string();
                let foreign = vec![(scope, self.now)];
                self.stored.extend(foreign.clone());
                self.handle(Msg::UseBehind(permit, foreign))
            }
            _ => {
                self.note(Kind::Stored, lane);
                self.store(scopes);
                self.handle(Msg::UseStored(permit))
            }
        }
    }
}
