//! Where used quota is kept, so that it holds across restarts, kills, and processes side by side.
//!
//! A store is a log of uses by scope, nothing more: windows are counted in one place, the
//! [`Ledger`](super::ledger::Ledger). Two processes on one log exclude each other by order: who finds
//! uses it has not seen stores nothing, reads them, and decides anew.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;

use crate::model::UnixMillis;

/// One use: a request that counts against the quotas, or the slow rate, of a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// `site`, `site@host`, or either followed by `/endpoint`.
    pub scope: String,
    /// How long it matters.
    pub keep: Duration,
}

/// A use read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastUse {
    /// Whose.
    pub scope: String,
    /// When it was stored.
    pub at: UnixMillis,
}

/// What a lane has learned of its server's limit, as it is stored for the next run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedLane {
    /// `site/endpoint` or `site@host/endpoint`.
    pub scope: String,
    /// When it was known last.
    pub at: UnixMillis,
    /// What was learned, as JSON. Its form is the governor's own; what cannot be read is learned anew.
    pub learned: String,
}

/// What came of an attempt to store the uses of one permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// They are on disk.
    Done,
    /// Others stored uses that this store's owner had not seen. Nothing was stored.
    Behind(Vec<PastUse>),
}

impl Recorded {
    /// The answers to a batch of `permits`: all stored, or, when `fresh` uses of others were found, none;
    /// the first is then told of all of them.
    #[must_use]
    pub fn answer(fresh: Vec<PastUse>, permits: usize) -> Vec<Self> {
        if fresh.is_empty() {
            return vec![Self::Done; permits];
        }
        let mut answers = vec![Self::Behind(Vec::new()); permits];
        if let Some(first) = answers.first_mut() {
            *first = Self::Behind(fresh);
        }
        answers
    }
}

/// Why a quota store could not answer. The text names the file and what went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct QuotaStoreError(pub String);

/// A durable log of uses. Calls that block are made on a thread of their own.
pub trait QuotaStore: Send {
    /// Whether calls may block. If not, they are made on the governor's own thread.
    fn blocks(&self) -> bool {
        true
    }

    /// All uses that still matter at `now`, of all processes. Called once, first.
    ///
    /// # Errors
    /// When the log cannot be read: nothing that needs it is granted until it can.
    fn load(&mut self, now: UnixMillis) -> Result<Vec<PastUse>, QuotaStoreError>;

    /// Store the uses of some permits in one commit that is durable on return; one answer for each, made
    /// by [`Recorded::answer`].
    ///
    /// # Errors
    /// When nothing could be stored.
    fn record(
        &mut self,
        now: UnixMillis,
        permits: &[Vec<Use>],
    ) -> Result<Vec<Recorded>, QuotaStoreError>;

    /// What lanes had learned when it was stored last. Called once, first. Creates nothing.
    ///
    /// # Errors
    /// When it cannot be read: the lanes then learn anew.
    fn learned(&mut self) -> Result<Vec<LearnedLane>, QuotaStoreError> {
        Ok(Vec::new())
    }

    /// Store what lanes have learned, in place of what was stored of them. It need not be durable on return.
    ///
    /// # Errors
    /// When it could not be stored; nothing waits for it.
    fn keep_learned(&mut self, lanes: &[LearnedLane]) -> Result<(), QuotaStoreError> {
        let _ = lanes;
        Ok(())
    }
}

#[derive(Debug)]
struct Row {
    scope: String,
    at: UnixMillis,
    until: UnixMillis,
    owner: u64,
}

#[derive(Debug, Default)]
struct Log {
    rows: Vec<Row>,
    /// Rows cut off at the front; a row's number is this plus its index.
    cut: usize,
    owners: u64,
}

/// A log in memory: holds within one process. Each clone is an owner of its own on the same log, so a
/// restarted governor is given a clone.
#[derive(Debug, Default)]
pub struct MemoryQuotaStore {
    log: Arc<Mutex<Log>>,
    owner: u64,
    seen: usize,
}

impl Clone for MemoryQuotaStore {
    fn clone(&self) -> Self {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.owners += 1;
        Self {
            owner: log.owners,
            seen: 0,
            log: self.log.clone(),
        }
    }
}

impl QuotaStore for MemoryQuotaStore {
    fn blocks(&self) -> bool {
        false
    }

    fn load(&mut self, now: UnixMillis) -> Result<Vec<PastUse>, QuotaStoreError> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = log.rows.iter().take_while(|row| row.until <= now).count();
        log.rows.drain(..gone);
        log.cut += gone;
        self.seen = log.cut + log.rows.len();
        Ok(log.rows.iter().map(Row::past).collect())
    }

    fn record(
        &mut self,
        now: UnixMillis,
        permits: &[Vec<Use>],
    ) -> Result<Vec<Recorded>, QuotaStoreError> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let unseen = self.seen.saturating_sub(log.cut).min(log.rows.len());
        let fresh: Vec<PastUse> = log.rows[unseen..]
            .iter()
            .filter(|row| row.owner != self.owner)
            .map(Row::past)
            .collect();
        if fresh.is_empty() {
            for used in permits.iter().flatten() {
                log.rows.push(Row {
                    scope: used.scope.clone(),
                    at: now,
                    until: now.after(used.keep),
                    owner: self.owner,
                });
            }
        }
        self.seen = log.cut + log.rows.len();
        Ok(Recorded::answer(fresh, permits.len()))
    }
}

impl Row {
    fn past(&self) -> PastUse {
        PastUse {
            scope: self.scope.clone(),
            at: self.at,
        }
    }
}
