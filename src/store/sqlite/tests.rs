//! The contract on SQLite, and what is SQLite's own: identity, archive, caps, outputs, failures.

use tempfile::TempDir;

use super::*;
use crate::store::contract::{Fixture, SITE, at, check_all, done, exchange, push, record, task};
use crate::store::messages::LaneRoom;

mod caps;
mod histories;
mod kills;

/// A job in a directory of its own.
pub(super) struct Dir(pub(super) TempDir);

pub(super) fn options(dir: &Path, now: UnixMillis) -> OpenOptions {
    OpenOptions::new(dir, vec![SITE.to_owned()], crate::model::Mode::Crawl, now)
}

impl Fixture for Dir {
    type Store = JobStore;

    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open(&self, now: UnixMillis) -> JobStore {
        JobStore::open(options(self.0.path(), now)).unwrap()
    }
}

/// The lines of the one output.
pub(super) fn lines(dir: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(dir.join("s.page.jsonl")).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Complete one new task with these records.
fn found(store: &mut JobStore, n: u64, records: Vec<Record>) {
    push(store, 1, vec![task(n, "a", 0)]);
    let leased = exchange(store, 1, vec![], 1);
    let completion = Completion {
        records,
        ..done(&leased.tasks[0])
    };
    exchange(store, 1, vec![completion], 0);
}

#[test]
fn the_contract_holds() {
    check_all::<Dir>();
}

#[test]
fn another_job_is_refused_and_named() {
    let dir = Dir::new();
    drop(dir.open(at(0)));
    let mut other = options(dir.0.path(), at(1));
    other.sites = vec!["b".into(), "a".into()];
    other.mode = crate::model::Mode::Search;
    let text = JobStore::open(other).unwrap_err().to_string();
    assert!(
        text.contains("it is s in mode crawl, asked for is a, b in mode search"),
        "{text}"
    );
    drop(dir.open(at(2)));
}

#[test]
fn a_second_process_is_refused() {
    let dir = Dir::new();
    let held = dir.open(at(0));
    let refused = JobStore::open(options(dir.0.path(), at(1))).unwrap_err();
    assert!(
        matches!(refused, StoreError::Locked { pid: Some(_), .. }),
        "{refused}"
    );
    let read = JobStore::open_read(dir.0.path()).unwrap();
    assert_eq!(read.runs().unwrap(), []);
    drop(held);
}

#[test]
fn a_newer_or_foreign_file_is_refused() {
    let dir = Dir::new();
    drop(dir.open(at(0)));
    let file = dir.0.path().join(STORE_DIR).join(STORE_FILE);
    let mark = |pragma: &str, value: i32| {
        Connection::open(&file)
            .unwrap()
            .pragma_update(None, pragma, value)
            .unwrap();
    };
    mark("user_version", 99);
    let newer = JobStore::open(options(dir.0.path(), at(1))).unwrap_err();
    assert!(
        matches!(
            newer,
            StoreError::Newer {
                found: 99,
                known: 1,
                ..
            }
        ),
        "{newer}"
    );
    assert!(matches!(
        JobStore::open_read(dir.0.path()),
        Err(StoreError::Newer { .. })
    ));
    mark("application_id", 7);
    let foreign = JobStore::open(options(dir.0.path(), at(1))).unwrap_err();
    assert!(
        matches!(foreign, StoreError::NotAStore { found: 7, .. }),
        "{foreign}"
    );
}

#[test]
fn fresh_archives_what_was_there() {
    let dir = Dir::new();
    let mut store = dir.open(at(0));
    found(&mut store, 1, vec![record("k", 1)]);
    drop(store);
    std::fs::write(dir.0.path().join("notes.txt"), "mine").unwrap();
    let mut again = options(dir.0.path(), at(1_700_000_000_000));
    again.fresh = true;
    again.sites = vec!["other".into()];
    let store = JobStore::open(again).unwrap();
    let archived = store.opened().archived.clone().unwrap();
    assert_eq!(
        archived.file_name().unwrap(),
        ".archive-20231114T221320000Z"
    );
    assert_eq!(lines(&archived).len(), 1);
    assert_eq!(lines(dir.0.path()).len(), 0);
    assert!(dir.0.path().join("notes.txt").exists());
    let old = JobStore::open_read(&archived).unwrap();
    assert!(old.record(SITE, "page", "k").unwrap().is_some());
    assert_eq!(&*store.run(), "r1");
    assert_eq!(store.stats().unwrap().sites.len(), 0);
}

#[test]
fn a_new_job_writes_over_nothing() {
    let dir = Dir::new();
    let file = dir.0.path().join("s.page.jsonl");
    std::fs::write(&file, "mine").unwrap();
    let refused = JobStore::open(options(dir.0.path(), at(0))).unwrap_err();
    assert_eq!(refused, StoreError::Foreign { file: file.clone() });
    let mut fresh = options(dir.0.path(), at(0));
    fresh.fresh = true;
    drop(JobStore::open(fresh).unwrap());
    assert!(!file.exists());
}

#[test]
fn there_is_no_job_to_read_where_none_was_run() {
    let dir = tempfile::tempdir().unwrap();
    let none = JobStore::open_read(dir.path()).unwrap_err();
    assert_eq!(
        none,
        StoreError::NoJob {
            dir: dir.path().to_owned()
        }
    );
}

#[test]
fn opening_tells_what_it_found() {
    let dir = Dir::new();
    let mut store = dir.open(at(0));
    let first = store.opened();
    assert_eq!(
        (&*first.run, first.resumed, first.complete),
        ("r1", false, false)
    );
    push(&mut store, 0, (1..=3).map(|n| task(n, "a", 0)).collect());
    exchange(&mut store, 0, vec![], 2);
    drop(store);
    let mut store = dir.open(at(1));
    let second = store.opened();
    assert_eq!(
        (&*second.run, second.resumed, second.complete),
        ("r1", true, false)
    );
    assert_eq!(second.void_leases, 2);
    let leased = exchange(&mut store, 1, vec![], 3);
    exchange(&mut store, 1, leased.tasks.iter().map(done).collect(), 0);
    store.close(at(2), "complete", None).unwrap();
    assert_eq!(
        store.push(
            at(2),
            Push {
                site: SITE.into(),
                tasks: vec![]
            }
        ),
        Err(StoreError::Closed)
    );
    drop(store);
    let third = dir.open(at(3)).opened().clone();
    assert_eq!(
        (&*third.run, third.resumed, third.complete),
        ("r2", false, true)
    );
}

#[test]
fn what_failed_for_a_reason_that_may_have_passed_goes_on_at_the_next_open() {
    use crate::model::{ListState, Outcome, StopReason, TaskEnd};
    let dir = Dir::new();
    let mut store = dir.open(at(0));
    let mut list = task(1, "a", 0);
    list.list = true;
    push(&mut store, 0, vec![list, task(2, "a", 0), task(3, "a", 0)]);
    let leased = exchange(&mut store, 0, vec![], 3);
    let fail = |index: usize, outcome| {
        let reason = "why".to_owned();
        crate::store::contract::end(&leased.tasks[index], TaskEnd::Failed { outcome, reason })
    };
    let mut page = fail(0, Outcome::ServerError);
    page.list = Some(ListState {
        pages: 2,
        stop: Some(StopReason::Error),
        ..ListState::default()
    });
    let ends = vec![
        page,
        fail(1, Outcome::Network),
        fail(2, Outcome::ClientError),
    ];
    exchange(&mut store, 0, ends, 0);
    store.close(at(1), "partial", None).unwrap();
    drop(store);
    let mut store = dir.open(at(2));
    assert_eq!(store.opened().retried, 2);
    let again = exchange(&mut store, 2, vec![], 9);
    assert_eq!(again.tasks.len(), 2);
    assert!(again.tasks.iter().all(|task| task.attempts == 0));
    let list = again.tasks[0].list.as_ref().expect("a list");
    assert_eq!((list.pages, list.stop), (2, None));
    assert_eq!(
        crate::store::contract::stats(&store)
            .lists
            .get("error")
            .copied()
            .unwrap_or(0),
        0
    );
}

#[test]
fn who_was_waited_for_has_come_back() {
    let dir = Dir::new();
    let mut store = dir.open(at(0));
    push(&mut store, 0, (1..=2).map(|n| task(n, "a", 0)).collect());
    let leased = exchange(&mut store, 0, vec![], 2);
    let park = |index: usize, until| {
        let end = crate::model::TaskEnd::Parked {
            outcome: crate::model::Outcome::Captcha,
            until,
            reason: "a captcha".into(),
        };
        crate::store::contract::end(&leased.tasks[index], end)
    };
    exchange(
        &mut store,
        0,
        vec![park(0, None), park(1, Some(at(100)))],
        0,
    );
    store.close(at(1), "blocked", None).unwrap();
    drop(store);
    let mut store = dir.open(at(2));
    assert_eq!(store.opened().unparked, 1);
    assert_eq!(exchange(&mut store, 2, vec![], 9).tasks.len(), 1);
    assert_eq!(exchange(&mut store, 100, vec![], 9).tasks.len(), 1);
}

#[test]
fn the_page_cap_is_exact() {
    let dir = Dir::new();
    let mut capped = options(dir.0.path(), at(0));
    capped.page_cap = Some(3);
    let mut store = JobStore::open(capped).unwrap();
    push(&mut store, 0, (1..=9).map(|n| task(n, "a", 0)).collect());
    let first = exchange(&mut store, 0, vec![], 9);
    assert_eq!(
        (first.tasks.len(), first.pending, first.capped),
        (3, 6, false)
    );
    assert_eq!(exchange(&mut store, 0, vec![], 9).tasks.len(), 0);
    // One of the three brings no page: one more may be leased.
    let with = |index: usize, key: &str| Completion {
        records: vec![record(key, 1)],
        ..done(&first.tasks[index])
    };
    let second = exchange(&mut store, 0, vec![with(0, "a"), done(&first.tasks[1])], 9);
    assert_eq!((second.tasks.len(), second.capped), (1, false));
    let other = Completion {
        records: vec![record("c", 1)],
        ..done(&second.tasks[0])
    };
    let third = exchange(&mut store, 0, vec![with(2, "b"), other], 9);
    assert_eq!(
        (third.tasks.len(), third.capped, third.pending),
        (0, true, 5)
    );
    drop(store);
    let mut raised = options(dir.0.path(), at(1));
    raised.page_cap = Some(4);
    let mut store = JobStore::open(raised).unwrap();
    assert_eq!(exchange(&mut store, 1, vec![], 9).tasks.len(), 1);
}

#[test]
fn every_revision_is_in_the_output_once() {
    let dir = Dir::new();
    let mut store = dir.open(at(0));
    found(&mut store, 1, vec![record("k", 1), record("l", 1)]);
    found(&mut store, 2, vec![record("k", 1), record("k", 2)]);
    let lines = lines(dir.0.path());
    let seen: Vec<_> = lines
        .iter()
        .map(|line| format!("{} {} {}", line["_key"], line["_rev"], line["value"]))
        .collect();
    assert_eq!(seen, ["\"k\" 1 1", "\"l\" 1 1", "\"k\" 2 2"]);
}

#[test]
fn a_format_that_was_off_catches_up() {
    let dir = Dir::new();
    let mut store = dir.open(at(0));
    found(&mut store, 1, vec![record("a", 1), record("b", 1)]);
    drop(store);
    let mut off = options(dir.0.path(), at(1));
    off.formats = vec![];
    let mut store = JobStore::open(off).unwrap();
    found(&mut store, 2, vec![record("c", 1), record("a", 2)]);
    drop(store);
    assert_eq!(lines(dir.0.path()).len(), 2);
    drop(dir.open(at(2)));
    drop(dir.open(at(3)));
    let keys: Vec<_> = lines(dir.0.path())
        .iter()
        .map(|line| format!("{} {}", line["_key"], line["_rev"]))
        .collect();
    assert_eq!(keys, ["\"a\" 1", "\"b\" 1", "\"c\" 1", "\"a\" 2"]);
}

#[test]
fn catching_up_with_many_records_misses_none() {
    let dir = Dir::new();
    let mut off = options(dir.0.path(), at(0));
    off.formats = vec![];
    let mut store = JobStore::open(off).unwrap();
    let many = (0..2500).map(|n| record(&n.to_string(), n)).collect();
    found(&mut store, 1, many);
    drop(store);
    drop(dir.open(at(1)));
    let store = dir.open(at(2));
    assert_eq!(store.opened().cut_bytes, 0);
    assert_eq!(lines(dir.0.path()).len(), 2500);
}

#[test]
fn an_output_that_lost_bytes_is_refused() {
    let dir = Dir::new();
    let mut store = dir.open(at(0));
    found(&mut store, 1, vec![record("a", 1)]);
    drop(store);
    std::fs::write(dir.0.path().join("s.page.jsonl"), "{}\n").unwrap();
    let refused = JobStore::open(options(dir.0.path(), at(1))).unwrap_err();
    assert!(
        matches!(refused, StoreError::Shorter { have: 3, .. }),
        "{refused}"
    );
}

#[test]
fn after_a_failed_commit_nothing_is_accepted_and_nothing_is_lost() {
    let dir = Dir::new();
    let mut store = dir.open(at(0));
    found(&mut store, 1, vec![record("a", 1)]);
    push(&mut store, 1, vec![task(2, "a", 0)]);
    let leased = exchange(&mut store, 1, vec![], 1);
    // A full disk, as SQLite sees it.
    let pages: i64 = store
        .db
        .query_row("PRAGMA page_count", [], |row| row.get(0))
        .unwrap();
    store
        .db
        .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| {
            row.get::<_, i64>(0)
        })
        .unwrap();
    let mut big = record("b", 1);
    big.fields.insert("text".into(), "x".repeat(1 << 20).into());
    let completion = Completion {
        records: vec![big],
        ..done(&leased.tasks[0])
    };
    let ask = |completions| Exchange {
        site: SITE.into(),
        owner: 1,
        completions,
        lease: 1,
        room: LaneRoom::default(),
    };
    let full = store.exchange(at(2), ask(vec![completion])).unwrap_err();
    assert!(
        matches!(&full, StoreError::Database { cause, .. } if cause.contains("full")),
        "{full}"
    );
    let refused = store.exchange(at(2), ask(vec![])).unwrap_err();
    assert_eq!(refused, StoreError::Failed(Arc::new(full)));
    assert!(matches!(store.commit(at(2)), Err(StoreError::Failed(_))));
    assert!(matches!(store.stats(), Err(StoreError::Failed(_))));
    drop(store);
    let mut store = dir.open(at(3));
    assert_eq!(lines(dir.0.path()).len(), 1);
    assert!(store.record(SITE, "page", "a").unwrap().is_some());
    assert_eq!(exchange(&mut store, 3, vec![], 1).tasks.len(), 1);
}

#[test]
fn the_log_is_folded_back_at_its_size() {
    let dir = Dir::new();
    let mut small = options(dir.0.path(), at(0));
    small.settings.wal_bytes = 64 * 1024;
    let mut store = JobStore::open(small).unwrap();
    let log = dir.0.path().join(STORE_DIR).join("store.db-wal");
    let mut longest = 0;
    for n in 0..200 {
        push(&mut store, 0, vec![task(n, "a", 0)]);
        longest = longest.max(std::fs::metadata(&log).unwrap().len());
    }
    assert!(longest > 0 && longest <= 128 * 1024, "{longest}");
}

#[test]
fn the_order_of_leases_uses_its_index() {
    let dir = Dir::new();
    let store = dir.open(at(0));
    for (sql, index) in [
        (
            "SELECT id FROM tasks WHERE lane = 1 AND state = 0 AND due IS NULL AND token IS NULL ORDER BY priority, attempts, id LIMIT 9",
            "INDEX ready_tasks (lane=?)",
        ),
        (
            "SELECT id FROM tasks WHERE site = 1 AND state = 0 AND due IS NOT NULL AND due <= 5 ORDER BY due LIMIT 9",
            "INDEX delayed (site=? AND due>? AND due<?)",
        ),
        (
            "SELECT id FROM tasks WHERE site = 1 AND state = 4 AND due IS NOT NULL AND due <= 5 ORDER BY due LIMIT 9",
            "INDEX parked (site=? AND due>? AND due<?)",
        ),
        (
            "SELECT id FROM tasks WHERE site = 1 AND state = 3 LIMIT 9",
            "INDEX failed (site=?)",
        ),
        ("SELECT id FROM tasks WHERE token IS NOT NULL", "INDEX held"),
    ] {
        let plan: Vec<String> = store
            .db
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .unwrap()
            .query_map([], |row| row.get(3))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let plan = plan.join("; ");
        assert!(
            plan.contains(index) && !plan.contains("TEMP B-TREE"),
            "{sql}: {plan}"
        );
    }
}
