//! What is asked of the RateGovernor, and what it answers.

use std::collections::BTreeMap;
use std::fmt;
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

impl fmt::Display for LaneKey {
    /// `site/endpoint` or `site@host/endpoint`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.site)?;
        if let Some(host) = &self.host {
            write!(f, "@{host}")?;
        }
        write!(f, "/{}", self.endpoint)
    }
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
}

/// What an answer's header says of limits, already turned into bounds that count from now. A hint is a
/// bound, never a licence to go faster than proved: it can lower a pace or a cap and delay a request, nothing else.
///
/// How each is to be applied:
///
/// | field | bounds | of which answers | how long |
/// |---|---|---|---|
/// | `retry_after` | not-before of the lane; a pause is no shorter | all, of old epochs too | until it has passed |
/// | `exhausted` | not-before of the lane and of those that share its bucket | all, successes too | until it has passed |
/// | `rate` | the pace, with a burst of 2 at most | all | `rate_for`, or until an answer tells another |
/// | `cap` | requests in flight | all | until an answer tells another |
///
/// A not-before is only ever prolonged. It may be lengthened a little, so that lanes do not wake in one instant,
/// and is never cut short: what is longer than the caller's patience is refused with its time. Zero adds nothing to
/// the governor's own pause. None of the fields says by itself that the server refused: that is the outcome's part,
/// so `exhausted` on a success is no failure and asks for no probe.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hints {
    /// A floor for the next request of the lane: `Retry-After` and its like. Saturates; zero is "no extra wait".
    pub retry_after: Option<Duration>,
    /// Nothing is left before this has passed, whatever the status: none remaining, with its reset.
    pub exhausted: Option<Duration>,
    /// At most so many requests per second, the least that any policy or counter allows; from 1e-6 to 1e9. Of a
    /// quota shared with other clients it falls with what they leave. It replaces what an earlier answer told.
    pub rate: Option<f64>,
    /// How long `rate` holds: until its counter starts anew. `None`: until an answer tells another.
    pub rate_for: Option<Duration>,
    /// At most so many requests at once; at least 1.
    pub cap: Option<u32>,
    /// Names the bucket that the request was counted in, where the server tells: a hash of its name, the same in
    /// every process. Lanes of one site with the same bucket share a limit. Names of different sites do not compare.
    pub bucket: Option<u64>,
    /// The times and bounds are those of the whole site, not of the lane alone: the server said so.
    pub whole_site: bool,
}

impl Hints {
    /// The time that has to pass before the next request, for whichever reason told.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.retry_after.max(self.exhausted)
    }
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

/// The least time between two requests on the host of `lane` (in `crawl` mode; else on its site), whatever the limits
/// allow: what a `Crawl-delay` asks for. It holds as long as this governor, or one that follows it, remembers the host,
/// so say it before each request; said again it costs nothing.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Ceiling {
    /// A lane of the host.
    pub lane: Arc<LaneKey>,
    /// The time; `None`: only what the limits ask for.
    pub interval: Option<Duration>,
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
    /// Lanes, sorted by key: `site`, `site@host`, then the endpoint. Those that nobody asked for lately may be
    /// missing where there are many hosts.
    pub lanes: Vec<LaneSnapshot>,
    /// Sums over lanes that are missing, by site and endpoint. One that came back counts here with what it did
    /// before, and among `lanes` with what it did since.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<DroppedLanes>,
}

/// What lanes did that are kept no more.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DroppedLanes {
    /// The site.
    pub site: String,
    /// The endpoint.
    pub endpoint: String,
    /// How often a lane was dropped.
    pub lanes: u64,
    /// Most permits ever out at once in one of them.
    pub peak_in_flight: u32,
    /// Permits granted.
    pub granted: u64,
    /// Reports by outcome class.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Decisions of the adaptive law.
    pub learning_events: u64,
    /// Requests that were not granted in the instant they asked.
    pub deferred: u64,
    /// Requests that were sent away.
    pub refused: u64,
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
    /// `fixed` or `adaptive`.
    pub mode: &'static str,
    /// The pace of an adaptive lane now, in requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace_per_second: Option<f64>,
    /// What an adaptive lane believes that the server takes, in requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned_rate_per_second: Option<f64>,
    /// Requests at once that the server takes, where an adaptive lane has found that it counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned_cap: Option<u32>,
    /// Decisions of the adaptive law so far: refusals that it acted on, one for each event.
    pub learning_events: u64,
    /// Endpoints of the same site that share a limit with this one, as far as was found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares_with: Vec<String>,
    /// Requests that were not granted in the instant they asked.
    pub deferred: u64,
    /// Requests that were sent away: the wait was longer than their patience, or too many waited.
    pub refused: u64,
    /// Wait for a permit, median; in milliseconds, rounded up to a power of the root of 2.
    pub wait_p50_ms: f64,
    /// The same, 95 %.
    pub wait_p95_ms: f64,
    /// Time in flight ÷ (cap × time since the first request): 1 is a cap that is always full.
    pub utilisation: f64,
}
