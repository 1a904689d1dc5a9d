//! What is asked of the RateGovernor, and what it answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::Message;
use serde::Serialize;

use super::permit::Permit;
use crate::model::{Name, Outcome};
use crate::settings::LimitSettings;

/// The governor's key: what is limited together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneKey {
    /// The site.
    pub site: Name,
    /// The host and port, in `crawl` mode only: there each host is limited as a site of its own.
    pub host: Option<Name>,
    /// The endpoint.
    pub endpoint: Name,
}

/// Names one waiting request for a permit, so that it can be cancelled. Unique within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Names one granted permit. Unique within a process, across restarts of the governor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PermitId(pub u64);

/// Ask for the right to make one HTTP exchange. The answer waits in the governor until it can be given.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// Names this request.
    pub ticket: Ticket,
    /// What it counts against.
    pub lane: Arc<LaneKey>,
    /// Class within the lane: smaller goes first; a waiter gains one class per 10 s.
    pub priority: u8,
    /// Longest wait for a *time* (pause, not-before, quota) that is worth staying for; beyond it the
    /// answer is [`Refused::Later`]. Waiting for a free slot or for the pace is not counted.
    pub patience: Duration,
}

impl Message for Acquire {
    type Result = Result<Permit, Refused>;
}

/// Why no permit was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Not before `wait` has passed; longer than the request's patience.
    Later {
        /// From now to the earliest grant.
        wait: Duration,
        /// What has to pass.
        why: WaitReason,
    },
    /// The lane, its site or everything is paused by a person, without an end.
    Paused,
    /// Too many wait in the lane already.
    QueueFull,
    /// The governor gives no new permits: a stop was asked for.
    Stopping,
    /// The request was cancelled.
    Cancelled,
    /// No governor answers.
    Gone,
}

/// What a waiting request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// A free slot below a cap.
    Cap,
    /// The pace of its site or endpoint.
    Rate,
    /// The window of a quota.
    Quota,
    /// An instant the server named.
    NotBefore,
    /// The lane's back-off.
    Backoff,
    /// The result of the one probe that a half-open lane lets through.
    Probe,
    /// A pause that a person asked for.
    Paused,
}

/// The HTTP exchange has ended: the slot is free.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Release {
    /// The permit.
    pub permit: PermitId,
    /// Whether a request was, or may have been, sent under it.
    pub used: bool,
}

/// What the answer was: the governor learns from it.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Report {
    /// The permit.
    pub permit: PermitId,
    /// Class of the outcome.
    pub outcome: Outcome,
    /// What the server said of its limits.
    pub hints: Hints,
    /// From the request sent to the last byte; of successes only it teaches something.
    pub rtt: Option<Duration>,
}

/// What an answer's header says of limits, already turned into durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// A floor for the next request of the lane, counted from now.
    pub retry_after: Option<Duration>,
}

/// Take back a request for a permit. Harmless at any time: a grant already made is returned by its guard.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Cancel {
    /// The request.
    pub ticket: Ticket,
}

/// What a message speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Everything.
    Global,
    /// A site, with all hosts it is crawled on: each host gets these limits for itself.
    Site(Name),
    /// One endpoint of a site.
    Endpoint(Name, Name),
}

/// Replace the limits of a target. Nothing in flight is revoked; a new limit gives no fresh burst.
/// For [`Target::Global`] only `max_concurrency_num` has a meaning.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Retune {
    /// Whose limits.
    pub target: Target,
    /// The limits from now on.
    pub limits: LimitSettings,
}

/// Grant nothing for a target.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Pause {
    /// What is paused.
    pub target: Target,
    /// For how long; `None`: until [`Resume`].
    pub length: Option<Duration>,
}

/// End a [`Pause`] of the same target. Not-before instants that the server named stay.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Resume {
    /// What goes on.
    pub target: Target,
}

/// Grant no new permits, refuse all who wait: the node is stopping.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Drain;

/// The state of the governor, for people and reports.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot;

impl Message for Snapshot {
    type Result = GovernorSnapshot;
}

/// State of the governor at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GovernorSnapshot {
    /// The global cap.
    pub max_concurrency_num: u32,
    /// Permits out.
    pub in_flight: u32,
    /// Most permits ever out at once.
    pub peak_in_flight: u32,
    /// Permits granted so far.
    pub granted: u64,
    /// Permits returned by `Release`.
    pub released: u64,
    /// Permits taken back because their deadline passed.
    pub reaped: u64,
    /// Why used quota cannot be stored at present: nothing that needs it is granted meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_error: Option<String>,
    /// Lanes, sorted by key: `site`, `site@host`, then the endpoint.
    pub lanes: Vec<LaneSnapshot>,
}

/// State of one lane.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LaneSnapshot {
    /// The site.
    pub site: String,
    /// The host, in `crawl` mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The endpoint.
    pub endpoint: String,
    /// `open`, `pause`, `half_open` or `paused` (by a person).
    pub state: &'static str,
    /// Permits out.
    pub in_flight: u32,
    /// Most permits ever out at once.
    pub peak_in_flight: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// Permits granted so far.
    pub granted: u64,
    /// Reports by outcome class.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Time to the earliest grant, where a time has to pass; in milliseconds.
    pub not_before_ms: u64,
    /// Back-off events in a row.
    pub failures: u32,
}
