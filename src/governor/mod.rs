//! The RateGovernor: nobody sends a request without a permit, and a permit is given only within every limit.

mod actor;
pub mod hints;
pub mod ledger;
mod messages;
mod permit;
mod quota_store;
mod registry;
mod store_thread;

pub use self::actor::{Crash, GovernorGone, LimitsChanged, RateGovernor, Stop, Subscribe};
pub use self::messages::{
    Acquire, Cancel, Drain, GovernorSnapshot, Hints, LaneKey, LaneSnapshot, Pause, PermitId,
    Refused, Release, Report, Resume, Retune, Snapshot, Target, Ticket, WaitReason,
};
pub use self::permit::{Governor, Permit, Receipt};
pub use self::quota_store::{
    MemoryQuotaStore, PastUse, QuotaStore, QuotaStoreError, Recorded, Use,
};
pub use self::registry::Registry;

/// The examples of the document compile.
#[cfg(doctest)]
#[doc = include_str!("../../docs/governor.md")]
struct Document;
