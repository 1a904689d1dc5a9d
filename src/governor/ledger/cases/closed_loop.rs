//! A client that always has another request, and a server that is a function: both in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Case, config, limits};
use crate::governor::ledger::Msg;
use crate::governor::messages::{Hints, PermitId};
use crate::model::{Outcome, Timestamp};
use crate::settings::{LimitMode, LimitSettings};

/// Requests that wait in the lane.
const WAITING: u64 = 2;

/// What the server makes of a request.
pub(super) struct Reply {
    pub(super) after: Duration,
    pub(super) outcome: Outcome,
    pub(super) retry_after: Option<Duration>,
}

impl Reply {
    pub(super) fn new(after_ms: u64, outcome: Outcome) -> Self {
        Self {
            after: Duration::from_millis(after_ms),
            outcome,
            retry_after: None,
        }
    }
}

/// A request that left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Timestamp,
    pub(super) outcome: Outcome,
    /// With itself.
    pub(super) in_flight: u32,
}

/// The loop of one adaptive lane.
pub(super) struct Loop {
    pub(super) case: Case,
    pub(super) sent: Vec<Sent>,
    out: BTreeMap<(Timestamp, u64), (PermitId, Reply)>,
}

/// Limits of a lane that learns.
pub(super) fn adaptive() -> LimitSettings {
    LimitSettings {
        mode: Some(LimitMode::Adaptive),
        ..limits(None, None, 1, &[])
    }
}

impl Loop {
    pub(super) fn new(cap: u32) -> Self {
        Self {
            case: Case::of(config(cap, adaptive())),
            sent: Vec::new(),
            out: BTreeMap::new(),
        }
    }

    /// Goes on for so many seconds.
    pub(super) fn run(
        &mut self,
        seconds: f64,
        mut server: impl FnMut(Timestamp, u32) -> Reply,
    ) -> &mut Self {
        let end = self.case.now + Duration::from_secs_f64(seconds);
        loop {
            self.ask(&mut server);
            let wake = self.case.ledger.next_wake().unwrap_or(Timestamp::MAX);
            let due = self.out.first_key_value();
            let due = due.map_or(Timestamp::MAX, |((at, _), _)| *at);
            let next = wake.min(due);
            if next > end {
                self.case.now = end;
                return self;
            }
            self.case.now = self.case.now.max(next);
            if due > next {
                self.case.say(Msg::Tick);
            } else if let Some((_, (permit, reply))) = self.out.pop_first() {
                self.end(permit, &reply);
            }
        }
    }

    fn ask(&mut self, server: &mut impl FnMut(Timestamp, u32) -> Reply) {
        loop {
            let before = self.sent.len();
            while self.case.asked < self.case.granted.len() as u64 + WAITING {
                self.case.ask();
            }
            for nth in before..self.case.granted.len() {
                let in_flight = self.out.len() as u32 + 1;
                let reply = server(self.case.now, in_flight);
                self.sent.push(Sent {
                    at: self.case.now,
                    outcome: reply.outcome,
                    in_flight,
                });
                let at = self.case.now + reply.after;
                let permit = self.case.granted[nth].1;
                self.out.insert((at, nth as u64), (permit, reply));
            }
            if self.sent.len() == before {
                return;
            }
        }
    }

    /// As the product says it: a refusal before its slot is free, anything else after.
    fn end(&mut self, permit: PermitId, reply: &Reply) {
        let report = Msg::Report {
            permit,
            outcome: reply.outcome,
            hints: Hints {
                retry_after: reply.retry_after,
                ..Hints::default()
            },
        };
        let release = Msg::Release { permit, used: true };
        let order = match reply.outcome {
            Outcome::Limited | Outcome::Blocked => [report, release],
            _ => [release, report],
        };
        for msg in order {
            self.case.say(msg);
        }
    }

    /// Permits whose answers have not come; nobody else will end them.
    pub(super) fn still_out(&mut self) -> Vec<PermitId> {
        let out = std::mem::take(&mut self.out);
        out.into_values().map(|(permit, _)| permit).collect()
    }

    /// Those of the last so many seconds.
    pub(super) fn last(&self, seconds: u64) -> Vec<Sent> {
        let from = self.case.now - Duration::from_secs(seconds);
        let recent = self.sent.iter().filter(|sent| sent.at >= from);
        recent.copied().collect()
    }

    /// Good answers a second over the last so many seconds.
    pub(super) fn goodput(&self, seconds: u64) -> f64 {
        let last = self.last(seconds);
        let good = last.iter().filter(|sent| sent.outcome == Outcome::Ok);
        good.count() as f64 / seconds as f64
    }
}

/// A bucket that is full at the start.
pub(super) struct Bucket {
    pub(super) per_second: f64,
    pub(super) burst: f64,
    tokens: f64,
    at: Timestamp,
}

impl Bucket {
    pub(super) fn new(per_second: f64, burst: f64) -> Self {
        Self {
            per_second,
            burst,
            tokens: burst,
            at: Timestamp::ZERO,
        }
    }

    pub(super) fn admits(&mut self, now: Timestamp) -> bool {
        let filled = self.tokens + now.since(self.at).as_secs_f64() * self.per_second;
        self.tokens = filled.min(self.burst);
        self.at = now;
        let admits = self.tokens >= 1.0;
        if admits {
            self.tokens -= 1.0;
        }
        admits
    }

    /// 100 ms for what it admits, 30 ms for a refusal.
    pub(super) fn reply(&mut self, now: Timestamp) -> Reply {
        match self.admits(now) {
            true => Reply::new(100, Outcome::Ok),
            false => Reply::new(30, Outcome::Limited),
        }
    }
}
