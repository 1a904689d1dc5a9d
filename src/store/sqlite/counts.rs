//! The counts of a job: kept in memory, written with each commit as far as they changed.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::names::{NameId, Names};
use crate::model::{Change, StopReason, TaskState};
use crate::store::messages::{RecordStats, SiteStats, StoreStats};

/// Counts of one site.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SiteCounts {
    pub(super) added: i64,
    /// Tasks by [`TaskState`], in its order.
    pub(super) tasks: [i64; 6],
    /// Ended lists by stop reason.
    pub(super) lists: BTreeMap<&'static str, i64>,
    /// By kind.
    pub(super) records: BTreeMap<NameId, RecordCounts>,
}

/// Counts of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordCounts {
    stored: i64,
    unchanged: i64,
    updated: i64,
}

/// Counts of all sites, and which of them the file holds already.
#[derive(Debug, Default)]
pub(super) struct Counts {
    now: BTreeMap<NameId, SiteCounts>,
    stored: BTreeMap<NameId, SiteCounts>,
}

const STOPS: [StopReason; 9] = [
    StopReason::Complete,
    StopReason::Cap,
    StopReason::Known,
    StopReason::ServerWindow,
    StopReason::Stalled,
    StopReason::EmptyUnconfirmed,
    StopReason::Blocked,
    StopReason::Interrupted,
    StopReason::Error,
];

fn place(state: TaskState) -> usize {
    match state {
        TaskState::Pending => 0,
        TaskState::Leased => 1,
        TaskState::Done => 2,
        TaskState::Failed => 3,
        TaskState::Parked => 4,
        TaskState::Dropped => 5,
    }
}

impl Counts {
    /// Read them.
    pub(super) fn load(db: &Connection, names: &Names) -> rusqlite::Result<Self> {
        let mut now: BTreeMap<NameId, SiteCounts> = BTreeMap::new();
        let mut rows = db.prepare("SELECT site, what, n FROM counts")?;
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            let site = now.entry(row.get(0)?).or_default();
            let what: String = row.get(1)?;
            site.set(&what, row.get(2)?, names);
        }
        let stored = now.clone();
        Ok(Self { now, stored })
    }

    /// The counts of a site.
    pub(super) fn site(&mut self, site: NameId) -> &mut SiteCounts {
        self.now.entry(site).or_default()
    }

    /// Tasks of a site in a state.
    pub(super) fn tasks(&self, site: NameId, state: TaskState) -> u64 {
        self.now
            .get(&site)
            .map_or(0, |counts| unsigned(counts.tasks[place(state)]))
    }

    /// Tasks of all sites in a state.
    pub(super) fn all_tasks(&self, state: TaskState) -> u64 {
        self.now
            .values()
            .map(|counts| unsigned(counts.tasks[place(state)]))
            .sum()
    }

    /// Distinct records of a kind, over all sites.
    pub(super) fn records(&self, kind: Option<NameId>) -> u64 {
        let Some(kind) = kind else { return 0 };
        self.now
            .values()
            .filter_map(|counts| counts.records.get(&kind))
            .map(|counts| unsigned(counts.stored))
            .sum()
    }

    /// The first site whose states do not add up to what was added.
    pub(super) fn unbalanced(&self) -> Option<NameId> {
        self.now
            .iter()
            .find(|(_, counts)| counts.added != counts.tasks.iter().sum::<i64>())
            .map(|(&site, _)| site)
    }

    /// Write what changed since the last call.
    pub(super) fn save(&mut self, db: &Connection, names: &Names) -> rusqlite::Result<()> {
        let mut write = db.prepare_cached(
            "INSERT INTO counts(site, what, n) VALUES (?1, ?2, ?3)
             ON CONFLICT(site, what) DO UPDATE SET n = ?3",
        )?;
        let none = SiteCounts::default();
        for (site, now) in &self.now {
            let before = self.stored.get(site).unwrap_or(&none);
            if now == before {
                continue;
            }
            let mut old = BTreeMap::new();
            before.each(names, |what, n| {
                old.insert(what.to_owned(), n);
            });
            let mut changed = Vec::new();
            now.each(names, |what, n| {
                if old.get(what) != Some(&n) {
                    changed.push((what.to_owned(), n));
                }
            });
            for (what, n) in changed {
                write.execute(params![site, what, n])?;
            }
            self.stored.insert(*site, now.clone());
        }
        Ok(())
    }

    /// As they are told to others; `troubles` and times are for the caller to add.
    pub(super) fn stats(&self, names: &Names) -> StoreStats {
        let sites = self.now.iter().map(|(&site, counts)| {
            let stats = SiteStats {
                added: unsigned(counts.added),
                tasks: TaskState::ALL
                    .into_iter()
                    .map(|state| (state.as_str(), unsigned(counts.tasks[place(state)])))
                    .collect(),
                lists: counts
                    .lists
                    .iter()
                    .filter(|(_, n)| **n > 0)
                    .map(|(&stop, &n)| (stop.to_owned(), unsigned(n)))
                    .collect(),
                records: counts
                    .records
                    .iter()
                    .map(|(&kind, counts)| (names.get(kind).to_string(), counts.stats()))
                    .collect(),
                ..SiteStats::default()
            };
            (names.get(site).to_string(), stats)
        });
        StoreStats {
            sites: sites.collect(),
        }
    }
}

impl SiteCounts {
    /// A task was added, pending.
    pub(super) fn add(&mut self) {
        self.added += 1;
        self.tasks[place(TaskState::Pending)] += 1;
    }

    /// A task went from one state to another.
    pub(super) fn shift(&mut self, from: TaskState, to: TaskState) {
        self.tasks[place(from)] -= 1;
        self.tasks[place(to)] += 1;
    }

    /// A record of `kind` came.
    pub(super) fn record(&mut self, kind: NameId, change: Change) {
        let counts = self.records.entry(kind).or_default();
        match change {
            Change::New => counts.stored += 1,
            Change::Updated => counts.updated += 1,
            Change::Unchanged => counts.unchanged += 1,
        }
    }

    /// A list's stop reason changed.
    pub(super) fn list(&mut self, from: Option<StopReason>, to: Option<StopReason>) {
        if let Some(from) = from {
            *self.lists.entry(from.as_str()).or_default() -= 1;
        }
        if let Some(to) = to {
            *self.lists.entry(to.as_str()).or_default() += 1;
        }
    }

    /// Every count under the name it is stored by.
    fn each(&self, names: &Names, mut each: impl FnMut(&str, i64)) {
        each("added", self.added);
        for state in TaskState::ALL {
            each(state.as_str(), self.tasks[place(state)]);
        }
        for (stop, &n) in &self.lists {
            each(&format!("list {stop}"), n);
        }
        for (&kind, counts) in &self.records {
            let kind = names.get(kind);
            each(&format!("stored {kind}"), counts.stored);
            each(&format!("unchanged {kind}"), counts.unchanged);
            each(&format!("updated {kind}"), counts.updated);
        }
    }

    /// The reverse of [`each`](Self::each).
    fn set(&mut self, what: &str, n: i64, names: &Names) {
        if what == "added" {
            self.added = n;
        } else if let Some(state) = TaskState::ALL.into_iter().find(|s| s.as_str() == what) {
            self.tasks[place(state)] = n;
        } else if let Some((what, name)) = what.split_once(' ') {
            if what == "list" {
                if let Some(stop) = STOPS.into_iter().find(|stop| stop.as_str() == name) {
                    self.lists.insert(stop.as_str(), n);
                }
                return;
            }
            let Some(kind) = names.find(name) else { return };
            let counts = self.records.entry(kind).or_default();
            match what {
                "stored" => counts.stored = n,
                "unchanged" => counts.unchanged = n,
                "updated" => counts.updated = n,
                _ => {}
            }
        }
    }
}

impl RecordCounts {
    fn stats(self) -> RecordStats {
        RecordStats {
            stored: unsigned(self.stored),
            unchanged: unsigned(self.unchanged),
            updated: unsigned(self.updated),
        }
    }
}

/// The stop reason called `name`.
pub(super) fn stop_reason(name: &str) -> Option<StopReason> {
    STOPS.into_iter().find(|stop| stop.as_str() == name)
}

fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}
