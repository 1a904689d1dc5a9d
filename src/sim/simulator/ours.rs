//! The governor's own ledger as a control: what runs here is what runs in a crawl.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::control::{Control, Poll, View};
use super::scenario::{Configured, Scenario};
use crate::governor::ledger::{Action, Carried, LaneId, Ledger, LedgerConfig, Msg, SiteTable};
use crate::governor::{Hints, LaneKey, PermitId, Ticket};
use crate::model::{Name, Outcome, Timestamp};

/// Requests that wait in the ledger for each endpoint: one to be granted, and one behind it.
const ASKED: u64 = 2;

/// A client that asks the ledger for every request.
pub struct LedgerControl {
    ledger: Ledger,
    config: LedgerConfig,
    seed: u64,
    carried: Carried,
    endpoints: Vec<Endpoint>,
    /// Permits granted and not used yet.
    granted: VecDeque<(usize, u64)>,
    tickets: u64,
    actions: Vec<Action>,
}

struct Endpoint {
    lane: LaneId,
    name: Name,
    /// Tasks that were not sent.
    tasks: u64,
    /// Requests that wait in the ledger, and permits granted that were not used yet.
    asked: u64,
}

impl LedgerControl {
    /// The control of one client of a scenario, with limits as `configured`.
    #[must_use]
    pub fn new(scenario: &Scenario, configured: &Configured, seed: u64) -> Self {
        let count = scenario.origin.endpoints.len();
        let config = ledger_config(configured, scenario.timeout, count);
        let mut ledger = Ledger::new(config.clone(), seed, Timestamp::ZERO);
        if !scenario.chaos.restarts.is_empty() {
            ledger.track();
        }
        let endpoints = (0..count)
            .map(|nth| {
                let name = endpoint_name(nth);
                let key = LaneKey {
                    site: Name::from(SITE),
                    host: None,
                    endpoint: name.clone(),
                };
                Endpoint {
                    lane: ledger.lane(&Arc::new(key)),
                    name,
                    tasks: u64::MAX,
                    asked: 0,
                }
            })
            .collect();
        Self {
            ledger,
            config,
            seed,
            carried: Carried::default(),
            endpoints,
            granted: VecDeque::new(),
            tickets: 0,
            actions: Vec::new(),
        }
    }

    fn say(&mut self, now: Timestamp, msg: Msg) {
        self.ledger.handle(now, msg, &mut self.actions);
        self.ledger.save(&mut self.carried);
        for action in self.actions.drain(..) {
            // Nothing is stored, and nobody is refused: patience has no end, and few wait.
            if let Action::Grant { permit, lane, .. } = action
                && let Some(nth) = self.endpoints.iter().position(|one| one.lane == lane)
            {
                self.granted.push_back((nth, permit.0));
            }
        }
    }

    /// Keeps requests waiting where there are tasks for them.
    fn ask(&mut self, now: Timestamp) {
        for nth in 0..self.endpoints.len() {
            while self.endpoints[nth].asked < self.endpoints[nth].tasks.min(ASKED) {
                self.endpoints[nth].asked += 1;
                self.tickets += 1;
                let msg = Msg::Acquire {
                    ticket: Ticket(self.tickets),
                    lane: self.endpoints[nth].lane,
                    priority: 0,
                    patience: Duration::MAX,
                };
                self.say(now, msg);
            }
        }
    }

    fn release(&mut self, now: Timestamp, permit: u64) {
        let permit = PermitId(permit);
        self.say(now, Msg::Release { permit, used: true });
    }

    fn report(&mut self, now: Timestamp, permit: u64, outcome: Outcome, hints: Hints) {
        let report = Msg::Report {
            permit: PermitId(permit),
            outcome,
            hints,
        };
        self.say(now, report);
    }
}

impl Control for LedgerControl {
    fn poll(&mut self, now: Timestamp) -> Poll {
        if self.granted.is_empty() {
            self.ask(now);
        }
        if self.granted.is_empty() && self.ledger.next_wake().is_some_and(|at| at <= now) {
            self.say(now, Msg::Tick);
        }
        match self.granted.pop_front() {
            Some((endpoint, permit)) => {
                let one = &mut self.endpoints[endpoint];
                one.asked = one.asked.saturating_sub(1);
                Poll::Send { endpoint, permit }
            }
            None => Poll::Wait(self.ledger.next_wake()),
        }
    }

    fn end(&mut self, now: Timestamp, permit: u64, outcome: Outcome, hints: &Hints, _: Duration) {
        // A refusal is told before its slot is free, as the crawl does it: nobody slips through in between.
        if matches!(outcome, Outcome::Limited | Outcome::Blocked) {
            self.report(now, permit, outcome, *hints);
            self.release(now, permit);
        } else {
            self.release(now, permit);
            self.report(now, permit, outcome, *hints);
        }
    }

    fn drop_permit(&mut self, now: Timestamp, permit: u64) {
        // What the guard of a permit does when its holder goes away.
        self.release(now, permit);
        self.report(now, permit, Outcome::Cancelled, Hints::default());
    }

    fn view(&self, now: Timestamp, endpoint: usize) -> View {
        let name = &*self.endpoints[endpoint].name;
        let snapshot = self.ledger.snapshot(now);
        let lane = snapshot.lanes.iter().find(|lane| lane.endpoint == name);
        View {
            pace: lane
                .and_then(|lane| lane.pace_per_second)
                .unwrap_or(f64::INFINITY),
            cap: lane.and_then(|lane| lane.learned_cap),
            state: lane.map_or("", |lane| lane.state),
        }
    }

    fn waiting(&mut self, _: Timestamp, endpoint: usize, tasks: u64) {
        self.endpoints[endpoint].tasks = tasks;
    }

    fn restart(&mut self, now: Timestamp) {
        self.ledger = Ledger::restore(self.config.clone(), self.seed, now, &self.carried);
        self.ledger.track();
        // Those who waited ask again.
        for endpoint in &mut self.endpoints {
            endpoint.asked = 0;
        }
    }
}

const SITE: &str = "simulated";

fn endpoint_name(nth: usize) -> Name {
    Name::from(format!("endpoint-{nth}").as_str())
}

fn ledger_config(configured: &Configured, timeout: Duration, endpoints: usize) -> LedgerConfig {
    let defaults = LedgerConfig::default();
    let own = (0..endpoints)
        .filter_map(|nth| Some((endpoint_name(nth), configured.endpoints.get(nth)?.clone())))
        .collect();
    let table = SiteTable {
        limits: configured.site.clone(),
        endpoints: own,
        weight: 1,
    };
    LedgerConfig {
        max_concurrency_num: configured.max_concurrency_num,
        sites: [(Name::from(SITE), table)].into(),
        permit_lease: timeout.max(defaults.permit_lease),
        // What was used before the run does not exist, and nothing runs after it.
        store_uses: false,
        ..defaults
    }
}
