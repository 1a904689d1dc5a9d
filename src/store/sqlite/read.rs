//! What a store tells: counts, troubles, reports; also of a job that another process works on.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

use super::counts::Counts;
use super::frontier::read_params;
use super::names::{NameId, Names};
use super::open::{STORE_DIR, STORE_FILE};
use super::schema::{self, Found};
use super::{records, runs};
use crate::model::{StoredRecord, UnixMillis};
use crate::store::StoreError;
use crate::store::messages::{StoreStats, Trouble};
use crate::store::traits::{Records, RunInfo};

/// How many troubles of a site are told.
const TROUBLES: usize = 20;

/// Add to `stats` what only the tables know.
pub(super) fn complete_stats(
    db: &Connection,
    names: &Names,
    stats: &mut StoreStats,
) -> rusqlite::Result<()> {
    for (name, site) in &mut stats.sites {
        let Some(id) = names.find(name) else { continue };
        let until: Option<i64> = db
            .prepare_cached(
                "SELECT min(due) FROM tasks WHERE site = ?1 AND state = 4 AND due IS NOT NULL",
            )?
            .query_row([id], |row| row.get(0))?;
        site.parked_until = until.map(UnixMillis);
        site.troubles = troubles(db, names, id, "failed", "state = 3")?;
        let parked = troubles(db, names, id, "parked", "state = 4")?;
        site.troubles.extend(parked);
        site.troubles.truncate(TROUBLES);
    }
    Ok(())
}

fn troubles(
    db: &Connection,
    names: &Names,
    site: NameId,
    state: &'static str,
    condition: &str,
) -> rusqlite::Result<Vec<Trouble>> {
    db.prepare_cached(&format!(
        "SELECT endpoint, params, outcome, reason, attempts FROM tasks WHERE site = ?1 AND {condition} LIMIT ?2"
    ))?
    .query_map(params![site, i64::try_from(TROUBLES).unwrap_or(0)], |row| {
        let text: String = row.get(1)?;
        let url = read_params(&text)?
            .get("url")
            .and_then(|url| url.as_str().map(str::to_owned));
        Ok(Trouble {
            endpoint: names.get(row.get(0)?).to_string(),
            what: url.unwrap_or(text),
            state,
            outcome: row.get::<_, Option<String>>(2)?.unwrap_or_default(),
            reason: row.get::<_, Option<String>>(3)?.unwrap_or_default(),
            attempts: row.get(4)?,
        })
    })?
    .collect()
}

/// A job's store, opened to be read. A process that works on the job is not disturbed.
#[derive(Debug)]
pub struct ReadStore {
    db: Connection,
    file: std::path::PathBuf,
    names: Names,
}

impl ReadStore {
    /// Open the store of the job in `dir`. Blocks.
    ///
    /// # Errors
    /// [`StoreError::NoJob`], [`StoreError::NotAStore`], [`StoreError::Newer`], [`StoreError::Database`].
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let file = dir.join(STORE_DIR).join(STORE_FILE);
        let no_job = || StoreError::NoJob {
            dir: dir.to_owned(),
        };
        if !file.is_file() {
            return Err(no_job());
        }
        let failed = |error: rusqlite::Error| StoreError::database(&file, &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&file, flags).map_err(failed)?;
        db.busy_timeout(std::time::Duration::from_secs(5))
            .map_err(failed)?;
        if schema::inspect(&db, &file)? == Found::Empty {
            return Err(no_job());
        }
        let names = Names::load(&db).map_err(failed)?;
        Ok(Self { db, file, names })
    }

    fn read<T>(&self, read: impl FnOnce(&Self) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        read(self).map_err(|error| StoreError::database(&self.file, &error))
    }

    /// Counts by site and state.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn stats(&self) -> Result<StoreStats, StoreError> {
        self.read(|store| {
            let counts = Counts::load(&store.db, &store.names)?;
            let mut stats = counts.stats(&store.names);
            complete_stats(&store.db, &store.names, &mut stats)?;
            Ok(stats)
        })
    }

    /// All runs, oldest first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn runs(&self) -> Result<Vec<RunInfo>, StoreError> {
        self.read(|store| runs::all(&store.db))
    }

    /// The report of the last run that left one, as JSON.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn last_report(&self) -> Result<Option<String>, StoreError> {
        self.read(|store| runs::last_report(&store.db))
    }
}

impl Records for ReadStore {
    fn record(
        &self,
        site: &str,
        kind: &str,
        key: &str,
    ) -> Result<Option<StoredRecord>, StoreError> {
        self.read(|store| records::find(&store.db, &store.names, (site, kind, key)))
    }

    fn each_record(&self, each: &mut dyn FnMut(StoredRecord)) -> Result<(), StoreError> {
        self.read(|store| records::each_after(&store.db, &store.names, 0, |record, _| each(record)))
    }
}
