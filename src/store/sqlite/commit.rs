//! Transactions: how they begin, what a commit does in which order, and what a failure means.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::params;

use super::JobStore;
use crate::store::StoreError;
use crate::store::kill::{CommitKind, KillPoint, Moment};

/// Size of a page of the database, which the log is made of.
const PAGE_BYTES: u64 = 4096;

impl JobStore {
    /// An earlier failure.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match &self.failed {
            Some(error) => Err(StoreError::Failed(error.clone())),
            None => Ok(()),
        }
    }

    /// From here on nothing is accepted: memory may be ahead of the file, and only a new open can tell.
    pub(super) fn fail(&mut self, error: StoreError) -> StoreError {
        if self.batch.take().is_some() {
            // The connection rolls back by itself when this does not work.
            let _ = self.db.execute_batch("ROLLBACK");
        }
        self.committed.clear();
        self.failed = Some(Arc::new(error.clone()));
        error
    }

    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Self) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.check()?;
        read(self).map_err(|error| StoreError::database(&self.file, &error))
    }

    /// Do `work` within the open transaction, or a new one.
    pub(super) fn step<T>(
        &mut self,
        kind: CommitKind,
        work: impl FnOnce(&mut Self) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.check()?;
        if self.closed {
            return Err(StoreError::Closed);
        }
        let result = self.begin(kind).and_then(|()| work(self));
        result.map_err(|error| self.fail(StoreError::database(&self.file, &error)))
    }

    fn begin(&mut self, kind: CommitKind) -> rusqlite::Result<()> {
        if self.batch.is_none() {
            self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            self.committed.clear();
        }
        self.batch = Some(match self.batch {
            // A push beside an exchange is nothing of its own.
            Some(known) if known == CommitKind::Exchange => known,
            _ => kind,
        });
        Ok(())
    }

    /// Commit the open transaction, if there is one.
    pub(super) fn finish(&mut self) -> Result<(), StoreError> {
        self.check()?;
        let Some(kind) = self.batch else {
            return Ok(());
        };
        let result = self.write_out(kind);
        result.map_err(|error| self.fail(error))?;
        self.batch = None;
        self.hook.at(KillPoint::Commit(kind, Moment::After));
        self.fold_log(self.wal_bytes)
    }

    /// Sinks first, then the transaction: what is committed is in the outputs.
    fn write_out(&mut self, kind: CommitKind) -> Result<(), StoreError> {
        self.flush_sinks()?;
        let ends = std::mem::take(&mut self.ends);
        let written = self.write_marks(&ends);
        written.map_err(|error| StoreError::database(&self.file, &error))?;
        self.hook.at(KillPoint::Commit(kind, Moment::Before));
        self.db
            .prepare_cached("COMMIT")
            .and_then(|mut commit| commit.execute([]))
            .map_err(|error| StoreError::database(&self.file, &error))?;
        Ok(())
    }

    /// Append and sync what the sinks hold; the lengths are for the commit to come.
    pub(super) fn flush_sinks(&mut self) -> Result<(), StoreError> {
        for sink in &mut self.sinks {
            self.ends.extend(sink.flush(&mut self.hook)?);
        }
        Ok(())
    }

    fn write_marks(&mut self, ends: &BTreeMap<String, u64>) -> rusqlite::Result<()> {
        self.queue.save(&self.db)?;
        for (name, bytes) in ends {
            self.db
                .prepare_cached(
                    "INSERT INTO outputs(name, bytes) VALUES (?1, ?2)
                     ON CONFLICT(name) DO UPDATE SET bytes = ?2",
                )?
                .execute(params![name, bytes.cast_signed()])?;
        }
        let marks = (self.queue.token, self.seq);
        if marks != self.stored_marks {
            self.db
                .prepare_cached("UPDATE job SET token = ?1, seq = ?2")?
                .execute(params![marks.0, marks.1])?;
            self.stored_marks = marks;
        }
        if !ends.is_empty() {
            for format in &self.formats {
                self.db
                    .prepare_cached(
                        "INSERT INTO sinks(format, seq) VALUES (?1, ?2)
                         ON CONFLICT(format) DO UPDATE SET seq = ?2",
                    )?
                    .execute(params![format.as_str(), self.seq])?;
            }
        }
        Ok(())
    }

    /// Fold the log back into the database when more than `most` bytes of it are not there yet.
    ///
    /// The file keeps its length and is written again from its start: growing it anew costs more than writing.
    pub(super) fn fold_log(&mut self, most: u64) -> Result<(), StoreError> {
        let log = self.file.with_extension("db-wal");
        let length = std::fs::metadata(&log).map_or(0, |meta| meta.len());
        if length <= most {
            return Ok(());
        }
        // A reader of another process is not waited for: the next attempt comes when the log has grown again.
        let due = most.saturating_add(self.log_stuck);
        if self.log_ahead("PRAGMA wal_checkpoint(NOOP)")? <= due {
            return Ok(());
        }
        self.hook.at(KillPoint::Checkpoint(Moment::Before));
        self.log_stuck = self.log_ahead("PRAGMA wal_checkpoint(PASSIVE)")?;
        self.hook.at(KillPoint::Checkpoint(Moment::After));
        Ok(())
    }

    /// How many bytes of the log are not in the database, after `checkpoint`.
    fn log_ahead(&mut self, checkpoint: &str) -> Result<u64, StoreError> {
        let pages = self
            .db
            .prepare_cached(checkpoint)
            .and_then(|mut checkpoint| {
                checkpoint.query_row([], |row| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?))
            });
        match pages {
            Ok(pages) => Ok(u64::try_from(pages).unwrap_or(0).saturating_mul(PAGE_BYTES)),
            Err(error) => {
                let error = StoreError::database(&self.file, &error);
                Err(self.fail(error))
            }
        }
    }
}
