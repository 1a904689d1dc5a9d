//! The RateGovernor: nobody sends a request without a permit, and a permit is given only within every limit.

mod actor;
mod counter;
mod desk;
mod handle;
pub mod hints;
pub mod ledger;
mod messages;
mod permit;
mod quota_store;
mod registry;
mod slab;
mod store_thread;

pub use self::actor::{
    Crash, GovernorGone, KeepLearned, LimitsChanged, RateGovernor, Stop, Subscribe,
};
pub use self::handle::Governor;
pub use self::messages::{
    Acquire, Cancel, Ceiling, Drain, DroppedLanes, GovernorSnapshot, Hints, LaneKey, LaneSnapshot,
    Pause, PermitId, Refused, Release, Report, Resume, Retune, Snapshot, Target, Ticket,
    WaitReason,
};
pub use self::permit::{Permit, Receipt};
pub use self::quota_store::{
    LearnedLane, MemoryQuotaStore, PastUse, QuotaStore, QuotaStoreError, Recorded, Use,
};
pub use self::registry::Registry;

/// The examples of the document compile.
#[cfg(doctest)]
#[doc = include_str!("../../docs/governor.md")]
struct Document;
