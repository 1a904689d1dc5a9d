//! Used quota in the state of the user.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, params};

use super::{StateError, immediate, learned};
use crate::governor::{LearnedLane, PastUse, QuotaStore, QuotaStoreError, Recorded, Use};
use crate::model::UnixMillis;

// AUTOINCREMENT: a number is never used again, so that "newer than" stays true after a removal.
pub(super) const TABLES: &str = "CREATE TABLE IF NOT EXISTS quota_use (
         id INTEGER PRIMARY KEY AUTOINCREMENT,
         scope TEXT NOT NULL,
         at INTEGER NOT NULL,
         until INTEGER NOT NULL,
         owner INTEGER NOT NULL
     ) STRICT;
     CREATE INDEX IF NOT EXISTS quota_use_until ON quota_use (until);";

/// Commits between two removals of what has expired.
const PRUNE_EVERY: u32 = 1000;

/// Used quota in `state.db`. A use is on disk, synced, before its permit leaves; processes that share
/// the file see each other's uses before they store their own.
#[derive(Debug)]
pub struct StateQuotaStore {
    path: PathBuf,
    connection: Connection,
    /// Tells this opening of the file from all others.
    owner: i64,
    /// Number of the last row that the governor was told of.
    seen: i64,
    commits: u32,
}

impl StateQuotaStore {
    /// Open `state.db` in `directory`; both are made when missing.
    ///
    /// # Errors
    /// When the directory or the file cannot be made, opened or read; the text names it.
    pub fn open(directory: &Path) -> Result<Self, QuotaStoreError> {
        Ok(Self::of(super::open(directory)?))
    }

    /// As [`open`](Self::open), but `None` when there is no file: nothing is made.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_existing(directory: &Path) -> Result<Option<Self>, QuotaStoreError> {
        Ok(super::open_existing(directory)?.map(Self::of))
    }

    fn of((path, connection): (PathBuf, Connection)) -> Self {
        Self {
            path,
            connection,
            // The sign bit is of no use to anybody.
            owner: fastrand::i64(0..),
            seen: 0,
            commits: 0,
        }
    }

    fn try_load(&mut self, now: UnixMillis) -> rusqlite::Result<Vec<PastUse>> {
        let transaction = immediate(&mut self.connection)?;
        prune(&transaction, now)?;
        let uses = read(&transaction, 0, -1)?;
        self.seen = last_row(&transaction)?;
        transaction.commit()?;
        Ok(uses)
    }

    fn try_record(
        &mut self,
        now: UnixMillis,
        permits: &[Vec<Use>],
    ) -> rusqlite::Result<Vec<Recorded>> {
        // Taken at the start, the write lock makes reading and storing one step for all processes.
        let transaction = immediate(&mut self.connection)?;
        let fresh = read(&transaction, self.seen, self.owner)?;
        if fresh.is_empty() {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO quota_use (scope, at, until, owner) VALUES (?1, ?2, ?3, ?4)",
            )?;
            for used in permits.iter().flatten() {
                insert.execute(params![
                    used.scope,
                    now.0,
                    now.after(used.keep).0,
                    self.owner
                ])?;
            }
            self.commits += 1;
            if self.commits.is_multiple_of(PRUNE_EVERY) {
                prune(&transaction, now)?;
            }
        }
        let seen = last_row(&transaction)?;
        transaction.commit()?;
        self.seen = seen;
        Ok(Recorded::answer(fresh, permits.len()))
    }
}

impl QuotaStore for StateQuotaStore {
    fn load(&mut self, now: UnixMillis) -> Result<Vec<PastUse>, QuotaStoreError> {
        self.try_load(now)
            .map_err(|error| failed(&self.path, &error))
    }

    fn record(
        &mut self,
        now: UnixMillis,
        permits: &[Vec<Use>],
    ) -> Result<Vec<Recorded>, QuotaStoreError> {
        self.try_record(now, permits)
            .map_err(|error| failed(&self.path, &error))
    }

    fn learned(&mut self) -> Result<Vec<LearnedLane>, QuotaStoreError> {
        learned::read(&self.connection).map_err(|error| failed(&self.path, &error))
    }

    fn keep_learned(&mut self, lanes: &[LearnedLane]) -> Result<(), QuotaStoreError> {
        learned::keep(&mut self.connection, lanes).map_err(|error| failed(&self.path, &error))
    }
}

impl From<StateError> for QuotaStoreError {
    fn from(StateError(why): StateError) -> Self {
        Self(why)
    }
}

fn failed(path: &Path, error: &rusqlite::Error) -> QuotaStoreError {
    StateError::of(path, error).into()
}

fn prune(transaction: &Transaction<'_>, now: UnixMillis) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("DELETE FROM quota_use WHERE until <= ?1")?
        .execute([now.0])?;
    Ok(())
}

/// Rows after number `after` that are not of `owner`, oldest first.
fn read(transaction: &Transaction<'_>, after: i64, owner: i64) -> rusqlite::Result<Vec<PastUse>> {
    transaction
        .prepare_cached(
            "SELECT scope, at FROM quota_use WHERE id > ?1 AND owner <> ?2 ORDER BY id",
        )?
        .query_map([after, owner], |row| {
            Ok(PastUse {
                scope: row.get(0)?,
                at: UnixMillis(row.get(1)?),
            })
        })?
        .collect()
}

fn last_row(transaction: &Transaction<'_>) -> rusqlite::Result<i64> {
    transaction
        .prepare_cached(
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'quota_use'",
        )?
        .query_row([], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::STATE_FILE;
    use super::*;

    fn used(scope: &str) -> Vec<Vec<Use>> {
        vec![vec![Use {
            scope: scope.to_owned(),
            keep: Duration::from_secs(60),
        }]]
    }

    #[test]
    fn uses_survive_reopening_until_they_expire() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = StateQuotaStore::open(directory.path()).expect("opens");
        assert_eq!(store.load(UnixMillis(0)), Ok(Vec::new()));
        let done = store.record(UnixMillis(1000), &used("a"));
        assert_eq!(done, Ok(vec![Recorded::Done]));
        drop(store);
        let mut store = StateQuotaStore::open(directory.path()).expect("opens again");
        let past = PastUse {
            scope: "a".to_owned(),
            at: UnixMillis(1000),
        };
        assert_eq!(store.load(UnixMillis(60_999)), Ok(vec![past]));
        assert_eq!(store.load(UnixMillis(61_000)), Ok(Vec::new()));
    }

    #[test]
    fn who_has_not_seen_the_uses_of_others_stores_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut one = StateQuotaStore::open(directory.path()).expect("opens");
        let mut two = StateQuotaStore::open(directory.path()).expect("opens");
        one.load(UnixMillis(0)).expect("loads");
        two.load(UnixMillis(0)).expect("loads");
        one.record(UnixMillis(1), &used("a")).expect("stores");
        let answer = two.record(UnixMillis(2), &used("b")).expect("answers");
        let Recorded::Behind(past) = &answer[0] else {
            panic!("stored without having seen: {answer:?}");
        };
        assert_eq!(past.len(), 1);
        let answer = two.record(UnixMillis(3), &used("b")).expect("answers");
        assert_eq!(answer, [Recorded::Done]);
        let answer = one.record(UnixMillis(4), &used("a")).expect("answers");
        assert!(matches!(&answer[0], Recorded::Behind(past) if past[0].scope == "b"));
    }

    #[test]
    fn expired_rows_are_removed_and_their_numbers_not_used_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = StateQuotaStore::open(directory.path()).expect("opens");
        for at in 0..i64::from(PRUNE_EVERY) * 2 {
            store
                .record(UnixMillis(at * 1000), &used("a"))
                .expect("stores");
        }
        let rows: i64 = store
            .connection
            .query_row("SELECT count(*) FROM quota_use", [], |row| row.get(0))
            .expect("counts");
        assert!(rows <= 61, "{rows} rows");
        assert_eq!(store.seen, i64::from(PRUNE_EVERY) * 2);
    }

    #[test]
    fn an_error_names_the_file() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(
            directory.path().join(STATE_FILE),
            "this is no database, by any means at all",
        )
        .expect("writes");
        let error = StateQuotaStore::open(directory.path()).expect_err("not a database");
        assert!(error.to_string().contains(STATE_FILE), "{error}");
    }
}
