//! Single cases, most of them named after bug reports of other limiters.

mod adaptive;
mod backoff;
mod ceiling;
mod closed_loop;
mod limits;
mod order;
mod permits;
mod rest;
mod windows;

use std::sync::Arc;
use std::time::Duration;

use self::closed_loop::adaptive;
use super::{Action, LaneId, Ledger, LedgerConfig, Msg};
use crate::governor::messages::{Hints, LaneKey, PermitId, Refused, Ticket};
use crate::model::{Outcome, Timestamp};
use crate::settings::{BackoffSettings, LimitMode, LimitSettings};

const START: u64 = 1_000_000_000_000;

fn key(site: &str, endpoint: &str) -> Arc<LaneKey> {
    Arc::new(LaneKey {
        site: site.into(),
        host: None,
        endpoint: endpoint.into(),
    })
}

fn limits(cap: Option<u32>, rate: Option<&str>, burst: u32, quota: &[&str]) -> LimitSettings {
    LimitSettings {
        mode: Some(LimitMode::Fixed),
        profile: None,
        max_concurrency_num: cap,
        rate: rate.map(|text| text.parse().expect("a rate")),
        burst: Some(burst),
        quota: quota
            .iter()
            .map(|text| text.parse().expect("a quota"))
            .collect(),
        total_timeout: None,
    }
}

/// A ledger with a clock in seconds, for reading cases.
struct Case {
    ledger: Ledger,
    lane: LaneId,
    now: Timestamp,
    asked: u64,
    granted: Vec<(Ticket, PermitId)>,
    refused: Vec<(Ticket, Refused)>,
}

fn config(cap: u32, site: LimitSettings) -> LedgerConfig {
    LedgerConfig {
        max_concurrency_num: cap,
        // These cases speak of limits that are told.
        default_limits: LimitSettings {
            mode: site.mode.or(Some(LimitMode::Fixed)),
            ..site
        },
        backoff: BackoffSettings {
            base: Duration::from_secs(2),
            max: Duration::from_secs(300),
            factor: 2.0,
            jitter: 0.0,
        },
        permit_lease: Duration::from_secs(65),
        store_uses: false,
        ..LedgerConfig::default()
    }
}

impl Case {
    fn new(cap: u32, site: LimitSettings) -> Self {
        Self::of(config(cap, site))
    }

    fn of(config: LedgerConfig) -> Self {
        let now = Timestamp::from_nanos(START);
        let mut ledger = Ledger::new(config, 1, now);
        // Long after the start: the care for what an earlier process sent is over.
        let now = now + Duration::from_secs(3600);
        ledger.handle(now, Msg::Tick, &mut Vec::new());
        Self {
            lane: ledger.lane(&key("s", "e")),
            ledger,
            now,
            asked: 0,
            granted: Vec::new(),
            refused: Vec::new(),
        }
    }

    fn say(&mut self, msg: Msg) {
        let mut actions = Vec::new();
        self.ledger.handle(self.now, msg, &mut actions);
        for action in actions {
            match action {
                Action::Grant { ticket, permit, .. } => self.granted.push((ticket, permit)),
                Action::Refuse { ticket, why } => self.refused.push((ticket, why)),
                Action::Load => self.say(Msg::UsesLoaded(Vec::new())),
                Action::LoadLearned => self.say(Msg::LearnedLoaded(Vec::new())),
                Action::KeepLearned => {}
                Action::Store { permit, .. } => self.say(Msg::UseStored(permit)),
            }
        }
    }

    fn wait(&mut self, seconds: f64) {
        self.now = self.now + Duration::from_secs_f64(seconds);
        self.say(Msg::Tick);
    }

    fn ask_in(&mut self, lane: LaneId, priority: u8, patience: Duration) -> Ticket {
        self.asked += 1;
        let ticket = Ticket(self.asked);
        self.say(Msg::Acquire {
            ticket,
            lane,
            priority,
            patience,
        });
        ticket
    }

    fn ask(&mut self) -> Ticket {
        self.ask_in(self.lane, 0, Duration::MAX)
    }

    fn permit(&mut self) -> PermitId {
        let ticket = self.ask();
        self.of_ticket(ticket).expect("granted at once")
    }

    fn of_ticket(&self, ticket: Ticket) -> Option<PermitId> {
        let granted = self.granted.iter().find(|(other, _)| *other == ticket);
        granted.map(|(_, permit)| *permit)
    }

    fn release(&mut self, permit: PermitId) {
        self.say(Msg::Release { permit, used: true });
    }

    fn end(&mut self, permit: PermitId, outcome: Outcome, retry_after: Option<u64>) {
        self.release(permit);
        let hints = Hints {
            retry_after: retry_after.map(Duration::from_secs),
            ..Hints::default()
        };
        self.say(Msg::Report {
            permit,
            outcome,
            hints,
        });
    }

    fn state(&self) -> (&'static str, u32) {
        let lane = &self.ledger.snapshot(self.now).lanes[0];
        (lane.state, lane.failures)
    }
}
