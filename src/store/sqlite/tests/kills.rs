//! The process ends at each moment of the store's work on the disk; what was acknowledged is there afterwards.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::model::{Task, TaskEnd};
use crate::store::contract::{end, number, stats};
use crate::store::kill::{KillPoint, Moment};

/// Thrown in place of the end of the process.
struct Killed;

/// What a job is expected to have, from what it acknowledged.
#[derive(Default)]
struct Acknowledged {
    pushed: u64,
    pages: BTreeSet<String>,
}

/// Work a small job to its end: 12 tasks, a record each, redirects, delays, a release, a close.
fn work(dir: &Path, hook: crate::store::kill::KillHook, acknowledged: &mut Acknowledged, now: i64) {
    let mut opening = options(dir, at(now)).kill_hook(hook);
    opening.settings.wal_bytes = 20_000;
    let mut store = JobStore::open(opening).unwrap();
    push(&mut store, now, (0..4).map(|n| task(n, "a", 0)).collect());
    acknowledged.pushed = 4;
    let release = || ReleaseOwner {
        site: SITE.into(),
        owner: 1,
    };
    store.release_owner(at(now), release()).unwrap();
    store.commit(at(now)).unwrap();
    let mut ends = Vec::new();
    let mut pages = Vec::new();
    loop {
        let leased = exchange(&mut store, now, std::mem::take(&mut ends), 2);
        acknowledged.pages.extend(pages.drain(..));
        if leased.tasks.is_empty() {
            break;
        }
        for leased in &leased.tasks {
            let claim = Claim {
                task: leased.id,
                lease: leased.lease,
                key: task(number(leased) + 1000, "a", 0).key,
                params: leased.params.clone(),
            };
            assert!(store.claim(at(now), claim).unwrap());
            store.commit(at(now)).unwrap();
            ends.push(found_by(leased));
            pages.push(format!("k{}", number(leased)));
        }
    }
    store.close(at(now), "complete", None).unwrap();
}

/// Each task below 4 brings two more.
fn found_by(task_done: &Task) -> Completion {
    let n = number(task_done);
    let follow = if n < 4 {
        vec![task(10 + 2 * n, "b", 1), task(11 + 2 * n, "c", 1)]
    } else {
        Vec::new()
    };
    Completion {
        records: vec![record(&format!("k{n}"), n)],
        follow,
        ..done(task_done)
    }
}

/// The job's output, but for when and by which run.
fn output(dir: &Path) -> Vec<String> {
    lines(dir)
        .iter()
        .map(|line| format!("{} {} {}", line["_key"], line["_rev"], line["value"]))
        .collect()
}

/// Kill at the `nth` moment, then go on without kills. `None` when there are fewer moments.
fn killed_at(nth: usize, expected: &[String]) -> Option<KillPoint> {
    let dir = tempfile::tempdir().unwrap();
    let counter = Arc::new(AtomicUsize::new(0));
    let point = Arc::new(std::sync::Mutex::new(None));
    let (count, place) = (counter.clone(), point.clone());
    let hook = Box::new(move |at: KillPoint| {
        if count.fetch_add(1, Ordering::Relaxed) == nth {
            *place.lock().unwrap() = Some(at);
            panic_any(Killed);
        }
    });
    let mut acknowledged = Acknowledged::default();
    let life = catch_unwind(AssertUnwindSafe(|| {
        work(dir.path(), hook, &mut acknowledged, 1);
    }));
    match life {
        Ok(()) => return None,
        Err(thrown) => assert!(thrown.is::<Killed>(), "not by the hook"),
    }
    let at_kill = point.lock().unwrap().unwrap();
    let name = at_kill.as_str();
    {
        let store = JobStore::open(options(dir.path(), at(2))).unwrap();
        assert!(store.stats().unwrap().sites.len() <= 1);
        assert!(stats(&store).added >= acknowledged.pushed, "{name}");
        for page in &acknowledged.pages {
            let record = store.record(SITE, "page", page).unwrap();
            assert!(record.is_some(), "{name}: {page} was acknowledged");
        }
        let stored = stats(&store).records.get("page").map_or(0, |r| r.stored);
        assert_eq!(lines(dir.path()).len() as u64, stored, "{name}");
    }
    work(dir.path(), Box::new(|_| {}), &mut acknowledged, 3);
    assert_eq!(output(dir.path()), expected, "{name}");
    Some(at_kill)
}

#[test]
fn nothing_is_lost_at_any_moment() {
    let whole = tempfile::tempdir().unwrap();
    work(
        whole.path(),
        Box::new(|_| {}),
        &mut Acknowledged::default(),
        1,
    );
    let expected = output(whole.path());
    assert_eq!(expected.len(), 12);
    let mut met = BTreeSet::new();
    for nth in 0.. {
        match killed_at(nth, &expected) {
            Some(point) => met.insert(point),
            None => break,
        };
    }
    let unmet: Vec<_> = KillPoint::ALL
        .into_iter()
        .filter(|point| !met.contains(point))
        .map(KillPoint::as_str)
        .collect();
    assert_eq!(
        unmet,
        ["before-truncate", "after-truncate"],
        "these come only after a kill"
    );
}

#[test]
fn a_kill_while_cutting_back_is_harmless() {
    for moment in [Moment::Before, Moment::After] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = JobStore::open(options(dir.path(), at(0))).unwrap();
        super::found(&mut store, 1, vec![record("a", 1)]);
        drop(store);
        let file = dir.path().join("s.page.jsonl");
        let mut torn = std::fs::read(&file).unwrap();
        torn.extend_from_slice(b"{\"value\":");
        std::fs::write(&file, torn).unwrap();
        let hook = Box::new(move |at: KillPoint| {
            if at == KillPoint::Truncate(moment) {
                panic_any(Killed);
            }
        });
        let life = catch_unwind(AssertUnwindSafe(|| {
            JobStore::open(options(dir.path(), at(1)).kill_hook(hook))
        }));
        assert!(life.is_err_and(|thrown| thrown.is::<Killed>()));
        let store = JobStore::open(options(dir.path(), at(2))).unwrap();
        let cut = if moment == Moment::Before { 9 } else { 0 };
        assert_eq!(store.opened().cut_bytes, cut);
        assert_eq!(lines(dir.path()).len(), 1);
    }
}

#[test]
fn leases_are_in_the_file_before_they_are_told() {
    let dir = Dir::new();
    let mut store = dir.open(at(0));
    push(&mut store, 0, (0..5).map(|n| task(n, "a", 0)).collect());
    let leased = exchange(&mut store, 0, vec![], 3);
    let read = rusqlite::Connection::open(dir.0.path().join(STORE_DIR).join(STORE_FILE)).unwrap();
    let held = || -> i64 {
        read.query_row("SELECT count(*) FROM tasks WHERE state = 1", [], |row| {
            row.get(0)
        })
        .unwrap()
    };
    assert_eq!(held(), 3);
    let unused = |task: &Task| end(task, TaskEnd::Unused { due: None });
    exchange(&mut store, 0, leased.tasks.iter().map(unused).collect(), 1);
    assert_eq!(held(), 1);
}
