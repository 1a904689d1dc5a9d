//! The actor's own: group commit, answers after the commit, failure, the end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::Arbiter;
use futures_util::future::join_all;

use super::*;
use crate::model::{Completion, Mode};
use crate::store::contract::{SITE, at, done, record, task};
use crate::store::kill::{KillHook, KillPoint, Moment};
use crate::store::messages::LaneRoom;
use crate::store::{OpenOptions, Records};

fn options(dir: &std::path::Path) -> OpenOptions {
    OpenOptions::new(dir, vec![SITE.to_owned()], Mode::Crawl, at(0))
}

fn push(n: u64) -> Push {
    Push {
        site: SITE.into(),
        tasks: vec![task(n, "a", 0)],
    }
}

fn exchange(completions: Vec<Completion>, lease: usize) -> Exchange {
    Exchange {
        site: SITE.into(),
        owner: 1,
        completions,
        lease,
        room: LaneRoom::default(),
    }
}

/// Collects what it is told.
struct Listener {
    seen: Arc<Mutex<Vec<String>>>,
    told: tokio::sync::mpsc::UnboundedSender<()>,
}

impl Actor for Listener {
    type Context = Context<Self>;
}

impl Handler<RecordsCommitted> for Listener {
    type Result = ();

    fn handle(&mut self, message: RecordsCommitted, _: &mut Self::Context) {
        let keys = message.records.iter().map(|r| r.record.key.clone());
        self.seen.lock().unwrap().extend(keys);
        let _ = self.told.send(());
    }
}

impl Handler<StoreGone> for Listener {
    type Result = ();

    fn handle(&mut self, _: StoreGone, _: &mut Self::Context) {
        let _ = self.told.send(());
    }
}

/// A listener, what it saw, and a channel that tells of each message.
fn listener() -> (
    Addr<Listener>,
    Arc<Mutex<Vec<String>>>,
    tokio::sync::mpsc::UnboundedReceiver<()>,
) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (told, heard) = tokio::sync::mpsc::unbounded_channel();
    let listener = Listener {
        seen: seen.clone(),
        told,
    };
    (listener.start(), seen, heard)
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .unwrap()
}

#[actix_rt::test]
async fn commands_that_wait_share_a_commit() {
    let dir = tempfile::tempdir().unwrap();
    let commits = Arc::new(AtomicUsize::new(0));
    let (count, (enter, gate)) = (commits.clone(), std::sync::mpsc::channel::<()>());
    let (began, begun) = std::sync::mpsc::channel::<()>();
    let hook: KillHook = Box::new(move |point| {
        if let KillPoint::Commit(kind, Moment::Before) = point
            && kind == crate::store::kill::CommitKind::Push
            && count.fetch_add(1, Ordering::SeqCst) == 0
        {
            began.send(()).unwrap();
            gate.recv_timeout(Duration::from_secs(30)).unwrap();
        }
    });
    let job = JobStore::open(options(dir.path()).kill_hook(hook)).unwrap();
    let arbiter = Arbiter::new();
    let store = Store::start_in(&arbiter.handle(), job, vec![], None);
    let first = store.send(push(0));
    let first = actix_rt::spawn(first);
    tokio::task::yield_now().await;
    begun.recv_timeout(Duration::from_secs(30)).unwrap();
    // The first commit is under way: these hundred wait for it, and then share one.
    let rest: Vec<_> = (1..=100).map(|n| store.send(push(n))).collect();
    let rest = actix_rt::spawn(join_all(rest));
    tokio::task::yield_now().await;
    enter.send(()).unwrap();
    assert_eq!(soon(first).await.unwrap().unwrap().unwrap().added, 1);
    for answer in soon(rest).await.unwrap() {
        assert_eq!(answer.unwrap().unwrap().added, 1);
    }
    assert_eq!(commits.load(Ordering::SeqCst), 2);
    arbiter.stop();
}

#[actix_rt::test]
async fn records_are_told_after_their_commit_and_close_frees_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let job = JobStore::open(options(dir.path())).unwrap();
    let arbiter = Arbiter::new();
    let (listener, seen, mut heard) = listener();
    let store = Store::start_in(
        &arbiter.handle(),
        job,
        vec![listener.clone().recipient()],
        None,
    );
    store.send(push(1)).await.unwrap().unwrap();
    let leased = store.send(exchange(vec![], 1)).await.unwrap().unwrap();
    let completion = Completion {
        records: vec![record("k", 1), record("k", 1), record("l", 1)],
        ..done(&leased.tasks[0])
    };
    store
        .send(exchange(vec![completion], 0))
        .await
        .unwrap()
        .unwrap();
    soon(heard.recv()).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["k", "l"]);
    let stats = store.send(Stats).await.unwrap().unwrap();
    assert_eq!(stats.sites[SITE].tasks["done"], 1);
    let close = Close {
        outcome: "complete".into(),
        report: Some("{}".into()),
    };
    let late = store.clone();
    store.send(close).await.unwrap().unwrap();
    let refused = late.send(push(2)).await.map_err(StoreError::from);
    let refused = refused.and_then(|answer| answer);
    assert!(matches!(
        refused,
        Err(StoreError::Closed | StoreError::Gone)
    ));
    let job = JobStore::open(options(dir.path())).unwrap();
    assert!(job.opened().complete);
    arbiter.stop();
}

#[actix_rt::test]
async fn a_failed_commit_refuses_the_whole_batch_and_all_that_follow() {
    let dir = tempfile::tempdir().unwrap();
    let job = JobStore::open(options(dir.path())).unwrap();
    let arbiter = Arbiter::new();
    let store = Store::start_in(&arbiter.handle(), job, vec![], None);
    store.send(push(1)).await.unwrap().unwrap();
    let leased = store.send(exchange(vec![], 1)).await.unwrap().unwrap();
    // The output cannot be opened: a directory has its name.
    std::fs::create_dir(dir.path().join("s.page.jsonl")).unwrap();
    let completion = Completion {
        records: vec![record("k", 1)],
        ..done(&leased.tasks[0])
    };
    let refused = store.send(exchange(vec![completion], 0)).await.unwrap();
    assert!(matches!(refused, Err(StoreError::Io { .. })), "{refused:?}");
    let after = store.send(push(2)).await.unwrap();
    assert!(matches!(after, Err(StoreError::Failed(_))), "{after:?}");
    drop(store);
    arbiter.stop();
    arbiter.join().unwrap();
    std::fs::remove_dir(dir.path().join("s.page.jsonl")).unwrap();
    let job = JobStore::open(options(dir.path())).unwrap();
    assert_eq!(job.opened().void_leases, 1);
    assert_eq!(job.record(SITE, "page", "k").unwrap(), None);
}

#[actix_rt::test]
async fn a_panic_is_told_and_what_was_answered_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let commits = AtomicUsize::new(0);
    let hook: KillHook = Box::new(move |point| {
        if matches!(point, KillPoint::Commit(_, Moment::Before))
            && commits.fetch_add(1, Ordering::SeqCst) == 3
        {
            panic!("as the test wants");
        }
    });
    let job = JobStore::open(options(dir.path()).kill_hook(hook)).unwrap();
    let arbiter = Arbiter::new();
    let (listener, _, mut heard) = listener();
    let store = Store::start_in(
        &arbiter.handle(),
        job,
        vec![],
        Some(listener.clone().recipient()),
    );
    // Creating and opening were the first two commits.
    store.send(push(1)).await.unwrap().unwrap();
    let lost = store.send(push(2)).await.map_err(StoreError::from);
    assert_eq!(lost.unwrap_err(), StoreError::Gone);
    soon(heard.recv()).await.unwrap();
    arbiter.stop();
    arbiter.join().unwrap();
    let job = JobStore::open(options(dir.path())).unwrap();
    assert_eq!(job.stats().unwrap().sites[SITE].added, 1);
}
