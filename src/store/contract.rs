//! What every store must do, written against the traits alone.
//!
//! A test of an implementation brings a [`Fixture`] and calls [`check_all`].

use serde_json::json;

use super::messages::{Claim, Exchange, Hold, LaneRoom, Leased, Push, ReleaseOwner, SiteStats};
use super::traits::{Frontier, Records, Runs};
use crate::model::{
    Change, Completion, LeaseToken, ListState, NewTask, Outcome, Params, Record, StopReason, Task,
    TaskEnd, TaskKey, UnixMillis,
};

/// The site of all that is made here.
pub(crate) const SITE: &str = "s";

/// Opens the same job again and again; a store that is dropped without a close was killed.
pub(crate) trait Fixture {
    /// The store.
    type Store: Frontier + Records + Runs;
    /// A fixture over an empty job.
    fn new() -> Self;
    /// Open it.
    fn open(&self, now: UnixMillis) -> Self::Store;
}

/// The instant `ms`.
pub(crate) fn at(ms: i64) -> UnixMillis {
    UnixMillis(ms)
}

/// A task known by `n`, in `lane`.
pub(crate) fn task(n: u64, lane: &str, priority: i32) -> NewTask {
    let params = json!({ "n": n });
    NewTask {
        endpoint: "e".into(),
        params: params.as_object().cloned().unwrap_or_else(Params::new),
        key: TaskKey::of(SITE, "e", &n.to_string()),
        lane: lane.into(),
        priority,
        depth: u32::try_from(priority).unwrap_or(0),
        list: false,
    }
}

/// What [`task`] was made with.
pub(crate) fn number(task: &Task) -> u64 {
    task.params["n"].as_u64().unwrap()
}

/// A record of that key and value.
pub(crate) fn record(key: &str, value: u64) -> Record {
    let fields = json!({ "value": value });
    Record {
        site: SITE.into(),
        kind: "page".into(),
        key: key.to_owned(),
        fields: fields.as_object().cloned().unwrap_or_else(Params::new),
    }
}

/// End `task` so, with nothing found.
pub(crate) fn end(task: &Task, end: TaskEnd) -> Completion {
    Completion {
        task: task.id,
        lease: task.lease,
        end,
        records: Vec::new(),
        follow: Vec::new(),
        list: None,
    }
}

/// Done, as it should be.
pub(crate) fn done(task: &Task) -> Completion {
    end(
        task,
        TaskEnd::Done {
            outcome: Outcome::Ok,
        },
    )
}

/// Add tasks and commit; how many were added and known.
pub(crate) fn push(store: &mut impl Frontier, now: i64, tasks: Vec<NewTask>) -> (u64, u64) {
    let site = SITE.into();
    let pushed = store.push(at(now), Push { site, tasks }).unwrap();
    store.commit(at(now)).unwrap();
    (pushed.added, pushed.known)
}

/// Complete, lease and commit, as owner 1.
pub(crate) fn exchange(
    store: &mut impl Frontier,
    now: i64,
    completions: Vec<Completion>,
    lease: usize,
) -> Leased {
    let exchange = Exchange {
        site: SITE.into(),
        owner: 1,
        completions,
        lease,
        room: LaneRoom::default(),
    };
    let leased = store.exchange(at(now), exchange).unwrap();
    store.commit(at(now)).unwrap();
    leased
}

fn numbers(leased: &Leased) -> Vec<u64> {
    leased.tasks.iter().map(number).collect()
}

/// Lease one task after the other, each completed before the next.
fn drain(store: &mut impl Frontier, now: i64) -> Vec<u64> {
    let mut order = Vec::new();
    let mut completions = Vec::new();
    loop {
        let leased = exchange(store, now, std::mem::take(&mut completions), 1);
        let Some(task) = leased.tasks.first() else {
            return order;
        };
        order.push(number(task));
        completions.push(done(task));
    }
}

/// The counts of the site; they add up.
pub(crate) fn stats(store: &impl Frontier) -> SiteStats {
    let stats = store
        .stats()
        .unwrap()
        .sites
        .remove(SITE)
        .unwrap_or_default();
    assert_eq!(stats.added, stats.tasks.values().sum::<u64>(), "{stats:?}");
    stats
}

/// Every check there is.
pub(crate) fn check_all<F: Fixture>() {
    known_keys_are_not_added::<F>();
    of_one_key_the_latest_parameters_and_the_smallest_depth_count::<F>();
    order_is_by_priority_then_fair_between_lanes::<F>();
    batches_do_not_change_the_order::<F>();
    each_lane_is_leased_what_it_has_room_for::<F>();
    what_was_asked_least_goes_first::<F>();
    a_completion_is_one_step::<F>();
    a_stale_token_changes_nothing::<F>();
    every_end_leads_to_its_state::<F>();
    delays_holds_and_parking_end_in_time::<F>();
    what_an_owner_held_comes_first_again::<F>();
    a_kill_returns_leases_in_their_order::<F>();
    a_task_that_outlives_its_holders_is_failed::<F>();
    a_progress_clears_the_kills::<F>();
    redirect_targets_are_claimed_once::<F>();
    lists_go_on_where_they_stood::<F>();
    records_have_revisions::<F>();
    what_was_not_committed_has_not_happened::<F>();
    runs_are_resumed_until_complete::<F>();
    troubles_are_told::<F>();
}

fn known_keys_are_not_added<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(0));
    let tasks = vec![task(1, "a", 0), task(2, "a", 0), task(1, "b", 0)];
    assert_eq!(push(&mut store, 0, tasks), (2, 1));
    drop(store);
    let mut store = fixture.open(at(1));
    assert_eq!(
        push(&mut store, 1, vec![task(2, "a", 0), task(3, "a", 0)]),
        (1, 1)
    );
    assert_eq!(stats(&store).added, 3);
    drain(&mut store, 1);
    assert_eq!(
        push(&mut store, 1, vec![task(2, "a", 0)]),
        (0, 1),
        "done is known"
    );
    assert_eq!(stats(&store).tasks["done"], 3);
}

fn of_one_key_the_latest_parameters_and_the_smallest_depth_count<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(0));
    push(&mut store, 0, vec![task(1, "a", 3), task(2, "a", 2)]);
    let mut again = task(1, "a", 1);
    again.params.insert("token".into(), json!("new"));
    let mut deeper = task(2, "a", 9);
    deeper.params.insert("token".into(), json!("newer"));
    push(&mut store, 0, vec![again, deeper]);
    let leased = exchange(&mut store, 0, vec![], 2);
    assert_eq!(numbers(&leased), [1, 2]);
    let (first, second) = (&leased.tasks[0], &leased.tasks[1]);
    assert_eq!((first.depth, first.priority), (1, 1));
    assert_eq!(first.params["token"], json!("new"));
    assert_eq!((second.depth, second.priority), (2, 2));
    assert_eq!(second.params["token"], json!("newer"));
}

fn order_is_by_priority_then_fair_between_lanes<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(0));
    let tasks = vec![
        task(1, "a", 1),
        task(2, "a", 1),
        task(3, "a", 2),
        task(4, "b", 1),
        task(5, "b", 2),
        task(6, "c", 0),
    ];
    push(&mut store, 0, tasks);
    assert_eq!(drain(&mut store, 0), [6, 1, 4, 2, 5, 3]);
}

fn batches_do_not_change_the_order<F: Fixture>() {
    let tasks = || -> Vec<NewTask> {
        (0..60)
            .map(|n| {
                let lane = ["a", "b", "c"][usize::try_from(n * 7 % 5 % 3).unwrap()];
                task(n, lane, i32::try_from(n * 11 % 4).unwrap())
            })
            .collect()
    };
    let of_one = F::new();
    let mut one = of_one.open(at(0));
    push(&mut one, 0, tasks());
    let expected = drain(&mut one, 0);
    assert_eq!(expected.len(), 60);
    for batch in [2, 7, 60] {
        let of_many = F::new();
        let mut many = of_many.open(at(0));
        push(&mut many, 0, tasks());
        let mut order = Vec::new();
        loop {
            let leased = exchange(&mut many, 0, vec![], batch);
            if leased.tasks.is_empty() {
                break;
            }
            order.extend(numbers(&leased));
        }
        assert_eq!(order, expected, "in batches of {batch}");
    }
}

fn each_lane_is_leased_what_it_has_room_for<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(0));
    push(&mut store, 0, (1..=6).map(|n| task(n, "a", 0)).collect());
    push(&mut store, 0, (7..=9).map(|n| task(n, "b", 5)).collect());
    push(&mut store, 0, vec![task(10, "c", 9)]);
    let ask = |store: &mut F::Store, owner, lease, each, lanes: &[(&str, usize)]| {
        let lanes = lanes.iter().map(|(lane, room)| ((*lane).into(), *room));
        let exchange = Exchange {
            site: SITE.into(),
            owner,
            completions: vec![],
            lease,
            room: LaneRoom {
                each,
                lanes: lanes.collect(),
            },
        };
        let leased = store.exchange(at(0), exchange).unwrap();
        store.commit(at(0)).unwrap();
        leased
    };
    let first = ask(&mut store, 1, 9, 1, &[("a", 3), ("c", 0), ("unknown", 7)]);
    assert_eq!(numbers(&first), [1, 2, 3, 7]);
    assert!(!first.more, "what is left has no room");
    let second = ask(&mut store, 1, 2, 9, &[("a", 0)]);
    assert_eq!(numbers(&second), [8, 9]);
    assert!(second.more, "the last lane had room");
    let release = ReleaseOwner {
        site: SITE.into(),
        owner: 1,
    };
    assert_eq!(store.release_owner(at(0), release).unwrap(), 6);
    // What a dead holder had comes first, but not beyond its lane's room.
    let again = ask(&mut store, 2, 9, 9, &[("a", 2), ("b", 2)]);
    assert_eq!(numbers(&again), [1, 2, 7, 8, 10]);
    assert_eq!(numbers(&ask(&mut store, 2, 9, 9, &[])), [3, 9, 4, 5, 6]);
}

fn what_was_asked_least_goes_first<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(0));
    push(&mut store, 0, (1..=3).map(|n| task(n, "a", 0)).collect());
    push(&mut store, 0, vec![task(4, "a", 1)]);
    let fail = |leased: &Leased| {
        let due = at(0);
        let outcome = Outcome::ServerError;
        vec![end(&leased.tasks[0], TaskEnd::Retry { due, outcome })]
    };
    let mut ends = vec![];
    let mut order = Vec::new();
    for _ in 0..7 {
        let leased = exchange(&mut store, 0, ends, 1);
        order.extend(numbers(&leased));
        ends = fail(&leased);
    }
    assert_eq!(order, [1, 2, 3, 1, 2, 3, 1]);
}

fn a_completion_is_one_step<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(0));
    push(&mut store, 0, vec![task(1, "a", 0)]);
    let first = exchange(&mut store, 0, vec![], 1);
    let completion = Completion {
        records: vec![record("k", 1)],
        follow: vec![task(2, "a", 1), task(1, "a", 1)],
        ..done(&first.tasks[0])
    };
    let next = exchange(&mut store, 5, vec![completion], 4);
    assert_eq!(numbers(&next), [2]);
    assert_eq!((next.pending, next.leased, next.stale), (0, 1, 0));
    drop(store);
    let store = fixture.open(at(6));
    let stored = store.record(SITE, "page", "k").unwrap().unwrap();
    assert_eq!((stored.revision, stored.at, &*stored.run), (1, at(5), "r1"));
    assert_eq!(stats(&store).tasks["done"], 1);
    assert_eq!(stats(&store).tasks["pending"], 1);
}

fn a_stale_token_changes_nothing<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(0));
    push(&mut store, 0, vec![task(1, "a", 0)]);
    let first = exchange(&mut store, 0, vec![], 1);
    let stale = Completion {
        records: vec![record("k", 1)],
        follow: vec![task(2, "a", 1)],
        list: Some(ListState::default()),
        ..done(&first.tasks[0])
    };
    let mut wrong = stale.clone();
    wrong.lease = LeaseToken::MAX;
    let release = ReleaseOwner {
        site: SITE.into(),
        owner: 1,
    };
    assert_eq!(exchange(&mut store, 0, vec![wrong], 0).stale, 1);
    assert_eq!(store.release_owner(at(0), release).unwrap(), 1);
    store.commit(at(0)).unwrap();
    let again = exchange(&mut store, 0, vec![stale.clone()], 1);
    assert_eq!(again.stale, 1);
    assert!(again.tasks[0].lease > first.tasks[0].lease);
    assert_eq!(store.record(SITE, "page", "k").unwrap(), None);
    assert_eq!(stats(&store).added, 1);
    let good = done(&again.tasks[0]);
    assert_eq!(exchange(&mut store, 0, vec![good.clone()], 0).stale, 0);
    assert_eq!(exchange(&mut store, 0, vec![good, stale], 0).stale, 2);
}

fn every_end_leads_to_its_state<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(0));
    push(&mut store, 0, (1..=7).map(|n| task(n, "a", 0)).collect());
    let leased = exchange(&mut store, 0, vec![], 7);
    let outcome = Outcome::Timeout;
    let reason = || "because".to_owned();
    let ends = [
        TaskEnd::Done {
            outcome: Outcome::Gone,
        },
        TaskEnd::Continue,
        TaskEnd::Retry {
            due: at(50),
            outcome,
        },
        TaskEnd::Unused { due: Some(at(60)) },
        TaskEnd::Failed {
            outcome: Outcome::ClientError,
            reason: reason(),
        },
        TaskEnd::Parked {
            outcome,
            until: Some(at(900)),
            reason: reason(),
        },
        TaskEnd::Dropped { reason: reason() },
    ];
    let completions = leased.tasks.iter().zip(ends).map(|(t, e)| end(t, e));
    let after = exchange(&mut store, 1, completions.collect(), 0);
    assert_eq!((after.pending, after.leased), (3, 0));
    drop(store);
    let store = fixture.open(at(2));
    let stats = stats(&store);
    assert_eq!(stats.parked_until, Some(at(900)));
    for (state, n) in [
        ("pending", 3),
        ("leased", 0),
        ("done", 1),
        ("failed", 1),
        ("parked", 1),
        ("dropped", 1),
    ] {
        assert_eq!(stats.tasks[state], n, "{state}");
    }
}

fn delays_holds_and_parking_end_in_time<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(0));
    push(&mut store, 0, (1..=4).map(|n| task(n, "a", 0)).collect());
    push(&mut store, 0, vec![task(5, "b", 0)]);
    let leased = exchange(&mut store, 0, vec![], 8);
    let by = |n: u64| leased.tasks.iter().find(|t| number(t) == n).unwrap();
    let outcome = Outcome::Limited;
    let ends = vec![
        end(
            by(1),
            TaskEnd::Retry {
                due: at(20),
                outcome,
            },
        ),
        end(by(2), TaskEnd::Unused { due: Some(at(10)) }),
        end(
            by(3),
            TaskEnd::Parked {
                outcome,
                until: Some(at(40)),
                reason: String::new(),
            },
        ),
        end(
            by(4),
            TaskEnd::Parked {
                outcome,
                until: None,
                reason: String::new(),
            },
        ),
        end(by(5), TaskEnd::Unused { due: None }),
    ];
    let hold = |store: &mut F::Store, lane: &str, until: i64| {
        store.hold(&Hold {
            site: SITE.into(),
            lane: lane.into(),
            until: at(until),
        });
    };
    hold(&mut store, "b", 5);
    let none = exchange(&mut store, 4, ends, 8);
    assert_eq!(
        (none.tasks.len(), none.next_due, none.pending),
        (0, Some(at(5)), 3)
    );
    let five = exchange(&mut store, 5, vec![], 8);
    assert_eq!(numbers(&five), [5]);
    assert_eq!(exchange(&mut store, 9, vec![], 8).next_due, Some(at(10)));
    let two = exchange(&mut store, 10, vec![], 8);
    assert_eq!((numbers(&two), two.tasks[0].attempts), (vec![2], 0));
    hold(&mut store, "a", 30);
    let held = exchange(&mut store, 20, vec![], 8);
    assert_eq!((held.tasks.len(), held.next_due), (0, Some(at(30))));
    let one = exchange(&mut store, 30, vec![], 8);
    assert_eq!((numbers(&one), one.tasks[0].attempts), (vec![1], 1));
    assert_eq!(
        exchange(&mut store, 39, vec![], 8).next_due,
        None,
        "nothing pending waits"
    );
    let three = exchange(&mut store, 40, vec![], 8);
    assert_eq!((numbers(&three), three.tasks[0].attempts), (vec![3], 0));
}

fn what_an_owner_held_comes_first_again<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(0));
    push(&mut store, 0, (1..=4).map(|n| task(n, "a", 5)).collect());
    let mine = exchange(&mut store, 0, vec![], 2);
    let other = Exchange {
        site: SITE.into(),
        owner: 2,
        completions: vec![],
        lease: 1,
        room: LaneRoom::default(),
    };
    let others = store.exchange(at(0), other).unwrap();
    push(&mut store, 0, vec![task(9, "a", 0)]);
    let release = ReleaseOwner {
        site: SITE.into(),
        owner: 1,
    };
    assert_eq!(store.release_owner(at(0), release).unwrap(), 2);
    store.commit(at(0)).unwrap();
    let again = exchange(&mut store, 0, vec![done(&others.tasks[0])], 9);
    assert_eq!(again.stale, 0, "the other owner keeps its lease");
    assert_eq!(numbers(&mine), [1, 2]);
    assert_eq!(numbers(&again), [1, 2, 9, 4]);
    assert_eq!(again.tasks[0].attempts, 0);
}

fn a_kill_returns_leases_in_their_order<F: Fixture>() {
    let tasks = || -> Vec<NewTask> {
        (0..40)
            .map(|n| {
                let lane = ["a", "b", "c"][usize::try_from(n % 3).unwrap()];
                task(n, lane, i32::try_from(n % 2).unwrap())
            })
            .collect()
    };
    let of_whole = F::new();
    let mut whole = of_whole.open(at(0));
    push(&mut whole, 0, tasks());
    let expected = drain(&mut whole, 0);
    for prefetch in [1, 3] {
        let fixture = F::new();
        let mut store = fixture.open(at(0));
        push(&mut store, 0, tasks());
        let mut order = Vec::new();
        let mut now = 0;
        while order.len() < expected.len() {
            let mut held: Vec<Task> = Vec::new();
            // Three tasks per life, then a kill with leases out.
            for _ in 0..3 {
                let want = prefetch - held.len();
                held.extend(exchange(&mut store, now, vec![], want).tasks);
                if held.is_empty() {
                    break;
                }
                let task = held.remove(0);
                order.push(number(&task));
                exchange(&mut store, now, vec![done(&task)], 0);
            }
            exchange(&mut store, now, vec![], prefetch - held.len());
            drop(store);
            now += 1;
            store = fixture.open(at(now));
            stats(&store);
        }
        assert_eq!(order, expected, "with {prefetch} leases");
    }
}

fn a_task_that_outlives_its_holders_is_failed<F: Fixture>() {
    let fixture = F::new();
    push(&mut fixture.open(at(0)), 0, vec![task(1, "a", 0)]);
    for life in 1..=5 {
        let mut store = fixture.open(at(life));
        let leased = exchange(&mut store, life, vec![], 1);
        assert_eq!(numbers(&leased), [1], "life {life}");
        assert_eq!(leased.tasks[0].attempts, 0, "a kill is not an attempt");
    }
    let mut store = fixture.open(at(6));
    assert!(exchange(&mut store, 6, vec![], 1).tasks.is_empty());
    assert_eq!(stats(&store).tasks["failed"], 1);
    assert!(stats(&store).troubles[0].reason.contains("5 times"));
}

fn a_progress_clears_the_kills<F: Fixture>() {
    let fixture = F::new();
    push(&mut fixture.open(at(0)), 0, vec![task(1, "a", 0)]);
    for life in 1..=12 {
        let mut store = fixture.open(at(life));
        let leased = exchange(&mut store, life, vec![], 1);
        assert_eq!(numbers(&leased), [1], "life {life}");
        if life % 4 == 0 {
            let on = end(&leased.tasks[0], TaskEnd::Continue);
            exchange(&mut store, life, vec![on], 0);
        }
    }
}

/// Whether the holder of a lease may go on at task `n`.
fn claim(store: &mut impl Frontier, holder: &Task, n: u64) -> bool {
    let target = task(n, "a", 0);
    let claim = Claim {
        task: holder.id,
        lease: holder.lease,
        key: target.key,
        params: target.params,
    };
    store.claim(at(0), claim).unwrap()
}

fn redirect_targets_are_claimed_once<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(0));
    push(&mut store, 0, vec![task(1, "a", 0), task(2, "a", 0)]);
    let leased = exchange(&mut store, 0, vec![], 2);
    assert!(claim(&mut store, &leased.tasks[0], 7));
    assert!(claim(&mut store, &leased.tasks[0], 7), "its own already");
    assert!(
        claim(&mut store, &leased.tasks[0], 1),
        "its own from the start"
    );
    assert!(!claim(&mut store, &leased.tasks[1], 7));
    assert!(!claim(&mut store, &leased.tasks[1], 1));
    assert!(claim(&mut store, &leased.tasks[0], 9));
    store.commit(at(0)).unwrap();
    drop(store);
    let mut store = fixture.open(at(0));
    let leased = exchange(&mut store, 0, vec![], 2);
    assert_eq!(
        leased.tasks[0].params,
        task(9, "a", 0).params,
        "it goes on from the last hop"
    );
    assert_eq!(push(&mut store, 0, vec![task(7, "a", 0)]), (0, 1));
    exchange(&mut store, 0, vec![done(&leased.tasks[0])], 0);
    assert!(!claim(&mut store, &leased.tasks[0], 8), "the lease is over");
    store.commit(at(0)).unwrap();
    assert_eq!(push(&mut store, 0, vec![task(8, "a", 0)]), (1, 0));
}

fn lists_go_on_where_they_stood<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(0));
    let mut list = task(1, "a", 0);
    list.list = true;
    push(&mut store, 0, vec![list]);
    let first = exchange(&mut store, 0, vec![], 1);
    assert_eq!(first.tasks[0].list, Some(ListState::default()));
    let state = ListState {
        pages: 1,
        cursor: Some(json!({"c": [1, "x"]})),
        seen: vec![u64::MAX],
        ..ListState::default()
    };
    let on = Completion {
        list: Some(state.clone()),
        ..end(&first.tasks[0], TaskEnd::Continue)
    };
    exchange(&mut store, 0, vec![on], 0);
    drop(store);
    let mut store = fixture.open(at(1));
    assert!(stats(&store).lists.is_empty());
    let second = exchange(&mut store, 1, vec![], 1);
    assert_eq!(second.tasks[0].list, Some(state.clone()));
    let over = Completion {
        list: Some(ListState {
            stop: Some(StopReason::ServerWindow),
            ..state
        }),
        ..done(&second.tasks[0])
    };
    exchange(&mut store, 1, vec![over], 0);
    drop(store);
    let store = fixture.open(at(2));
    assert_eq!(stats(&store).lists["server_window"], 1);
    assert_eq!(stats(&store).lists.len(), 1);
}

fn records_have_revisions<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(0));
    push(&mut store, 0, (1..=4).map(|n| task(n, "a", 0)).collect());
    let leased = exchange(&mut store, 0, vec![], 4);
    let mut reordered = record("b", 1);
    reordered.fields.insert("more".into(), json!("ü"));
    let mut other = record("b", 1);
    other.fields.clear();
    other.fields.insert("more".into(), json!("ü"));
    other.fields.insert("value".into(), json!(1));
    let found = [
        vec![record("a", 1), reordered, record("a", 1)],
        vec![record("a", 2), other],
        vec![record("a", 2)],
        vec![record("a", 1)],
    ];
    for (n, (task, records)) in leased.tasks.iter().zip(found).enumerate() {
        let completion = Completion {
            records,
            ..done(task)
        };
        exchange(
            &mut store,
            i64::try_from(n).unwrap() + 10,
            vec![completion],
            0,
        );
    }
    let stored = store.record(SITE, "page", "a").unwrap().unwrap();
    assert_eq!((stored.revision, stored.at), (3, at(13)));
    assert_eq!(stored.record, record("a", 1));
    assert_eq!(stored.change, Change::Updated);
    let pages = stats(&store).records["page"];
    assert_eq!((pages.stored, pages.updated, pages.unchanged), (2, 2, 3));
    let mut all = Vec::new();
    store.each_record(&mut |r| all.push(r.record.key)).unwrap();
    assert_eq!(all, ["b", "a"], "by the time of the current revision");
    assert_eq!(store.record(SITE, "other", "a").unwrap(), None);
}

fn what_was_not_committed_has_not_happened<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(0));
    push(&mut store, 0, vec![task(1, "a", 0)]);
    let first = exchange(&mut store, 0, vec![], 1);
    let unsaved = Exchange {
        site: SITE.into(),
        owner: 1,
        completions: vec![Completion {
            records: vec![record("k", 1)],
            ..done(&first.tasks[0])
        }],
        lease: 1,
        room: LaneRoom::default(),
    };
    store.exchange(at(0), unsaved).unwrap();
    drop(store);
    let mut store = fixture.open(at(1));
    assert_eq!(store.record(SITE, "page", "k").unwrap(), None);
    let again = exchange(&mut store, 1, vec![], 1);
    assert_eq!(numbers(&again), [1]);
    assert!(again.tasks[0].lease > first.tasks[0].lease);
}

fn runs_are_resumed_until_complete<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(1));
    assert_eq!(&*store.run(), "r1");
    push(&mut store, 1, vec![task(1, "a", 0), task(2, "a", 0)]);
    exchange(&mut store, 1, vec![], 1);
    store
        .close(at(2), "interrupted", Some("{\"n\":1}"))
        .unwrap();
    drop(store);
    let mut store = fixture.open(at(3));
    assert_eq!(&*store.run(), "r1");
    assert_eq!(store.last_report().unwrap().as_deref(), Some("{\"n\":1}"));
    assert_eq!(
        drain(&mut store, 3),
        [1, 2],
        "a close returns leases in order"
    );
    store.close(at(4), "complete", Some("{\"n\":2}")).unwrap();
    drop(store);
    let store = fixture.open(at(5));
    assert_eq!(&*store.run(), "r2");
    assert_eq!(
        store.runs().unwrap().len(),
        1,
        "a run that does nothing leaves no trace"
    );
    drop(store);
    let mut store = fixture.open(at(6));
    push(&mut store, 6, vec![task(1, "a", 0)]);
    assert_eq!(
        store.runs().unwrap().len(),
        1,
        "nothing new is nothing done"
    );
    push(&mut store, 6, vec![task(3, "a", 0)]);
    let runs = store.runs().unwrap();
    assert_eq!(runs.len(), 2);
    assert_eq!(
        (&*runs[0].run, runs[0].resumed, runs[0].started),
        ("r1", 1, at(1))
    );
    assert_eq!(
        (runs[0].outcome.as_deref(), runs[0].ended),
        (Some("complete"), Some(at(4)))
    );
    assert_eq!(
        (&*runs[1].run, runs[1].resumed, runs[1].ended),
        ("r2", 0, None)
    );
    assert_eq!(store.last_report().unwrap().as_deref(), Some("{\"n\":2}"));
}

fn troubles_are_told<F: Fixture>() {
    let fixture = F::new();
    let mut store = fixture.open(at(0));
    let mut page = task(1, "a", 0);
    page.params = json!({"url": "http://h/1"}).as_object().unwrap().clone();
    push(&mut store, 0, vec![page]);
    push(&mut store, 0, (2..40).map(|n| task(n, "a", 0)).collect());
    let leased = exchange(&mut store, 0, vec![], 40);
    let ends = leased.tasks.iter().map(|t| {
        end(
            t,
            TaskEnd::Failed {
                outcome: Outcome::ServerError,
                reason: "500".into(),
            },
        )
    });
    exchange(&mut store, 0, ends.collect(), 0);
    let troubles = stats(&store).troubles;
    assert_eq!(troubles.len(), 20);
    let first = &troubles[0];
    assert_eq!(
        (&*first.what, first.state, first.attempts),
        ("http://h/1", "failed", 1)
    );
    assert_eq!(
        (&*first.outcome, &*first.reason, &*first.endpoint),
        ("server_error", "500", "e")
    );
    assert_eq!(troubles[1].what, "{\"n\":2}");
}
