//! Permits per second: the ledger on one core, and the actor with many askers: `cargo bench --bench governor`.
//!
//! The unit is one permit asked for, granted and given back.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::{Arbiter, System};
use crawler_node::governor::ledger::{Action, LaneId, Ledger, LedgerConfig, Msg};
use crawler_node::governor::{
    Governor, Hints, LaneKey, MemoryQuotaStore, PermitId, RateGovernor, Registry, Ticket,
};
use crawler_node::model::{Outcome, Timestamp};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const SITES: usize = 256;
const ENDPOINTS: usize = 16;
const LANES: u64 = (SITES * ENDPOINTS) as u64;
const ASKERS: u64 = 256;
const PATIENCE: Duration = Duration::from_secs(3600);

fn key(site: usize, endpoint: usize) -> Arc<LaneKey> {
    Arc::new(LaneKey {
        site: format!("site{site}").as_str().into(),
        host: None,
        endpoint: format!("endpoint{endpoint}").as_str().into(),
    })
}

/// A ledger at work, with its clock.
struct Work {
    ledger: Ledger,
    lanes: Vec<LaneId>,
    now: Timestamp,
    ticket: u64,
    actions: Vec<Action>,
    held: VecDeque<PermitId>,
}

impl Work {
    fn new(cap: u32, rate: Option<&str>) -> Self {
        let mut config = LedgerConfig {
            max_concurrency_num: cap,
            store_uses: false,
            ..LedgerConfig::default()
        };
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
            ticket: 0,
            actions: Vec::new(),
            held: VecDeque::new(),
        }
    }

    fn ask(&mut self, lane: LaneId) {
        self.ticket += 1;
        self.now = self.now + Duration::from_nanos(50);
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
        for action in self.actions.drain(..) {
            if let Action::Grant { permit, .. } = action {
                self.held.push_back(permit);
            }
        }
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

fn ledger(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ledger, 4096 lanes");
    group.throughput(Throughput::Elements(LANES));

    let mut work = Work::new(10_000, None);
    group.bench_function("acquire, release unused", |bencher| {
        bencher.iter(|| work.round(false, None));
    });
    let mut work = Work::new(10_000, None);
    group.bench_function("acquire, release, report", |bencher| {
        bencher.iter(|| work.round(true, Some(Outcome::Ok)));
    });
    let mut work = Work::new(10_000, Some("1000000/s"));
    group.bench_function("acquire, release, report, with a pace", |bencher| {
        bencher.iter(|| work.round(true, Some(Outcome::Ok)));
    });

    // All lanes have waiters, and every release grants to one of them.
    let mut work = Work::new(256, None);
    for _ in 0..4 {
        for place in 0..work.lanes.len() {
            work.ask(work.lanes[place]);
        }
    }
    group.bench_function("acquire, release, report, 16000 waiting", |bencher| {
        bencher.iter(|| work.round(true, Some(Outcome::Ok)));
    });
    group.finish();
}

/// The time in which `count` permits go round between the askers and a governor on an arbiter of its own.
fn go_round(count: u64) -> Duration {
    System::new().block_on(async move {
        let arbiter = Arbiter::new();
        let registry = Registry::new();
        let mut config = LedgerConfig {
            max_concurrency_num: 256,
            ..LedgerConfig::default()
        };
        config.default_limits.max_concurrency_num = None;
        config.default_limits.rate = None;
        let addr = RateGovernor::start_in(
            &arbiter.handle(),
            config,
            registry.clone(),
            Box::new(MemoryQuotaStore::default()),
            None,
            1,
        );
        let governor = Governor::new(addr, registry);
        let begin = Instant::now();
        let askers: Vec<_> = (0..ASKERS)
            .map(|asker| {
                let governor = governor.clone();
                let lane = key(asker as usize % SITES, 0);
                let turns = count / ASKERS + u64::from(asker < count % ASKERS);
                actix::spawn(async move {
                    for _ in 0..turns {
                        let permit = governor.acquire(lane.clone(), 0, PATIENCE).await;
                        permit.expect("granted").release(true).report(
                            Outcome::Ok,
                            Hints::default(),
                            None,
                        );
                    }
                })
            })
            .collect();
        for asker in askers {
            asker.await.expect("an asker");
        }
        let passed = begin.elapsed();
        arbiter.stop();
        passed
    })
}

fn actor(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("actor, 256 askers");
    group.throughput(Throughput::Elements(1));
    group.bench_function("acquire, release, report", |bencher| {
        bencher.iter_custom(go_round);
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_secs(1));
    targets = ledger, actor
}
criterion_main!(benches);
