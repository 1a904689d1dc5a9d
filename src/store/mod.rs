//! The durable store of a job: frontier, lists, records and runs, committed together.
//!
//! A job is its output directory. The store is one SQLite file inside it, `.crawler-node/store.db`, with one
//! writer. [`JobStore`] is the store itself and blocks; [`Store`] is the actor around it, on a thread of its own,
//! which gathers the commands that arrive while a commit is being synced and commits them as one group.
//! What was answered is on disk.

mod actor;
mod cache;
#[cfg(test)]
mod contract;
mod error;
mod folder;
mod kill;
mod lock;
pub mod media;
mod messages;
mod sinks;
mod sqlite;
mod state;
mod traits;

pub use actor::{RecordsCommitted, Store, StoreGone};
pub use cache::{CacheEntry, CacheKind, CacheStore};
pub use error::StoreError;
pub use folder::{LazyQuotaStore, StateFolder};
#[doc(hidden)]
pub use kill::{CommitKind, KillHook, KillPoint, Moment};
pub use messages::{
    Claim, Close, Exchange, Hold, LaneRoom, Leased, Push, Pushed, RecordStats, ReleaseOwner,
    SiteStats, Stats, StoreStats, Trouble,
};
pub use sqlite::{Caps, JobStore, OpenOptions, Opened, ReadStore, STORE_DIR, STORE_FILE};
pub use state::{StateCookies, StateError, StateQuotaStore};
pub use traits::{Frontier, Records, RunInfo, Runs};
