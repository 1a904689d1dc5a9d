//! What a PlatformActor is told, and what it tells.

use actix::Message;

use crate::model::{Completion, TaskKey, UnixMillis};
use crate::store::{Leased, StoreError};

/// A worker has ended its task.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct Finished(pub(super) Completion);

/// The store has answered an exchange of leases.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct Answered {
    /// What the store said.
    pub(super) result: Result<Leased, StoreError>,
    /// Completions that were sent along.
    pub(super) completed: u64,
    /// Leases that were asked for.
    pub(super) asked: usize,
    /// Keys that were sent along, each with its depth: known once they are committed.
    pub(super) promised: Vec<(TaskKey, u32)>,
}

/// The time to look for due tasks has come.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct Look;

/// A lane could do with more leases than it was given.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct Roomy;

/// Take no new work. What is in flight may end until `grace` is over; then it is cut off.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Stop {
    /// How long the exchanges in flight may take to end.
    pub grace: std::time::Duration,
}

/// The grace is over.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct CutOff;

/// Ends the actor: nothing is left to do and the Supervisor knows it.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Dismiss;

/// A drill: the actor panics while it handles this.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Crash;

/// A site of a job has come to an end.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct SiteEnded {
    /// The PlatformActor's number: tells an old one from its successor.
    pub owner: u64,
    /// How it ended.
    pub end: SiteEnd,
}

/// How a site of a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SiteEnd {
    /// Nothing is pending.
    Finished,
    /// The page cap was reached: what is pending stays so.
    Capped,
    /// The wait would be longer than `max_wait`, or a person must act.
    Blocked {
        /// When it may go on by itself.
        until: Option<UnixMillis>,
        /// For people.
        reason: String,
    },
    /// Stopped; what is pending stays so.
    Interrupted,
    /// The store failed, or the actor died too often.
    Failed(String),
}

/// A PlatformActor is no more.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct PlatformGone {
    /// Its number.
    pub owner: u64,
    /// Whether it panicked.
    pub panicked: bool,
}
