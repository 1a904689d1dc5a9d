//! The governor as an actor: permits that are dropped, cancelled and lost, a governor that dies, and
//! pacing in virtual time.

mod desk;

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, Arbiter, Context, Handler};
use crawler_node::governor::ledger::{LedgerConfig, SiteTable};
use crawler_node::governor::{
    Acquire, Cancel, Crash, Drain, Governor, GovernorGone, GovernorSnapshot, Hints, LaneKey,
    LimitsChanged, MemoryQuotaStore, PastUse, Pause, QuotaStore, QuotaStoreError, RateGovernor,
    Recorded, Refused, Registry, Release, Resume, Retune, Subscribe, Target, Ticket, Use,
};
use crawler_node::model::{Outcome, UnixMillis};
use crawler_node::settings::{LimitMode, LimitSettings};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

const LONG: Duration = Duration::from_secs(20);

fn lane(endpoint: &str) -> Arc<LaneKey> {
    Arc::new(LaneKey {
        site: "s".into(),
        host: None,
        endpoint: endpoint.into(),
    })
}

/// A cap and nothing else: what a lane finds out by itself would be in the way of exact times.
fn config(cap: u32) -> LedgerConfig {
    let mut config = LedgerConfig {
        max_concurrency_num: cap,
        ..LedgerConfig::default()
    };
    config.default_limits.mode = Some(LimitMode::Fixed);
    config
}

fn start(
    config: LedgerConfig,
    registry: &Registry,
    store: &MemoryQuotaStore,
) -> Addr<RateGovernor> {
    let store = Box::new(store.clone());
    RateGovernor::start_in(
        &Arbiter::current(),
        config,
        registry.clone(),
        store,
        None,
        1,
    )
}

fn governor(config: LedgerConfig) -> Governor {
    let registry = Registry::new();
    let addr = start(config, &registry, &MemoryQuotaStore::default());
    Governor::new(addr, registry)
}

async fn state(governor: &Governor) -> GovernorSnapshot {
    governor.snapshot().await.expect("a governor")
}

async fn waiting(governor: &Governor, count: u32) {
    while state(governor)
        .await
        .lanes
        .iter()
        .map(|lane| lane.waiting)
        .sum::<u32>()
        != count
    {
        tokio::task::yield_now().await;
    }
}

#[actix_rt::test]
async fn t20_permits_dropped_unseen_come_back() {
    let governor = governor(config(1));
    for _ in 0..100 {
        let held = governor
            .acquire(lane("e"), 0, LONG)
            .await
            .expect("a permit");
        let mut waiting_one = Box::pin(governor.acquire(lane("e"), 0, LONG));
        // Polled until it waits, then the slot is freed, then it is dropped before it sees the permit.
        tokio::select! {
            biased;
            _ = &mut waiting_one => panic!("over the cap"),
            () = waiting(&governor, 1) => {}
        }
        drop(held);
        drop(waiting_one);
        // And one that is dropped before it is polled at all.
        drop(governor.acquire(lane("e"), 0, LONG));
    }
    // The last one is on its way back.
    let back = async {
        while state(&governor).await.in_flight > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, back).await.expect("all come back");
    let end = state(&governor).await;
    assert_eq!(end.in_flight, 0);
    assert_eq!(end.granted, end.released);
    assert_eq!(end.peak_in_flight, 1);
}

#[actix_rt::test]
async fn t18_a_cancel_after_the_grant_gives_the_slot_to_the_next() {
    let governor = governor(config(1));
    let addr = governor.addr().expect("running");
    let held = governor
        .acquire(lane("e"), 0, LONG)
        .await
        .expect("a permit");
    let ask = |ticket| Acquire {
        ticket: Ticket(ticket),
        lane: lane("e"),
        priority: 0,
        patience: LONG,
    };
    let first = addr.send(ask(1_000_001));
    let second = tokio::task::spawn_local(addr.send(ask(1_000_002)));
    waiting(&governor, 2).await;
    drop(held);
    addr.do_send(Cancel {
        ticket: Ticket(1_000_001),
    });
    // Granted, on its way, and not wanted any more.
    drop(first);
    let second = timeout(LONG, second)
        .await
        .expect("in time")
        .expect("runs")
        .expect("answered");
    assert!(second.is_ok());
    assert_eq!(state(&governor).await.in_flight, 1);
}

#[actix_rt::test]
async fn t19_a_holder_that_panics_gives_its_permit_back() {
    let governor = governor(config(1));
    let permit = governor
        .acquire(lane("e"), 0, LONG)
        .await
        .expect("a permit");
    let holder = tokio::task::spawn_local(async move {
        let _permit = permit;
        panic!("on purpose");
    });
    assert!(holder.await.is_err());
    let next = timeout(LONG, governor.acquire(lane("e"), 0, LONG)).await;
    let _held = next.expect("in time").expect("a permit");
    let end = state(&governor).await;
    assert_eq!(end.lanes[0].outcomes.get(&Outcome::Cancelled), Some(&1));
    assert_eq!(end.lanes[0].state, "open");
}

struct Watch(mpsc::UnboundedSender<String>);

impl Actor for Watch {
    type Context = Context<Self>;
}

impl Handler<GovernorGone> for Watch {
    type Result = ();
    fn handle(&mut self, msg: GovernorGone, _: &mut Self::Context) {
        drop(self.0.send(format!("{msg:?}")));
    }
}

impl Handler<LimitsChanged> for Watch {
    type Result = ();
    fn handle(&mut self, msg: LimitsChanged, _: &mut Self::Context) {
        drop(self.0.send(format!(
            "{:?} {:?}",
            msg.target, msg.limits.max_concurrency_num
        )));
    }
}

#[actix_rt::test]
async fn a_governor_that_dies_is_followed_by_one_that_knows() {
    let (sender, mut seen) = mpsc::unbounded_channel();
    let watch = Watch(sender).start();
    let registry = Registry::new();
    let store = MemoryQuotaStore::default();
    let addr = RateGovernor::start_in(
        &Arbiter::current(),
        config(3),
        registry.clone(),
        Box::new(store.clone()),
        Some(watch.clone().recipient()),
        1,
    );
    let governor = Governor::new(addr.clone(), registry.clone());
    addr.send(Subscribe(watch.recipient())).await.expect("runs");
    let retuned = LimitSettings {
        max_concurrency_num: Some(2),
        ..LimitSettings::default()
    };
    governor
        .retune(Retune {
            target: Target::Global,
            limits: retuned,
        })
        .await;
    assert_eq!(seen.recv().await.as_deref(), Some("Global Some(2)"));
    let a = governor
        .acquire(lane("e"), 0, LONG)
        .await
        .expect("a permit");
    let b = governor
        .acquire(lane("e"), 0, LONG)
        .await
        .expect("a permit");
    let (asking, patient) = (governor.clone(), lane("e"));
    let waiter = tokio::task::spawn_local(async move { asking.acquire(patient, 0, LONG).await });
    waiting(&governor, 1).await;

    addr.do_send(Crash);
    assert_eq!(
        seen.recv().await.as_deref(),
        Some("GovernorGone { panicked: true }")
    );
    // Given back while there is no governor.
    drop(a);
    assert_eq!(registry.permits_out(), 1);
    governor.replace(start(config(3), &registry, &store));

    let c = timeout(LONG, waiter)
        .await
        .expect("in time")
        .expect("runs")
        .expect("a permit");
    let after = state(&governor).await;
    assert_eq!((after.max_concurrency_num, after.in_flight), (2, 2));
    let more = timeout(
        Duration::from_millis(20),
        governor.acquire(lane("e"), 0, LONG),
    )
    .await;
    assert!(more.is_err(), "the cap counts the permits of the dead one");
    drop((b, c));
    let d = timeout(LONG, governor.acquire(lane("e"), 0, LONG))
        .await
        .expect("in time");
    drop(d.expect("a permit"));
    let end = state(&governor).await;
    assert_eq!((end.in_flight, end.peak_in_flight), (0, 2));
    assert_eq!(end.granted, end.released);

    governor.close();
    let gone = governor.acquire(lane("e"), 0, LONG).await.err();
    assert_eq!(gone, Some(Refused::Gone));
}

fn paced(rate: &str) -> LedgerConfig {
    let mut config = config(100);
    let table = SiteTable {
        limits: LimitSettings {
            rate: Some(rate.parse().expect("a rate")),
            mode: Some(LimitMode::Fixed),
            ..LimitSettings::default()
        },
        ..SiteTable::default()
    };
    config.sites.insert("s".into(), table);
    config
}

#[actix_rt::test]
async fn virtual_time_shows_the_pace() {
    tokio::time::pause();
    let begin = Instant::now();
    let governor = governor(paced("10/s"));
    for n in 1..=50_u32 {
        let permit = governor
            .acquire(lane("e"), 0, LONG)
            .await
            .expect("a permit");
        let due = Duration::from_millis(100) * n;
        let passed = begin.elapsed();
        assert!(
            passed >= due && passed < due + Duration::from_millis(60),
            "{n}: {passed:?}"
        );
        permit.release(true).report(Outcome::Ok, Hints::default());
    }
}

#[actix_rt::test]
async fn virtual_time_shows_the_pause_and_its_probe() {
    tokio::time::pause();
    let governor = governor(config(10));
    let permit = governor
        .acquire(lane("e"), 0, LONG)
        .await
        .expect("a permit");
    let begin = Instant::now();
    let hints = Hints {
        retry_after: Some(Duration::from_secs(60)),
        ..Hints::default()
    };
    permit.release(true).report(Outcome::Limited, hints);
    let refused = governor
        .acquire(lane("e"), 0, Duration::from_secs(59))
        .await;
    assert!(matches!(refused, Err(Refused::Later { .. })), "{refused:?}");
    let other = governor.acquire(lane("other"), 0, Duration::ZERO).await;
    assert!(other.is_ok(), "another lane is not concerned");
    let patient = Duration::from_secs(900);
    let probe = governor
        .acquire(lane("e"), 0, patient)
        .await
        .expect("a probe");
    assert!(begin.elapsed() >= Duration::from_secs(60));
    let (asking, same) = (governor.clone(), lane("e"));
    let next = tokio::task::spawn_local(async move { asking.acquire(same, 0, patient).await });
    waiting(&governor, 1).await;
    assert_eq!(state(&governor).await.lanes[0].state, "half_open");
    probe.release(true).report(Outcome::Gone, Hints::default());
    assert!(next.await.expect("runs").is_ok());
}

#[actix_rt::test]
async fn virtual_time_shows_that_a_refusal_said_early_stops_the_queue() {
    tokio::time::pause();
    let governor = governor(config(4));
    let patient = Duration::from_secs(900);
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(governor.acquire(lane("e"), 0, patient).await);
    }
    let mut held: Vec<_> = held
        .into_iter()
        .map(|held| held.expect("granted"))
        .collect();
    let begin = Instant::now();
    let (sender, mut granted) = mpsc::unbounded_channel();
    for _ in 0..8 {
        let (governor, sender) = (governor.clone(), sender.clone());
        tokio::task::spawn_local(async move {
            let permit = governor.acquire(lane("e"), 0, patient).await;
            let permit = permit.expect("a permit");
            let _ = sender.send(begin.elapsed());
            permit.release(true).report(Outcome::Ok, Hints::default());
        });
    }
    waiting(&governor, 8).await;
    let hints = Hints {
        retry_after: Some(Duration::from_secs(3)),
        ..Hints::default()
    };
    // The head has come; the body takes another second.
    let holder = held.pop().expect("four");
    holder.refused(Outcome::Limited, hints);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let receipt = holder.release(true);
    assert_eq!(state(&governor).await.in_flight, 3);
    receipt.report(Outcome::Limited, hints);
    // The answers to what had left before free slots too.
    for other in held {
        other
            .release(true)
            .report(Outcome::Limited, Hints::default());
    }
    let now = state(&governor).await;
    let lane = &now.lanes[0];
    assert_eq!((lane.in_flight, lane.waiting, lane.state), (0, 8, "pause"));
    assert_eq!(lane.failures, 1, "one event, one cut");
    assert_eq!(lane.outcomes.get(&Outcome::Limited), Some(&4));
    for _ in 0..8 {
        let at = timeout(LONG, granted.recv()).await.expect("in time");
        let at = at.expect("a waiter");
        assert!(at >= Duration::from_secs(3), "{at:?}");
        // Counted from the head, not from the report that repeats it.
        assert!(at < Duration::from_millis(3900), "{at:?}");
    }
    let end = state(&governor).await;
    assert_eq!((end.in_flight, end.granted, end.released), (0, 12, 12));
}

#[actix_rt::test]
async fn virtual_time_takes_a_permit_back_at_its_deadline() {
    tokio::time::pause();
    let governor = governor(config(1));
    let begin = Instant::now();
    let lost = governor
        .acquire(lane("e"), 0, LONG)
        .await
        .expect("a permit");
    let deadline = lost.deadline();
    assert_eq!(deadline - begin, Duration::from_secs(65));
    let next = governor
        .acquire(lane("e"), 0, LONG)
        .await
        .expect("a permit");
    assert!(Instant::now() >= deadline);
    drop(lost);
    assert_eq!(state(&governor).await.in_flight, 1);
    drop(next);
    let end = state(&governor).await;
    assert_eq!((end.in_flight, end.reaped, end.released), (0, 1, 1));
}

#[actix_rt::test]
async fn a_drain_and_a_pause_answer_those_who_wait() {
    let governor = governor(config(1));
    let target = Target::Site("s".into());
    let length = None;
    governor
        .pause(Pause {
            target: target.clone(),
            length,
        })
        .await;
    let paused = governor.acquire(lane("e"), 0, LONG).await.err();
    assert_eq!(paused, Some(Refused::Paused));
    governor.resume(Resume { target }).await;
    let held = governor
        .acquire(lane("e"), 0, LONG)
        .await
        .expect("a permit");
    let asking = governor.clone();
    let waiter = tokio::task::spawn_local(async move { asking.acquire(lane("e"), 0, LONG).await });
    waiting(&governor, 1).await;
    governor.addr().expect("running").do_send(Drain);
    assert_eq!(waiter.await.expect("runs").err(), Some(Refused::Stopping));
    let addr = governor.addr().expect("running");
    for _ in 0..3 {
        addr.do_send(Release {
            permit: held.id(),
            used: true,
        });
    }
    drop(held);
    assert_eq!(state(&governor).await.in_flight, 0);
}

/// A store that fails until it is told not to.
struct Broken(Arc<std::sync::atomic::AtomicBool>, MemoryQuotaStore);

impl QuotaStore for Broken {
    fn load(&mut self, now: UnixMillis) -> Result<Vec<PastUse>, QuotaStoreError> {
        self.1.load(now)
    }

    fn record(
        &mut self,
        now: UnixMillis,
        permits: &[Vec<Use>],
    ) -> Result<Vec<Recorded>, QuotaStoreError> {
        if self.0.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(QuotaStoreError("state.db: disk full".to_owned()));
        }
        self.1.record(now, permits)
    }
}

#[actix_rt::test]
async fn a_quota_that_cannot_be_stored_is_not_granted() {
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let registry = Registry::new();
    let mut config = config(5);
    config.default_limits.quota = vec!["2/h".parse().expect("a quota")];
    let store = Box::new(Broken(broken.clone(), MemoryQuotaStore::default()));
    let addr = RateGovernor::start_in(
        &Arbiter::current(),
        config,
        registry.clone(),
        store,
        None,
        1,
    );
    let governor = Governor::new(addr, registry);
    let refused = governor.acquire(lane("e"), 0, Duration::ZERO).await.err();
    assert!(
        matches!(refused, Some(Refused::Later { .. })),
        "{refused:?}"
    );
    let told = state(&governor).await.store_error;
    assert_eq!(told.as_deref(), Some("state.db: disk full"));
    broken.store(false, std::sync::atomic::Ordering::SeqCst);
    for _ in 0..2 {
        let permit = timeout(LONG, governor.acquire(lane("e"), 0, LONG))
            .await
            .expect("in time");
        permit
            .expect("a permit")
            .release(true)
            .report(Outcome::Ok, Hints::default());
    }
    assert_eq!(state(&governor).await.store_error, None);
    let refused = governor.acquire(lane("e"), 0, LONG).await.err();
    assert!(
        matches!(refused, Some(Refused::Later { .. })),
        "the quota is used up: {refused:?}"
    );
}

#[actix_rt::test]
async fn two_processes_share_a_quota_exactly() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = config(50);
    config.default_limits.quota = vec!["30/h".parse().expect("a quota")];
    let one_of_two = || {
        let store = crawler_node::store::StateQuotaStore::open(directory.path()).expect("opens");
        let registry = Registry::new();
        let addr = RateGovernor::start_in(
            &Arbiter::current(),
            config.clone(),
            registry.clone(),
            Box::new(store),
            None,
            1,
        );
        Governor::new(addr, registry)
    };
    let governors = [one_of_two(), one_of_two()];
    let mut asking = Vec::new();
    for n in 0..50 {
        let governor = governors[n % 2].clone();
        asking.push(tokio::task::spawn_local(async move {
            let answer = governor.acquire(lane("e"), 0, Duration::from_secs(5)).await;
            answer.map(|permit| permit.release(true).report(Outcome::Ok, Hints::default()))
        }));
    }
    let mut granted = 0;
    for answer in asking {
        let answer = timeout(LONG, answer).await.expect("in time").expect("runs");
        granted += u32::from(answer.is_ok());
    }
    assert_eq!(granted, 30);
    // And a third, later, finds it used up.
    let refused = one_of_two().acquire(lane("e"), 0, LONG).await.err();
    assert!(
        matches!(refused, Some(Refused::Later { .. })),
        "{refused:?}"
    );
}
