//! Random histories against a model: what was acknowledged is there, the counts add up, each revision is written once.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::model::{Outcome, Task, TaskEnd};
use crate::store::contract::{end, stats};
use crate::store::messages::LaneRoom;

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    Push {
        n: u64,
        lane: usize,
        priority: i32,
    },
    Exchange {
        end: usize,
        how: u8,
        value: u64,
        lease: usize,
        commit: bool,
    },
    Hold {
        lane: usize,
        length: i64,
    },
    Release,
    Wait(i64),
    /// The process dies; so many bytes of a torn line are left behind the output.
    Kill {
        torn: usize,
    },
    Close,
}

const LANES: [&str; 3] = ["a", "b", "c"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let push = (0..40u64, 0..3usize, 0..4i32).prop_map(|(n, lane, priority)| Step::Push {
        n,
        lane,
        priority,
    });
    let exchange = (
        0..4usize,
        0..8u8,
        0..3u64,
        0..4usize,
        prop::bool::weighted(0.9),
    )
        .prop_map(|(end, how, value, lease, commit)| Step::Exchange {
            end,
            how,
            value,
            lease,
            commit,
        });
    let step = prop_oneof![
        5 => push,
        12 => exchange,
        1 => (0..3usize, 1..50i64).prop_map(|(lane, length)| Step::Hold { lane, length }),
        1 => Just(Step::Release),
        2 => (1..40i64).prop_map(Step::Wait),
        2 => (0..30usize).prop_map(|torn| Step::Kill { torn }),
        1 => Just(Step::Close),
    ];
    prop::collection::vec(step, 1..80)
}

/// What must be there.
#[derive(Default)]
struct Model {
    keys: BTreeSet<u64>,
    /// Value and revision of each record.
    records: BTreeMap<String, (u64, u32)>,
    revisions: usize,
    ended: BTreeMap<&'static str, u64>,
}

impl Model {
    fn store(&mut self, key: &str, value: u64) {
        let known = self.records.entry(key.to_owned()).or_insert((u64::MAX, 0));
        if known.0 != value {
            *known = (value, known.1 + 1);
            self.revisions += 1;
        }
    }

    fn check(&self, store: &JobStore, leased: usize, dir: &Path) {
        let stats = stats(store);
        assert_eq!(stats.added, self.keys.len() as u64);
        assert_eq!(
            stats.tasks.get("leased").copied().unwrap_or(0),
            leased as u64
        );
        for (state, n) in &self.ended {
            assert_eq!(stats.tasks[state], *n, "{state}");
        }
        for (key, (value, revision)) in &self.records {
            let stored = store.record(SITE, "page", key).unwrap().unwrap();
            assert_eq!(
                (stored.record.fields["value"].as_u64(), stored.revision),
                (Some(*value), *revision)
            );
        }
        // The counters tell what the tables hold.
        let count = |sql: &str| -> i64 { store.db.query_row(sql, [], |row| row.get(0)).unwrap() };
        assert_eq!(
            count("SELECT count(*) FROM tasks"),
            i64::try_from(stats.added).unwrap()
        );
        assert_eq!(
            count("SELECT count(*) FROM records"),
            i64::try_from(self.records.len()).unwrap()
        );
        for (n, state) in crate::model::TaskState::ALL.into_iter().enumerate() {
            let held = count(&format!("SELECT count(*) FROM tasks WHERE state = {n}"));
            let told = stats.tasks.get(state.as_str()).copied().unwrap_or(0);
            assert_eq!(held, i64::try_from(told).unwrap(), "{}", state.as_str());
        }
        let lines = lines(dir);
        let distinct: BTreeSet<_> = lines
            .iter()
            .map(|line| (line["_key"].to_string(), line["_rev"].to_string()))
            .collect();
        assert_eq!(
            (lines.len(), distinct.len()),
            (self.revisions, self.revisions)
        );
    }
}

/// Every way in which a lease can end.
fn how_it_ends(how: u8, now: i64) -> TaskEnd {
    let outcome = Outcome::Timeout;
    let reason = String::new();
    match how {
        0 => TaskEnd::Continue,
        1 => TaskEnd::Retry {
            due: at(now + 10),
            outcome,
        },
        2 => TaskEnd::Unused { due: None },
        // What may have passed would be asked again after a kill.
        3 => TaskEnd::Failed {
            outcome: Outcome::ClientError,
            reason,
        },
        4 => TaskEnd::Parked {
            outcome,
            until: Some(at(now + 1_000_000)),
            reason,
        },
        5 => TaskEnd::Dropped { reason },
        _ => TaskEnd::Done {
            outcome: Outcome::Ok,
        },
    }
}

fn state_after(how: u8) -> Option<&'static str> {
    match how {
        0..=2 => None,
        3 => Some("failed"),
        4 => Some("parked"),
        5 => Some("dropped"),
        _ => Some("done"),
    }
}

/// Die and come back.
fn reopen(store: JobStore, dir: &Path, now: i64, torn: usize) -> JobStore {
    drop(store);
    let file = dir.join("s.page.jsonl");
    if torn > 0 && file.exists() {
        let mut bytes = std::fs::read(&file).unwrap();
        bytes.extend(std::iter::repeat_n(b'{', torn));
        std::fs::write(&file, bytes).unwrap();
    }
    JobStore::open(options(dir, at(now))).unwrap()
}

fn replay(steps: Vec<Step>) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = JobStore::open(options(dir.path(), at(0))).unwrap();
    let mut model = Model::default();
    let mut held: Vec<Task> = Vec::new();
    let mut now = 0;
    for step in steps {
        match step {
            Step::Push { n, lane, priority } => {
                let (added, _) = push(&mut store, now, vec![task(n, LANES[lane], priority)]);
                assert_eq!(added == 1, model.keys.insert(n));
            }
            Step::Exchange {
                end: ends,
                how,
                value,
                lease,
                commit,
            } => {
                let ended: Vec<Task> = held.drain(..ends.min(held.len())).collect();
                let completions = ended.iter().map(|t| Completion {
                    records: vec![record(&format!("k{}", t.id % 5), value)],
                    ..end(t, how_it_ends(how, now))
                });
                let exchange = Exchange {
                    site: SITE.into(),
                    owner: 1,
                    completions: completions.collect(),
                    lease,
                    room: LaneRoom::default(),
                };
                let leased = store.exchange(at(now), exchange).unwrap();
                assert_eq!(leased.stale, 0);
                if !commit {
                    // Died before the commit: none of it has happened.
                    now += 1;
                    store = reopen(store, dir.path(), now, 0);
                    let poisoned = store.opened().poisoned;
                    *model.ended.entry("failed").or_default() += poisoned;
                    held.clear();
                    continue;
                }
                store.commit(at(now)).unwrap();
                for task in &ended {
                    model.store(&format!("k{}", task.id % 5), value);
                    if let Some(state) = state_after(how) {
                        *model.ended.entry(state).or_default() += 1;
                    }
                }
                held.extend(leased.tasks);
            }
            Step::Hold { lane, length } => store.hold(&Hold {
                site: SITE.into(),
                lane: LANES[lane].into(),
                until: at(now + length),
            }),
            Step::Release => {
                let before = stats(&store).tasks.get("failed").copied().unwrap_or(0);
                let release = ReleaseOwner {
                    site: SITE.into(),
                    owner: 1,
                };
                assert_eq!(
                    store.release_owner(at(now), release).unwrap(),
                    held.len() as u64
                );
                store.commit(at(now)).unwrap();
                let after = stats(&store).tasks.get("failed").copied().unwrap_or(0);
                *model.ended.entry("failed").or_default() += after - before;
                held.clear();
            }
            Step::Wait(length) => now += length,
            Step::Kill { torn } => {
                now += 1;
                store = reopen(store, dir.path(), now, torn);
                assert_eq!(store.opened().void_leases, held.len() as u64);
                *model.ended.entry("failed").or_default() += store.opened().poisoned;
                held.clear();
            }
            Step::Close => {
                store.close(at(now), "interrupted", None).unwrap();
                held.clear();
                store = reopen(store, dir.path(), now, 0);
                assert_eq!(store.opened().void_leases, 0);
            }
        }
        if model.ended.values().sum::<u64>() == 0 {
            model.ended.clear();
        }
        model.check(&store, held.len(), dir.path());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_acknowledged_is_there(steps in steps()) {
        replay(steps);
    }
}
