//! Many askers on several threads, a governor that dies under load, and the order of what it is told.

use std::time::Duration;

use actix::{Actor, Arbiter, AsyncContext, Context, Handler, Recipient};
use crawler_node::governor::{
    Crash, Governor, GovernorGone, Hints, MemoryQuotaStore, Pause, RateGovernor, Refused, Registry,
    Target,
};
use crawler_node::model::Outcome;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::{LONG, config, governor, lane, start, state, waiting};

/// Starts a new governor when one has died.
struct Nurse {
    governor: Governor,
    registry: Registry,
    arbiter: Arbiter,
    deaths: mpsc::UnboundedSender<()>,
}

impl Nurse {
    fn start_governor(&self, gone: Recipient<GovernorGone>) {
        let addr = RateGovernor::start_in(
            &self.arbiter.handle(),
            config(8),
            self.registry.clone(),
            Box::new(MemoryQuotaStore::default()),
            Some(gone),
            1,
        );
        self.governor.replace(addr);
    }
}

impl Actor for Nurse {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.start_governor(ctx.address().recipient());
    }
}

impl Handler<GovernorGone> for Nurse {
    type Result = ();

    fn handle(&mut self, _: GovernorGone, ctx: &mut Self::Context) {
        self.start_governor(ctx.address().recipient());
        let _ = self.deaths.send(());
    }
}

/// Asks `rounds` times, each time in another way.
async fn ask_around(governor: Governor, asker: u32, rounds: u32) {
    for round in 0..rounds {
        let lane = lane(["a", "b", "c"][(asker + round) as usize % 3]);
        let mut asking = Box::pin(governor.acquire(lane, 0, LONG));
        if (asker + round).is_multiple_of(7) {
            // Asked, and perhaps granted, but not waited for.
            tokio::select! {
                biased;
                permit = &mut asking => drop(permit),
                () = tokio::task::yield_now() => {}
            }
            continue;
        }
        let permit = asking.await.expect("a permit");
        match (asker + round) % 5 {
            0 => drop(permit),
            1 => drop(permit.release(true)),
            _ => {
                tokio::task::yield_now().await;
                let receipt = permit.release(round % 2 == 0);
                receipt.report(Outcome::Ok, Hints::default());
            }
        }
    }
}

#[actix_rt::test]
async fn a_governor_that_dies_under_load_loses_nothing() {
    let registry = Registry::new();
    let governor = Governor::starting(registry.clone());
    let (sender, mut deaths) = mpsc::unbounded_channel();
    let nurse = Nurse {
        governor: governor.clone(),
        registry: registry.clone(),
        arbiter: Arbiter::new(),
        deaths: sender,
    }
    .start();
    let others = Arbiter::new();
    let mut done = Vec::new();
    for asker in 0..64 {
        let (sender, receiver) = oneshot::channel();
        let governor = governor.clone();
        let asking = async move {
            ask_around(governor, asker, 40).await;
            let _ = sender.send(());
        };
        match asker % 2 {
            0 => drop(tokio::task::spawn_local(asking)),
            _ => assert!(others.spawn(asking)),
        }
        done.push(receiver);
    }
    for _ in 0..5 {
        state(&governor).await;
        governor.tell(Crash);
        timeout(LONG, deaths.recv()).await.expect("in time");
    }
    for asker in done {
        timeout(LONG, asker)
            .await
            .expect("in time")
            .expect("all its rounds");
    }
    let end = async {
        loop {
            let end = state(&governor).await;
            if end.in_flight == 0 {
                return end;
            }
            tokio::task::yield_now().await;
        }
    };
    let end = timeout(LONG, end).await.expect("all permits come back");
    assert_eq!(end.granted, end.released, "{end:?}");
    assert_eq!(end.reaped, 0);
    assert!(end.granted >= 64 * 30, "{end:?}");
    assert!(end.peak_in_flight <= 8, "{end:?}");
    assert_eq!(end.lanes.iter().map(|lane| lane.waiting).sum::<u32>(), 0);
    assert_eq!(registry.permits_out(), 0);
    drop(nurse);
    others.stop();
}

#[actix_rt::test]
async fn a_request_does_not_overtake_a_pause_that_was_told_before() {
    let governor = governor(config(4));
    state(&governor).await;
    let target = Target::Site("s".into());
    let (before, after) = (governor.clone(), governor.clone());
    // In one turn of the executor, before the governor has a turn.
    let mut first = Box::pin(before.acquire(lane("e"), 0, LONG));
    let mut second = Box::pin(after.acquire(lane("e"), 0, LONG));
    std::future::poll_fn(|context| {
        assert!(first.as_mut().poll(context).is_pending());
        governor.tell(Pause {
            target: target.clone(),
            length: None,
        });
        assert!(second.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    assert!(first.await.is_ok());
    assert_eq!(second.await.err(), Some(Refused::Paused));
}

#[actix_rt::test]
async fn who_asks_before_the_start_is_served_in_order() {
    let registry = Registry::new();
    let governor = Governor::starting(registry.clone());
    let (sender, mut served) = mpsc::unbounded_channel();
    for number in 0..4 {
        let (governor, sender) = (governor.clone(), sender.clone());
        tokio::task::spawn_local(async move {
            let permit = governor.acquire(lane("e"), 0, LONG).await;
            let _ = sender.send((number, permit.is_ok()));
            drop(permit);
        });
    }
    let early = timeout(Duration::from_millis(5), served.recv()).await;
    assert!(early.is_err(), "there is no governor yet");
    governor.replace(start(config(1), &registry, &MemoryQuotaStore::default()));
    for number in 0..4 {
        let next = timeout(LONG, served.recv()).await.expect("in time");
        assert_eq!(next, Some((number, true)));
    }
}

#[actix_rt::test]
async fn a_closed_handle_answers_who_waits() {
    let governor = governor(config(1));
    let held = governor.acquire(lane("e"), 0, LONG).await;
    let asking = governor.clone();
    let waiter = tokio::task::spawn_local(async move { asking.acquire(lane("e"), 0, LONG).await });
    waiting(&governor, 1).await;
    governor.close();
    let refused = timeout(LONG, waiter).await.expect("in time").expect("runs");
    assert_eq!(refused.err(), Some(Refused::Gone));
    drop(held);
}
