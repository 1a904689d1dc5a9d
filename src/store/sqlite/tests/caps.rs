//! Caps that are raised from one run to the next.

use super::*;
use crate::model::{ListState, NewTask, StopReason, TaskEnd};
use crate::store::contract::{end, stats};

fn list(n: u64) -> NewTask {
    NewTask {
        list: true,
        ..task(n, "a", 0)
    }
}

fn open(dir: &Dir, max_items: Option<u64>) -> JobStore {
    let mut options = options(dir.0.path(), at(1));
    options.caps.max_items = max_items;
    JobStore::open(options).unwrap()
}

/// Three lists: one of 5 items that ended at the cap, one that ended by itself, one that goes on.
fn three_lists(dir: &Dir) {
    let mut store = open(dir, Some(5));
    push(&mut store, 1, vec![list(1), list(2), list(3)]);
    let leased = exchange(&mut store, 1, vec![], 3);
    let ended = |n: usize, stop| {
        let state = ListState {
            pages: 1,
            items: 5,
            cursor: Some(2.into()),
            stop,
            ..ListState::default()
        };
        Completion {
            list: Some(state),
            ..match stop {
                Some(_) => done(&leased.tasks[n]),
                None => end(&leased.tasks[n], TaskEnd::Continue),
            }
        }
    };
    let completions = vec![
        ended(0, Some(StopReason::Cap)),
        ended(1, Some(StopReason::Complete)),
        ended(2, None),
    ];
    exchange(&mut store, 1, completions, 0);
}

fn balanced(store: &JobStore) -> [u64; 2] {
    let stats = stats(store);
    assert_eq!(stats.added, stats.tasks.values().sum::<u64>());
    [stats.tasks["pending"], stats.tasks["done"]]
}

#[test]
fn a_raised_cap_goes_on_with_the_lists_that_ended_at_it() {
    let dir = Dir::new();
    three_lists(&dir);
    for same_or_lower in [Some(5), Some(3), Some(5)] {
        let store = open(&dir, same_or_lower);
        assert_eq!(store.opened().reopened, 0);
        assert_eq!(balanced(&store), [1, 2]);
        assert_eq!(stats(&store).lists["cap"], 1);
    }
    let store = open(&dir, Some(9));
    assert_eq!(store.opened().reopened, 1);
    assert_eq!(balanced(&store), [2, 1]);
    assert_eq!(stats(&store).lists.get("cap"), None);
    drop(store);
    let mut store = open(&dir, Some(9));
    assert_eq!(store.opened().reopened, 0, "once");
    let leased = exchange(&mut store, 1, vec![], 3);
    let lists: Vec<_> = leased
        .tasks
        .into_iter()
        .flat_map(|task| task.list)
        .collect();
    assert_eq!(lists.len(), 2);
    assert!(lists.iter().all(|list| list.stop.is_none()));
    assert!(lists.iter().all(|list| list.cursor == Some(2.into())));
}

#[test]
fn a_run_that_was_complete_is_followed_by_a_new_one() {
    let dir = Dir::new();
    three_lists(&dir);
    let mut store = open(&dir, Some(5));
    let leased = exchange(&mut store, 1, vec![], 1);
    exchange(&mut store, 1, vec![done(&leased.tasks[0])], 0);
    store.close(at(2), "complete", None).unwrap();
    drop(store);
    assert!(open(&dir, Some(5)).opened().complete);
    let store = open(&dir, None);
    assert!(!store.opened().complete, "lifted");
    assert_eq!((&*store.run(), store.opened().reopened), ("r2", 1));
}
