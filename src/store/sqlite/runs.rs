//! Runs: executions of the job, and their reports.

use rusqlite::{Connection, OptionalExtension, params};

use crate::model::{Name, UnixMillis};
use crate::store::traits::RunInfo;

/// The outcome that ends a run; any other leaves it to be resumed.
pub(super) const COMPLETE: &str = "complete";

/// The name of run number `n`.
pub(super) fn run_name(n: i64) -> Name {
    format!("r{n}").into()
}

/// The run that works now.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) n: i64,
    pub(super) name: Name,
    /// Whether it has a row: a run that does nothing leaves no trace.
    pub(super) started: bool,
}

impl Run {
    /// The run to go on with: the last one while it is open, else the next. Also whether it is resumed.
    pub(super) fn current(db: &Connection) -> rusqlite::Result<(Self, bool)> {
        let last: Option<(i64, Option<String>)> = db
            .query_row(
                "SELECT n, outcome FROM runs ORDER BY n DESC LIMIT 1",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()?;
        let (n, started) = match last {
            Some((n, outcome)) if outcome.as_deref() != Some(COMPLETE) => (n, true),
            Some((n, _)) => (n + 1, false),
            None => (1, false),
        };
        let run = Self {
            n,
            name: run_name(n),
            started,
        };
        Ok((run, started))
    }

    /// Note that an open run is worked on again.
    pub(super) fn resume(&self, db: &Connection) -> rusqlite::Result<()> {
        db.execute(
            "UPDATE runs SET resumed = resumed + 1, ended = NULL, outcome = NULL WHERE n = ?1",
            [self.n],
        )?;
        Ok(())
    }

    /// The first work of a run gives it its row.
    pub(super) fn start(&mut self, db: &Connection, now: UnixMillis) -> rusqlite::Result<()> {
        if !self.started {
            db.prepare_cached("INSERT INTO runs(n, started, resumed) VALUES (?1, ?2, 0)")?
                .execute(params![self.n, now.0])?;
            self.started = true;
        }
        Ok(())
    }

    /// Note how it ended.
    pub(super) fn close(
        &self,
        db: &Connection,
        now: UnixMillis,
        outcome: &str,
        report: Option<&str>,
    ) -> rusqlite::Result<()> {
        db.execute(
            "UPDATE runs SET ended = ?2, outcome = ?3, report = coalesce(?4, report) WHERE n = ?1",
            params![self.n, now.0, outcome, report],
        )?;
        Ok(())
    }
}

/// All runs, oldest first.
pub(super) fn all(db: &Connection) -> rusqlite::Result<Vec<RunInfo>> {
    db.prepare("SELECT n, started, resumed, ended, outcome FROM runs ORDER BY n")?
        .query_map([], |row| {
            Ok(RunInfo {
                run: run_name(row.get(0)?).to_string(),
                started: UnixMillis(row.get(1)?),
                resumed: row.get(2)?,
                ended: row.get::<_, Option<i64>>(3)?.map(UnixMillis),
                outcome: row.get(4)?,
            })
        })?
        .collect()
}

/// The last report that a run left.
pub(super) fn last_report(db: &Connection) -> rusqlite::Result<Option<String>> {
    db.query_row(
        "SELECT report FROM runs WHERE report IS NOT NULL ORDER BY n DESC LIMIT 1",
        [],
        |row| row.get(0),
    )
    .optional()
}
