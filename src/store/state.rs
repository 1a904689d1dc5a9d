//! The state of the user, beside all jobs: used quota, and what lanes have learned. One SQLite file that several
//! processes may share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use crate::governor::{LearnedLane, PastUse, QuotaStore, QuotaStoreError, Recorded, Use};
use crate::model::UnixMillis;

/// Name of the file in the state directory.
pub(super) const STATE_FILE: &str = "state.db";

/// How long a process waits for another one's commit.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Commits between two removals of what has expired.
const PRUNE_EVERY: u32 = 1000;
/// The version of the tables. Files of before it was marked have version 0 and lack what is made when missing.
const VERSION: i64 = 1;
/// What was learned this long ago says nothing any more: 90 days. It bounds the file, too.
const LEARNED_KEEP: Duration = Duration::from_secs(90 * 86_400);

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
        let path = directory.join(STATE_FILE);
        std::fs::create_dir_all(directory)
            .map_err(|error| QuotaStoreError(format!("{}: {error}", directory.display())))?;
        let connection = Connection::open(&path).map_err(|error| failed(&path, &error))?;
        prepare(&path, &connection)?;
        Ok(Self {
            path,
            connection,
            // The sign bit is of no use to anybody.
            owner: fastrand::i64(0..),
            seen: 0,
            commits: 0,
        })
    }

    /// As [`open`](Self::open), but `None` when there is no file: nothing is made.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_existing(directory: &Path) -> Result<Option<Self>, QuotaStoreError> {
        match directory.join(STATE_FILE).try_exists() {
            Ok(false) => Ok(None),
            Ok(true) | Err(_) => Self::open(directory).map(Some),
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

    fn try_keep(&mut self, lanes: &[LearnedLane]) -> rusqlite::Result<()> {
        let Some(newest) = lanes.iter().map(|lane| lane.at).max() else {
            return Ok(());
        };
        let transaction = immediate(&mut self.connection)?;
        {
            // Of two processes that crawl one site, the one that knew it last is right.
            let mut upsert = transaction.prepare_cached(
                "INSERT INTO learned (scope, at, learned) VALUES (?1, ?2, ?3)
                 ON CONFLICT (scope) DO UPDATE SET at = excluded.at, learned = excluded.learned
                 WHERE excluded.at >= at",
            )?;
            for lane in lanes {
                upsert.execute(params![lane.scope, lane.at.0, lane.learned])?;
            }
            let keep = i64::try_from(LEARNED_KEEP.as_millis()).unwrap_or(i64::MAX);
            transaction
                .prepare_cached("DELETE FROM learned WHERE at < ?1")?
                .execute([newest.0.saturating_sub(keep)])?;
        }
        transaction.commit()
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
        read_learned(&self.connection).map_err(|error| failed(&self.path, &error))
    }

    fn keep_learned(&mut self, lanes: &[LearnedLane]) -> Result<(), QuotaStoreError> {
        self.try_keep(lanes)
            .map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &rusqlite::Error) -> QuotaStoreError {
    QuotaStoreError(format!("{}: {error}", path.display()))
}

/// Look at the version, make what is missing.
fn prepare(path: &Path, connection: &Connection) -> Result<(), QuotaStoreError> {
    let version = connection
        .busy_timeout(BUSY_TIMEOUT)
        .and_then(|()| connection.pragma_query_value(None, "user_version", |row| row.get(0)))
        .map_err(|error| failed(path, &error))?;
    if version > VERSION {
        return Err(QuotaStoreError(format!(
            "{}: it is of version {version}, made by a newer program; this one knows up to {VERSION}",
            path.display()
        )));
    }
    make_tables(connection, version).map_err(|error| failed(path, &error))
}

fn make_tables(connection: &Connection, version: i64) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // AUTOINCREMENT: a number is never used again, so that "newer than" stays true after a removal.
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS quota_use (
             id INTEGER PRIMARY KEY AUTOINCREMENT,
             scope TEXT NOT NULL,
             at INTEGER NOT NULL,
             until INTEGER NOT NULL,
             owner INTEGER NOT NULL
         ) STRICT;
         CREATE INDEX IF NOT EXISTS quota_use_until ON quota_use (until);
         CREATE TABLE IF NOT EXISTS learned (
             scope TEXT PRIMARY KEY,
             at INTEGER NOT NULL,
             learned TEXT NOT NULL
         ) STRICT, WITHOUT ROWID;",
    )?;
    if version < VERSION {
        connection.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(())
}

fn read_learned(connection: &Connection) -> rusqlite::Result<Vec<LearnedLane>> {
    connection
        .prepare_cached("SELECT scope, at, learned FROM learned ORDER BY scope")?
        .query_map([], |row| {
            Ok(LearnedLane {
                scope: row.get(0)?,
                at: UnixMillis(row.get(1)?),
                learned: row.get(2)?,
            })
        })?
        .collect()
}

fn immediate(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
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

    fn lane(scope: &str, at: i64, learned: &str) -> LearnedLane {
        LearnedLane {
            scope: scope.to_owned(),
            at: UnixMillis(at),
            learned: learned.to_owned(),
        }
    }

    #[test]
    fn what_lanes_learned_survives_and_the_latest_word_counts() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = StateQuotaStore::open(directory.path()).expect("opens");
        assert_eq!(store.learned(), Ok(Vec::new()));
        let lanes = [lane("s/b", 10, "1"), lane("s/a", 10, "2")];
        store.keep_learned(&lanes).expect("keeps");
        drop(store);
        let mut one = StateQuotaStore::open(directory.path()).expect("opens again");
        let mut two = StateQuotaStore::open(directory.path()).expect("opens beside it");
        let [b, a] = lanes;
        assert_eq!(one.learned(), Ok(vec![a, b.clone()]));
        two.keep_learned(&[lane("s/a", 12, "4")]).expect("keeps");
        one.keep_learned(&[lane("s/a", 11, "3")]).expect("keeps");
        assert_eq!(one.learned(), Ok(vec![lane("s/a", 12, "4"), b]));
    }

    #[test]
    fn what_was_learned_long_ago_is_forgotten() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = StateQuotaStore::open(directory.path()).expect("opens");
        let day = 86_400_000;
        store
            .keep_learned(&[lane("old", 0, "1"), lane("known", 1, "1")])
            .expect("keeps");
        let new = lane("new", 90 * day, "1");
        store
            .keep_learned(std::slice::from_ref(&new))
            .expect("keeps");
        let kept = store.learned().expect("reads");
        assert_eq!(kept.len(), 3, "90 days old is kept: {kept:?}");
        let later = lane("known", 90 * day + 1, "2");
        store
            .keep_learned(std::slice::from_ref(&later))
            .expect("keeps");
        assert_eq!(store.learned(), Ok(vec![later, new]));
    }

    #[test]
    fn a_file_of_before_learning_is_taken_over_and_a_newer_one_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join(STATE_FILE);
        let old = Connection::open(&file).expect("opens");
        old.execute_batch(
            "CREATE TABLE quota_use (id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL,
             at INTEGER NOT NULL, until INTEGER NOT NULL, owner INTEGER NOT NULL) STRICT;
             INSERT INTO quota_use VALUES (1, 'a', 1000, 61000, 7);",
        )
        .expect("an old file");
        let mut store = StateQuotaStore::open(directory.path()).expect("opens");
        assert_eq!(store.load(UnixMillis(2000)).expect("loads").len(), 1);
        store.keep_learned(&[lane("s/a", 1, "1")]).expect("keeps");
        drop(store);
        old.pragma_update(None, "user_version", VERSION + 1)
            .expect("marked");
        let error = StateQuotaStore::open(directory.path()).expect_err("newer");
        assert!(error.to_string().contains("newer program"), "{error}");
        assert!(error.to_string().contains(STATE_FILE), "{error}");
    }
}
