//! The state of the user, beside all jobs: used quota, what lanes have learned, cookies. One SQLite file that several
//! processes may share.

mod cookies;
mod learned;
mod quota;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use thiserror::Error;

pub use cookies::StateCookies;
pub use quota::StateQuotaStore;

/// Name of the file in the state directory.
pub(super) const STATE_FILE: &str = "state.db";

/// How long a process waits for another one's commit.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The version of the tables. Files of before it was marked have version 0, those of before cookies 1; both lack
/// what is made when missing.
const VERSION: i64 = 2;

/// Why the state of the user cannot be read or written. The text names the file and what went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct StateError(pub String);

impl StateError {
    fn of(path: &Path, error: &dyn std::fmt::Display) -> Self {
        Self(format!("{}: {error}", path.display()))
    }
}

/// Open `state.db` in `directory`; both are made when missing.
fn open(directory: &Path) -> Result<(PathBuf, Connection), StateError> {
    let path = directory.join(STATE_FILE);
    fs::create_dir_all(directory).map_err(|error| StateError::of(directory, &error))?;
    make_private(&path).map_err(|error| StateError::of(&path, &error))?;
    let connection = Connection::open(&path).map_err(|error| StateError::of(&path, &error))?;
    prepare(&path, &connection)?;
    Ok((path, connection))
}

/// As [`open`], but `None` when there is no file: nothing is made.
fn open_existing(directory: &Path) -> Result<Option<(PathBuf, Connection)>, StateError> {
    match directory.join(STATE_FILE).try_exists() {
        Ok(false) => Ok(None),
        Ok(true) | Err(_) => open(directory).map(Some),
    }
}

/// Make the file when it is missing, for its user's eyes only: it holds sessions. SQLite gives the files beside it
/// the same rights.
fn make_private(path: &Path) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Look at the version, make what is missing.
fn prepare(path: &Path, connection: &Connection) -> Result<(), StateError> {
    let version = connection
        .busy_timeout(BUSY_TIMEOUT)
        .and_then(|()| connection.pragma_query_value(None, "user_version", |row| row.get(0)))
        .map_err(|error| StateError::of(path, &error))?;
    if version > VERSION {
        return Err(StateError(format!(
            "{}: it is of version {version}, made by a newer program; this one knows up to {VERSION}",
            path.display()
        )));
    }
    make_tables(connection, version).map_err(|error| StateError::of(path, &error))?;
    #[cfg(unix)]
    if version < VERSION {
        // A file of before it held sessions may be open to others.
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(path, private).map_err(|error| StateError::of(path, &error))?;
    }
    Ok(())
}

fn make_tables(connection: &Connection, version: i64) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(quota::TABLES)?;
    connection.execute_batch(learned::TABLES)?;
    connection.execute_batch(cookies::TABLES)?;
    if version < VERSION {
        connection.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(())
}

fn immediate(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::governor::{LearnedLane, QuotaStore};
    use crate::model::UnixMillis;

    fn taken_over(made_by: &str) {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join(STATE_FILE);
        let old = Connection::open(&file).expect("opens");
        old.execute_batch(made_by).expect("an old file");
        let mut store = StateQuotaStore::open(directory.path()).expect("opens");
        assert_eq!(store.load(UnixMillis(2000)).expect("loads").len(), 1);
        let lane = LearnedLane {
            scope: "s/a".to_owned(),
            at: UnixMillis(1),
            learned: "1".to_owned(),
        };
        store.keep_learned(&[lane]).expect("keeps");
        let cookies = StateCookies::open(directory.path()).expect("opens");
        assert_eq!(cookies.list().expect("lists"), []);
        #[cfg(unix)]
        assert_eq!(mode(&file), 0o600, "it may hold sessions from now on");
        drop((store, cookies));
        old.pragma_update(None, "user_version", VERSION + 1)
            .expect("marked");
        for error in [
            StateQuotaStore::open(directory.path())
                .expect_err("newer")
                .to_string(),
            StateCookies::open(directory.path())
                .expect_err("newer")
                .to_string(),
        ] {
            assert!(error.contains("newer program"), "{error}");
            assert!(error.contains(STATE_FILE), "{error}");
        }
    }

    #[cfg(unix)]
    fn mode(path: &Path) -> u32 {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(path).expect("a file").permissions().mode() & 0o777
    }

    const OF_BEFORE_LEARNING: &str =
        "CREATE TABLE quota_use (id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL,
         at INTEGER NOT NULL, until INTEGER NOT NULL, owner INTEGER NOT NULL) STRICT;
         INSERT INTO quota_use VALUES (1, 'a', 1000, 61000, 7);";

    #[test]
    fn a_file_of_before_learning_is_taken_over_and_a_newer_one_refused() {
        taken_over(OF_BEFORE_LEARNING);
    }

    #[test]
    fn a_file_of_before_cookies_is_taken_over_and_a_newer_one_refused() {
        taken_over(&format!(
            "{OF_BEFORE_LEARNING}
             CREATE TABLE learned (scope TEXT PRIMARY KEY, at INTEGER NOT NULL, learned TEXT NOT NULL)
             STRICT, WITHOUT ROWID;
             INSERT INTO learned VALUES ('s/b', 5, '{{}}');
             PRAGMA user_version = 1;"
        ));
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_and_those_beside_it_are_for_their_user_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, connection) = open(directory.path()).expect("opens");
        connection
            .execute("INSERT INTO learned VALUES ('a', 1, '')", [])
            .expect("writes");
        assert_eq!(mode(&path), 0o600);
        for beside in ["state.db-wal", "state.db-shm"] {
            assert_eq!(mode(&directory.path().join(beside)), 0o600, "{beside}");
        }
    }
}
