//! The pure bookkeeping on one core.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use crawler_node::governor::ledger::{Action, LaneId, Ledger, LedgerConfig, Msg};
use crawler_node::governor::{Hints, PermitId, Ticket};
use crawler_node::model::{Outcome, Timestamp};
use crawler_node::settings::LimitMode;
use criterion::{Criterion, Throughput};

use crate::{PATIENCE, key};

const SITES: usize = 256;
const ENDPOINTS: usize = 16;
const LANES: u64 = (SITES * ENDPOINTS) as u64;

/// A ledger at work, with its clock.
struct Work {
    ledger: Ledger,
    lanes: Vec<LaneId>,
    now: Timestamp,
    /// From one request to the next.
    step: Duration,
    ticket: u64,
    actions: Vec<Action>,
    held: VecDeque<PermitId>,
}

impl Work {
    fn new(cap: u32, mode: LimitMode, rate: Option<&str>) -> Self {
        let mut config = LedgerConfig {
            max_concurrency_num: cap,
            store_uses: false,
            ..LedgerConfig::default()
        };
        config.default_limits.mode = Some(mode);
        config.default_limits.max_concurrency_num = None;
        config.default_limits.rate = rate.map(|rate| rate.parse().expect("a rate"));
        let now = Timestamp::from_nanos(1_000_000_000_000);
        let mut ledger = Ledger::new(config, 1, now);
        // Far apart in memory from one another, as lanes are met in a crawl.
        let mut lanes = Vec::new();
        for endpoint in 0..ENDPOINTS {
            for site in 0..SITES {
                lanes.push(ledger.lane(&key(site, endpoint)));
            }
        }
        Self {
            ledger,
            lanes,
            now,
            step: Duration::from_nanos(50),
            ticket: 0,
            actions: Vec::new(),
            held: VecDeque::new(),
        }
    }

    fn ask(&mut self, lane: LaneId) {
        self.ticket += 1;
        self.now = self.now + self.step;
        self.say(Msg::Acquire {
            ticket: Ticket(self.ticket),
            lane,
            priority: 0,
            patience: PATIENCE,
        });
    }

    /// Gives back the oldest permit; with a report, when there is an outcome.
    fn give_back(&mut self, used: bool, outcome: Option<Outcome>) {
        let Some(permit) = self.held.pop_front() else {
            return;
        };
        self.say(Msg::Release { permit, used });
        if let Some(outcome) = outcome {
            let hints = Hints::default();
            self.say(Msg::Report {
                permit,
                outcome,
                hints,
            });
        }
    }

    fn say(&mut self, msg: Msg) {
        self.ledger.handle(self.now, msg, &mut self.actions);
        for action in &self.actions {
            if let Action::Grant { permit, .. } = action {
                self.held.push_back(*permit);
            }
        }
        self.actions.clear();
    }

    /// One permit asked for in each lane, and as many given back.
    fn round(&mut self, used: bool, outcome: Option<Outcome>) {
        for place in 0..self.lanes.len() {
            self.ask(self.lanes[place]);
            self.give_back(used, outcome);
        }
        black_box(self.ledger.in_flight());
    }
}

pub(crate) fn ledger(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ledger, 4096 lanes");
    group.throughput(Throughput::Elements(LANES));

    let mut work = Work::new(10_000, LimitMode::Fixed, None);
    group.bench_function("fixed: acquire, release unused", |bencher| {
        bencher.iter(|| work.round(false, None));
    });
    let mut work = Work::new(10_000, LimitMode::Fixed, None);
    group.bench_function("fixed: acquire, release, report", |bencher| {
        bencher.iter(|| work.round(true, Some(Outcome::Ok)));
    });
    let mut work = Work::new(10_000, LimitMode::Fixed, Some("1000000/s"));
    group.bench_function("fixed: acquire, release, report, with a pace", |bencher| {
        bencher.iter(|| work.round(true, Some(Outcome::Ok)));
    });
    // The clock goes faster: each lane is asked once a second, which is within every pace.
    let mut work = Work::new(10_000, LimitMode::Adaptive, None);
    work.step = Duration::from_micros(250);
    group.bench_function("adaptive: acquire, release, report", |bencher| {
        bencher.iter(|| work.round(true, Some(Outcome::Ok)));
    });

    // All lanes have waiters, and every release grants to one of them.
    let mut work = Work::new(256, LimitMode::Fixed, None);
    for _ in 0..4 {
        for place in 0..work.lanes.len() {
            work.ask(work.lanes[place]);
        }
    }
    group.bench_function(
        "fixed: acquire, release, report, 16000 waiting",
        |bencher| {
            bencher.iter(|| work.round(true, Some(Outcome::Ok)));
        },
    );
    group.finish();
}
