//! The tables, and which files may be opened.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::settings::StoreSettings;
use crate::store::StoreError;

/// Marks the file as a job's store: `CRWN`.
pub(super) const APPLICATION_ID: i32 = 0x4352_574E;

/// The version of the tables below.
pub(super) const VERSION: i32 = 1;

/// States of tasks as they are stored. The partial indexes name them, so they never change.
pub(super) mod state {
    pub(in super::super) const PENDING: i64 = 0;
    pub(in super::super) const LEASED: i64 = 1;
    pub(in super::super) const DONE: i64 = 2;
    pub(in super::super) const FAILED: i64 = 3;
    pub(in super::super) const PARKED: i64 = 4;
    pub(in super::super) const DROPPED: i64 = 5;
}

// A pending task is in one of three places: ready (`due` and `token` null), delayed (`due` set), or to be leased
// again first because its holder died (`token` kept: the order of leases). Each place has its own partial index.
const TABLES: &str = "
CREATE TABLE job(
  id INTEGER PRIMARY KEY CHECK (id = 1),
  mode TEXT NOT NULL,
  sites TEXT NOT NULL,
  created INTEGER NOT NULL,
  max_items INTEGER,
  max_comments INTEGER,
  token INTEGER NOT NULL,
  seq INTEGER NOT NULL
) STRICT;
CREATE TABLE runs(
  n INTEGER PRIMARY KEY,
  started INTEGER NOT NULL,
  resumed INTEGER NOT NULL,
  ended INTEGER,
  outcome TEXT,
  report TEXT
) STRICT;
CREATE TABLE names(id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
CREATE TABLE lanes(
  id INTEGER PRIMARY KEY,
  site INTEGER NOT NULL,
  name TEXT NOT NULL,
  served INTEGER NOT NULL
) STRICT;
CREATE TABLE tasks(
  id INTEGER PRIMARY KEY,
  site INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  endpoint INTEGER NOT NULL,
  state INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  depth INTEGER NOT NULL,
  due INTEGER,
  token INTEGER,
  owner INTEGER,
  attempts INTEGER NOT NULL,
  kills INTEGER NOT NULL,
  list INTEGER NOT NULL,
  outcome TEXT,
  reason TEXT,
  params TEXT NOT NULL
) STRICT;
CREATE INDEX delayed ON tasks(site, due) WHERE state = 0 AND due IS NOT NULL;
CREATE INDEX held ON tasks(token) WHERE token IS NOT NULL;
CREATE INDEX failed ON tasks(site, id) WHERE state = 3;
CREATE INDEX parked ON tasks(site, due) WHERE state = 4;
CREATE TABLE seen(key BLOB PRIMARY KEY, task INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE lists(task INTEGER PRIMARY KEY, stop TEXT, state TEXT NOT NULL) STRICT;
CREATE TABLE records(
  id INTEGER PRIMARY KEY,
  site INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  key TEXT NOT NULL,
  revision INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  run INTEGER NOT NULL,
  at INTEGER NOT NULL,
  fields TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX record_keys ON records(key, kind, site);
CREATE TABLE counts(
  site INTEGER NOT NULL,
  what TEXT NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (site, what)
) STRICT, WITHOUT ROWID;
CREATE TABLE sinks(format TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE outputs(name TEXT PRIMARY KEY, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

// Of two tasks of one priority the one that was asked less often goes first: in an outage each probe is another task,
// so that none uses up its attempts for all.
const READY: &str = "
CREATE INDEX IF NOT EXISTS ready_tasks ON tasks(lane, priority, attempts, id)
  WHERE state = 0 AND due IS NULL AND token IS NULL;
DROP INDEX IF EXISTS ready;
";

/// By what rules the keys in `seen` were made, where they can change between two runs.
const KEY_RULES: &str = "
CREATE TABLE IF NOT EXISTS key_rules(id INTEGER PRIMARY KEY CHECK (id = 1), rules TEXT NOT NULL) STRICT;
";

/// How the connection of the writer behaves.
pub(super) fn configure(db: &Connection, settings: &StoreSettings) -> rusqlite::Result<()> {
    db.set_prepared_statement_cache_capacity(64);
    // Else SQLite prepares a statement anew for each value bound where a partial index might depend on it.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    db.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "full")?;
    db.pragma_update(None, "temp_store", "memory")?;
    db.pragma_update_and_check(None, "mmap_size", 0, |_| Ok(()))
        .or_else(ignore_no_row)?;
    // Negative: in KiB.
    let cache = i64::try_from(settings.cache_bytes / 1024).unwrap_or(i64::MAX);
    db.pragma_update(None, "cache_size", -cache)?;
    // The store folds the log back itself, at a size that is configured.
    db.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    Ok(())
}

/// SQLite built without memory mapping answers that pragma with no row.
fn ignore_no_row(error: rusqlite::Error) -> rusqlite::Result<()> {
    match error {
        rusqlite::Error::QueryReturnedNoRows => Ok(()),
        other => Err(other),
    }
}

/// What a database file turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing in it yet.
    Empty,
    /// A store of this version.
    Store,
}

/// Look at the file's marks.
///
/// # Errors
/// [`StoreError::NotAStore`], [`StoreError::Newer`], [`StoreError::Database`].
pub(super) fn inspect(db: &Connection, file: &Path) -> Result<Found, StoreError> {
    let read = |name: &str| -> rusqlite::Result<i32> {
        db.pragma_query_value(None, name, |row| row.get(0))
    };
    let failed = |error: rusqlite::Error| StoreError::database(file, &error);
    let application = read("application_id").map_err(failed)?;
    let version = read("user_version").map_err(failed)?;
    let tables: i64 = db
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(failed)?;
    if application == 0 && version == 0 && tables == 0 {
        return Ok(Found::Empty);
    }
    if application != APPLICATION_ID {
        return Err(StoreError::NotAStore {
            file: file.to_owned(),
            found: application,
        });
    }
    if version > VERSION {
        return Err(StoreError::Newer {
            file: file.to_owned(),
            found: version,
            known: VERSION,
        });
    }
    Ok(Found::Store)
}

/// Bring a store that an earlier program made up to date: indexes, and a table that such a program does without. So
/// the version stays.
pub(super) fn upgrade(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(READY)?;
    db.execute_batch(KEY_RULES)
}

/// Create the tables and marks; the caller's transaction makes it one step.
pub(super) fn create(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(TABLES)?;
    upgrade(db)?;
    db.pragma_update(None, "application_id", APPLICATION_ID)?;
    db.pragma_update(None, "user_version", VERSION)
}
