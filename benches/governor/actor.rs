//! The actor, asked by tasks of its own arbiter or of another.

use std::time::{Duration, Instant};

use actix::{Arbiter, System};
use crawler_node::governor::ledger::LedgerConfig;
use crawler_node::governor::{Governor, Hints, MemoryQuotaStore, RateGovernor, Registry};
use crawler_node::model::Outcome;
use crawler_node::settings::LimitMode;
use criterion::{Criterion, Throughput};

use crate::book::Book;
use crate::{PATIENCE, key};

/// Where the governor runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// With those who ask.
    Same,
    /// On an arbiter, and so on a thread, of its own.
    Own,
}

/// The time in which `count` permits go round between `askers` tasks and the governor.
fn go_round(count: u64, askers: u64, place: Place, mode: LimitMode) -> Duration {
    System::new().block_on(async move {
        let own = (place == Place::Own).then(Arbiter::new);
        let arbiter = own.as_ref().map_or_else(Arbiter::current, Arbiter::handle);
        let registry = Registry::new();
        let mut config = LedgerConfig {
            max_concurrency_num: 256,
            ..LedgerConfig::default()
        };
        config.default_limits.mode = Some(mode);
        config.default_limits.max_concurrency_num = None;
        config.default_limits.rate = None;
        let store = Box::new(MemoryQuotaStore::default());
        let addr = RateGovernor::start_in(&arbiter, config, registry.clone(), store, None, 1);
        let governor = Governor::new(addr, registry);
        let begin = Instant::now();
        let askers: Vec<_> = (0..askers)
            .map(|asker| {
                let governor = governor.clone();
                let lane = key(usize::try_from(asker).unwrap_or_default(), 0);
                let turns = count / askers + u64::from(asker < count % askers);
                actix::spawn(async move {
                    for _ in 0..turns {
                        let permit = governor.acquire(lane.clone(), 0, PATIENCE).await;
                        permit
                            .expect("granted")
                            .release(true)
                            .report(Outcome::Ok, Hints::default());
                    }
                })
            })
            .collect();
        for asker in askers {
            asker.await.expect("an asker");
        }
        let passed = begin.elapsed();
        if let Some(own) = own {
            own.stop();
        }
        passed
    })
}

pub(crate) fn actor(criterion: &mut Criterion, book: &Book) {
    let mut group = criterion.benchmark_group("actor: acquire, release, report");
    group.throughput(Throughput::Elements(1));
    for (place, askers, name) in [
        (Place::Own, 256, "own arbiter, 256 askers"),
        (Place::Same, 256, "same arbiter, 256 askers"),
        (Place::Own, 1, "own arbiter, 1 asker"),
        (Place::Same, 1, "same arbiter, 1 asker"),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|count| {
                book.measure(&format!("governor, {name}"), count, || {
                    go_round(count, askers, place, LimitMode::Fixed)
                })
            });
        });
    }
    group.finish();
}
