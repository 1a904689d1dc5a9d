//! What a store is, whatever it is built on.
//!
//! Nothing here speaks of SQLite. Leases carry fencing tokens, and time is an argument: in a shared engine it comes
//! from the engine's clock. An implementation that commits by itself makes [`Frontier::commit`] a no-op; the embedded
//! one gathers what is asked between two commits into one transaction.

use serde::Serialize;

use super::StoreError;
use super::messages::{Claim, Exchange, Hold, Leased, Push, Pushed, ReleaseOwner, StoreStats};
use crate::model::{Name, StoredRecord, UnixMillis};

/// The durable queue of tasks. Answers count only after the next [`commit`](Self::commit) returned.
///
/// At every moment `added = pending + leased + done + failed + parked + dropped`, per site.
pub trait Frontier {
    /// Add the tasks whose keys are unknown. Of a known key, the latest parameters win while its task is pending,
    /// and a smaller depth lowers depth and priority until it has ended.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn push(&mut self, now: UnixMillis, push: Push) -> Result<Pushed, StoreError>;

    /// End leases, each with its records, follow-ups and list state, then take new ones, in one step.
    /// A completion with a stale token changes nothing. In a lane the smallest priority goes first, of equals the task
    /// that was asked least often, then the oldest.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn exchange(&mut self, now: UnixMillis, exchange: Exchange) -> Result<Leased, StoreError>;

    /// Claim a redirect's target for a leased task: whether no other task has that key. A stale lease claims nothing.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn claim(&mut self, now: UnixMillis, claim: Claim) -> Result<bool, StoreError>;

    /// Lease nothing of a lane until then. Need not outlive the process.
    fn hold(&mut self, hold: &Hold);

    /// Return what an owner holds to pending; how many tasks that was. They are leased again first, in the same order.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn release_owner(&mut self, now: UnixMillis, release: ReleaseOwner) -> Result<u64, StoreError>;

    /// Make durable all that was asked since the last commit.
    ///
    /// # Errors
    /// When it could not be made durable: then nothing since the last commit has happened, and the store refuses
    /// further work.
    fn commit(&mut self, now: UnixMillis) -> Result<(), StoreError>;

    /// Counts by site and state.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn stats(&self) -> Result<StoreStats, StoreError>;
}

/// The records of a job: the current revision of each.
pub trait Records {
    /// The record (site, kind, key).
    ///
    /// # Errors
    /// When the store cannot be read.
    fn record(&self, site: &str, kind: &str, key: &str)
    -> Result<Option<StoredRecord>, StoreError>;

    /// Hand every record to `each`, in the order in which their current revisions were stored.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn each_record(&self, each: &mut dyn FnMut(StoredRecord)) -> Result<(), StoreError>;
}

/// The runs of a job.
pub trait Runs {
    /// The name of the run that works now: `r1`, `r2`, …
    fn run(&self) -> Name;

    /// All runs, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn runs(&self) -> Result<Vec<RunInfo>, StoreError>;

    /// The report of the last run that left one, as JSON.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn last_report(&self) -> Result<Option<String>, StoreError>;

    /// Commit, return what is leased, and close the run: `complete` ends it, any other outcome leaves it to be resumed.
    ///
    /// # Errors
    /// When it could not be made durable.
    fn close(
        &mut self,
        now: UnixMillis,
        outcome: &str,
        report: Option<&str>,
    ) -> Result<(), StoreError>;
}

/// One run of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunInfo {
    /// `r1`, `r2`, …
    pub run: String,
    /// When it was started first.
    pub started: UnixMillis,
    /// How often it was resumed.
    pub resumed: u32,
    /// When it was closed last; `None` while it works, or when its process was killed.
    pub ended: Option<UnixMillis>,
    /// How it was closed last: `complete`, `interrupted`, …
    pub outcome: Option<String>,
}
