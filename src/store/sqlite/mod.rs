//! The store of a job on SQLite.
//!
//! One file, one writer, WAL, `synchronous=FULL`. What is asked between two commits shares one transaction. The order
//! of a commit: records and frontier into the transaction, output files appended and synced, their lengths into
//! the transaction, commit. A crash before the commit leaves at most a tail of output files, which the next open cuts.

mod caps;
mod commit;
mod counts;
mod frontier;
mod lanes;
mod lease;
mod lists;
mod names;
mod open;
mod read;
mod records;
mod recover;
mod runs;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

pub use self::caps::Caps;
use self::frontier::Queue;
use self::records::Stamp;
use self::runs::Run;
pub use open::{OpenOptions, Opened, STORE_DIR, STORE_FILE};
pub use read::ReadStore;

use super::StoreError;
use super::kill::{CommitKind, Hook};
use super::lock::DirLock;
use super::messages::{Claim, Exchange, Hold, Leased, Push, Pushed, ReleaseOwner, StoreStats};
use super::sinks::Sink;
use super::traits::{Frontier, Records, RunInfo, Runs};
use crate::model::{Change, Completion, Format, Name, Record, StoredRecord, TaskState, UnixMillis};

/// The kind of record that a page cap counts.
const PAGE: &str = "page";

/// How long to wait before asking again when other leases fill the page cap.
const CAP_RETRY: std::time::Duration = std::time::Duration::from_secs(1);

/// A job, opened for work. Its methods block.
pub struct JobStore {
    dir: PathBuf,
    file: PathBuf,
    db: Connection,
    queue: Queue,
    run: Run,
    /// Place of the latest revision among all revisions of the job.
    seq: i64,
    /// Token and place as the file holds them.
    stored_marks: (i64, i64),
    sinks: Vec<Box<dyn Sink>>,
    /// The formats of the sinks, in their order.
    formats: Vec<Format>,
    page_cap: Option<u64>,
    wal_bytes: u64,
    /// Bytes of the log that could not be folded back at the last attempt: a reader stood in the way.
    log_stuck: u64,
    hook: Hook,
    /// What the open transaction holds; `None`: there is none.
    batch: Option<CommitKind>,
    /// Lengths of outputs that were synced and are not committed yet.
    ends: BTreeMap<String, u64>,
    /// A buffer for the fields of a record.
    fields: Vec<u8>,
    keep_committed: bool,
    /// Records of the open transaction, then of the last commit until they are taken.
    committed: Vec<StoredRecord>,
    failed: Option<Arc<StoreError>>,
    closed: bool,
    opened: Opened,
    _lock: DirLock,
}

impl std::fmt::Debug for JobStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobStore")
            .field("file", &self.file)
            .field("run", &self.run.name)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl JobStore {
    /// What opening found and did.
    #[must_use]
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The job's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Open a job's store to be read only, without its lock. Blocks.
    ///
    /// # Errors
    /// As [`ReadStore::open`].
    pub fn open_read(dir: &Path) -> Result<ReadStore, StoreError> {
        ReadStore::open(dir)
    }

    /// Keep the records of each commit for [`take_committed`](Self::take_committed).
    pub(super) fn keep_committed(&mut self, keep: bool) {
        self.keep_committed = keep;
    }

    /// The new and updated records of the last commit.
    pub(super) fn take_committed(&mut self) -> Vec<StoredRecord> {
        std::mem::take(&mut self.committed)
    }

    /// Whether something waits or is under way.
    fn has_work(&self) -> bool {
        [TaskState::Pending, TaskState::Leased, TaskState::Parked]
            .into_iter()
            .any(|state| self.queue.counts.all_tasks(state) > 0)
    }

    /// Store a record, and hand it to the sinks and to those who listen.
    fn store_record(&mut self, now: UnixMillis, record: Record) -> rusqlite::Result<()> {
        self.fields.clear();
        serde_json::to_writer(&mut self.fields, &record.fields)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        let fields = std::str::from_utf8(&self.fields)?;
        let stamp = Stamp {
            run: self.run.n,
            at: now,
            seq: self.seq + 1,
        };
        let (site, stored) =
            records::store(&self.db, &mut self.queue.names, stamp, &record, fields)?;
        self.queue
            .counts
            .site(site)
            .record(stored.kind, stored.change);
        if stored.change == Change::Unchanged {
            return Ok(());
        }
        self.seq += 1;
        if self.sinks.is_empty() && !self.keep_committed {
            return Ok(());
        }
        let record = StoredRecord {
            record,
            revision: stored.revision,
            run: self.run.name.clone(),
            at: now,
            change: stored.change,
        };
        for sink in &mut self.sinks {
            sink.append(&record, fields);
        }
        if self.keep_committed {
            self.committed.push(record);
        }
        Ok(())
    }

    /// End a lease with all it brought; false when its token is stale.
    fn complete(&mut self, now: UnixMillis, mut completion: Completion) -> rusqlite::Result<bool> {
        let Some(lease) = self.queue.end(&self.db, &completion)? else {
            return Ok(false);
        };
        self.run.start(&self.db, now)?;
        for record in completion.records.drain(..) {
            self.store_record(now, record)?;
        }
        self.queue.push(&self.db, lease.site, &completion.follow)?;
        Ok(true)
    }

    /// How many pages may be leased beside those that are stored and leased; and whether the cap is reached for good.
    fn page_room(&self) -> (usize, bool) {
        let Some(cap) = self.page_cap else {
            return (usize::MAX, false);
        };
        let counts = &self.queue.counts;
        let stored = counts.records(self.queue.names.find(PAGE));
        let room = cap
            .saturating_sub(stored)
            .saturating_sub(counts.all_tasks(TaskState::Leased));
        (usize::try_from(room).unwrap_or(usize::MAX), stored >= cap)
    }

    fn exchange_in_batch(
        &mut self,
        now: UnixMillis,
        exchange: Exchange,
    ) -> rusqlite::Result<Leased> {
        let site = self.queue.names.intern(&self.db, &exchange.site)?;
        let mut stale = 0;
        for completion in exchange.completions {
            stale += u64::from(!self.complete(now, completion)?);
        }
        let (room, capped) = self.page_room();
        let (tasks, more) = self.queue.lease(
            &self.db,
            now,
            site,
            exchange.owner,
            (exchange.lease.min(room), &exchange.room),
        )?;
        let pending = self.queue.counts.tasks(site, TaskState::Pending);
        let leased = self.queue.counts.tasks(site, TaskState::Leased);
        let mut next_due = self.queue.next_due(site);
        // The room is taken by leases of other sites: some of them may bring no page.
        if room == 0 && !capped && leased == 0 && pending > 0 {
            next_due = Some(now.after(CAP_RETRY));
        }
        Ok(Leased {
            tasks,
            pending,
            leased,
            next_due,
            more,
            stale,
            capped,
        })
    }
}

impl Frontier for JobStore {
    fn push(&mut self, now: UnixMillis, push: Push) -> Result<Pushed, StoreError> {
        self.step(CommitKind::Push, |store| {
            let site = store.queue.names.intern(&store.db, &push.site)?;
            let pushed = store.queue.push(&store.db, site, &push.tasks)?;
            if pushed.added > 0 {
                store.run.start(&store.db, now)?;
            }
            Ok(pushed)
        })
    }

    fn exchange(&mut self, now: UnixMillis, exchange: Exchange) -> Result<Leased, StoreError> {
        self.step(CommitKind::Exchange, |store| {
            store.exchange_in_batch(now, exchange)
        })
    }

    fn claim(&mut self, _now: UnixMillis, claim: Claim) -> Result<bool, StoreError> {
        self.step(CommitKind::Claim, |store| {
            store.queue.claim(&store.db, &claim)
        })
    }

    fn hold(&mut self, hold: &Hold) {
        // A lane without tasks has nothing to hold.
        let queue = &mut self.queue;
        if let Some(site) = queue.names.find(&hold.site)
            && let Some(lane) = queue.lanes.find(site, &hold.lane)
        {
            queue.lanes.hold(lane, hold.until);
        }
    }

    fn release_owner(
        &mut self,
        _now: UnixMillis,
        release: ReleaseOwner,
    ) -> Result<u64, StoreError> {
        self.step(CommitKind::Release, |store| {
            let Some(site) = store.queue.names.find(&release.site) else {
                return Ok(0);
            };
            store.queue.release(&store.db, true, |lease| {
                lease.site == site && lease.owner == release.owner
            })
        })
    }

    fn commit(&mut self, _now: UnixMillis) -> Result<(), StoreError> {
        self.finish()
    }

    fn stats(&self) -> Result<StoreStats, StoreError> {
        self.read(|store| {
            let mut stats = store.queue.counts.stats(&store.queue.names);
            read::complete_stats(&store.db, &store.queue.names, &mut stats)?;
            Ok(stats)
        })
    }
}

impl Records for JobStore {
    fn record(
        &self,
        site: &str,
        kind: &str,
        key: &str,
    ) -> Result<Option<StoredRecord>, StoreError> {
        self.read(|store| records::find(&store.db, &store.queue.names, (site, kind, key)))
    }

    fn each_record(&self, each: &mut dyn FnMut(StoredRecord)) -> Result<(), StoreError> {
        self.read(|store| {
            records::each_after(&store.db, &store.queue.names, 0, |record, _| each(record))
        })
    }
}

impl Runs for JobStore {
    fn run(&self) -> Name {
        self.run.name.clone()
    }

    fn runs(&self) -> Result<Vec<RunInfo>, StoreError> {
        self.read(|store| runs::all(&store.db))
    }

    fn last_report(&self) -> Result<Option<String>, StoreError> {
        self.read(|store| runs::last_report(&store.db))
    }

    fn close(
        &mut self,
        now: UnixMillis,
        outcome: &str,
        report: Option<&str>,
    ) -> Result<(), StoreError> {
        self.step(CommitKind::Close, |store| {
            store.queue.release(&store.db, false, |_| true)?;
            store.run.close(&store.db, now, outcome, report)
        })?;
        if let Some(site) = self.queue.counts.unbalanced() {
            let site = self.queue.names.get(site);
            return Err(self.fail(StoreError::Database {
                file: self.file.clone(),
                cause: format!("the counts of site {site} do not add up"),
            }));
        }
        self.finish()?;
        self.closed = true;
        self.fold_log(0)
    }
}
