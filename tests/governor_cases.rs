//! Reports about other limiters, played to the governor's actor.

use std::sync::Arc;
use std::time::Duration;

use actix::{Addr, Arbiter};
use crawler_node::governor::ledger::LedgerConfig;
use crawler_node::governor::{
    Acquire, Crash, Governor, GovernorSnapshot, LaneKey, MemoryQuotaStore, Pause, RateGovernor,
    Refused, Registry, Resume, Target, Ticket,
};
use crawler_node::settings::LimitMode;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(20);

fn lane() -> Arc<LaneKey> {
    Arc::new(LaneKey {
        site: "s".into(),
        host: None,
        endpoint: "e".into(),
    })
}

fn start(cap: u32, registry: &Registry) -> Addr<RateGovernor> {
    let mut config = LedgerConfig {
        max_concurrency_num: cap,
        ..LedgerConfig::default()
    };
    // What a lane finds out by itself would be in the way of these cases.
    config.default_limits.mode = Some(LimitMode::Fixed);
    let store = Box::new(MemoryQuotaStore::default());
    let arbiter = Arbiter::current();
    RateGovernor::start_in(&arbiter, config, registry.clone(), store, None, 1)
}

async fn state(governor: &Governor) -> GovernorSnapshot {
    governor.snapshot().await.expect("a governor")
}

/// Yields until the governor says so.
async fn until(governor: &Governor, wanted: impl Fn(&GovernorSnapshot) -> bool) {
    let reached = async {
        while !wanted(&state(governor).await) {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, reached).await.expect("in time");
}

/// The release of a permit must arrive however full the mailbox is.
#[actix_rt::test]
async fn t28_a_full_mailbox_loses_no_release() {
    let registry = Registry::new();
    let addr = start(1, &registry);
    let governor = Governor::new(addr.clone(), registry);
    let held = governor.acquire(lane(), 0, LONG).await.expect("a permit");
    let mut refused = 0;
    // One more than a mailbox holds, each from the one address: nothing is read while this does not await.
    for ticket in 0..64 {
        let ask = Acquire {
            ticket: Ticket(1_000_000 + ticket),
            lane: lane(),
            priority: 0,
            patience: LONG,
        };
        refused += u32::from(addr.try_send(ask).is_err());
    }
    assert!(refused > 0, "the mailbox was never full");
    drop(held);
    // Those whose answers nobody waits for are taken back, or give their permits back one after the other.
    until(&governor, |state| {
        let waiting: u32 = state.lanes.iter().map(|lane| lane.waiting).sum();
        state.in_flight == 0 && waiting == 0 && state.granted == state.released
    })
    .await;
    assert_eq!(state(&governor).await.in_flight, 0);
}

/// Five permits are out when the governor dies: the next one counts them until they come back.
#[actix_rt::test]
async fn t28_a_restart_with_permits_out_restores_the_cap() {
    let registry = Registry::new();
    let addr = start(5, &registry);
    let governor = Governor::new(addr.clone(), registry.clone());
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(governor.acquire(lane(), 0, LONG).await.expect("a permit"));
    }
    addr.do_send(Crash);
    timeout(LONG, async {
        while addr.connected() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it dies");
    governor.replace(start(5, &registry));
    assert_eq!(state(&governor).await.in_flight, 5);
    let (asking, key) = (governor.clone(), lane());
    let sixth = tokio::task::spawn_local(async move { asking.acquire(key, 0, LONG).await });
    until(&governor, |state| {
        state.lanes.iter().any(|lane| lane.waiting == 1)
    })
    .await;
    assert_eq!(state(&governor).await.in_flight, 5);
    held.pop();
    let sixth = timeout(LONG, sixth).await.expect("in time").expect("runs");
    let _sixth = sixth.expect("a permit");
    drop(held);
    until(&governor, |state| state.in_flight == 1).await;
}

/// Those who wait for a pause to end are answered when it ends, those who come meanwhile too, and none twice.
#[actix_rt::test]
async fn t23_a_resume_and_an_ask_race_and_both_are_served() {
    let registry = Registry::new();
    let governor = Governor::new(start(8, &registry), registry);
    let addr = governor.addr().expect("running");
    for round in 0..50 {
        let target = Target::Site("s".into());
        addr.do_send(Pause {
            target: target.clone(),
            length: None,
        });
        let ask = || governor.acquire(lane(), 0, Duration::MAX);
        let (before, resumed, after) = if round % 2 == 0 {
            tokio::join!(ask(), addr.send(Resume { target }), ask())
        } else {
            let (resumed, before, after) = tokio::join!(addr.send(Resume { target }), ask(), ask());
            (before, resumed, after)
        };
        resumed.expect("runs");
        let both: Result<Vec<_>, Refused> = [before, after].into_iter().collect();
        assert_eq!(both.expect("both").len(), 2);
    }
    until(&governor, |state| state.in_flight == 0).await;
    assert_eq!(state(&governor).await.granted, 100);
}
