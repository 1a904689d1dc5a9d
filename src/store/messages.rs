//! What is asked of the Store of a job, and what it answers.
//!
//! Commands that arrive while a commit is being synced share the next one. An answer is sent only
//! after the commit that holds its effect.

use actix::Message;
use serde::Serialize;

use super::StoreError;
use crate::model::{
    Completion, LeaseToken, Name, NewTask, Params, Task, TaskId, TaskKey, UnixMillis,
};

/// Add tasks whose keys are unknown.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Pushed, StoreError>")]
pub struct Push {
    /// The site.
    pub site: Name,
    /// The tasks.
    pub tasks: Vec<NewTask>,
}

/// What a [`Push`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Added.
    pub added: u64,
    /// Known already.
    pub known: u64,
}

/// End some leases, each with all it brought, and take new ones.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Leased, StoreError>")]
pub struct Exchange {
    /// The site.
    pub site: Name,
    /// Who holds the leases: a new PlatformActor is a new owner.
    pub owner: u64,
    /// The leases that end.
    pub completions: Vec<Completion>,
    /// How many new leases to take, at most.
    pub lease: usize,
    /// How many of them each lane may have.
    pub room: LaneRoom,
}

/// How many new leases each lane may have: one whose tasks have to wait must not take them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneRoom {
    /// Every lane that is not named.
    pub each: usize,
    /// These lanes; zero: none at all.
    pub lanes: Vec<(Name, usize)>,
}

impl Default for LaneRoom {
    /// No bound.
    fn default() -> Self {
        Self {
            each: usize::MAX,
            lanes: Vec::new(),
        }
    }
}

/// What there is to do next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leased {
    /// The new leases.
    pub tasks: Vec<Task>,
    /// Tasks of the site that wait, whether due or not.
    pub pending: u64,
    /// Tasks of the site that are leased, the new ones included.
    pub leased: u64,
    /// When the earliest delayed or held task is due.
    pub next_due: Option<UnixMillis>,
    /// Whether more could have been leased, of lanes that have room; tells something only when leases were asked for.
    pub more: bool,
    /// Completions that were refused because their token was stale.
    pub stale: u64,
    /// Whether the page cap of the job was reached: what is pending stays so.
    pub capped: bool,
}

/// Claim the target of a redirect for a task: true when no other task has that key. The task then goes on from
/// there, also after a kill: no hop that was made is asked again.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<bool, StoreError>")]
pub struct Claim {
    /// The task that was redirected.
    pub task: TaskId,
    /// Its lease.
    pub lease: LeaseToken,
    /// The target's key.
    pub key: TaskKey,
    /// What the task's request is rendered from, now that it leads there.
    pub params: Params,
}

/// Lease nothing of a lane until then. Kept in memory only: it saves asking in vain.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Hold {
    /// The site.
    pub site: Name,
    /// The lane.
    pub lane: Name,
    /// Until when.
    pub until: UnixMillis,
}

/// Return to pending all that an owner holds: its PlatformActor is gone.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<u64, StoreError>")]
pub struct ReleaseOwner {
    /// The site.
    pub site: Name,
    /// The owner.
    pub owner: u64,
}

/// Counts by site and state.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "Result<StoreStats, StoreError>")]
pub struct Stats;

/// Commit, fold the log back, and end the run with these words; nothing is accepted afterwards.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<(), StoreError>")]
pub struct Close {
    /// `complete`, `interrupted`, …; `complete` ends the run, anything else leaves it open to be resumed.
    pub outcome: String,
    /// The report of the run, as JSON.
    pub report: Option<String>,
}

/// Counts of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StoreStats {
    /// By site.
    pub sites: std::collections::BTreeMap<String, SiteStats>,
}

/// Counts of one site of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SiteStats {
    /// Tasks ever added.
    pub added: u64,
    /// Tasks by state; the sum equals `added`.
    pub tasks: std::collections::BTreeMap<&'static str, u64>,
    /// Ended lists by stop reason.
    pub lists: std::collections::BTreeMap<String, u64>,
    /// Records by kind.
    pub records: std::collections::BTreeMap<String, RecordStats>,
    /// Earliest time at which a parked task may go on by itself.
    pub parked_until: Option<UnixMillis>,
    /// Some tasks that failed or are parked, for people: at most 20.
    pub troubles: Vec<Trouble>,
}

/// Counts of one kind of record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordStats {
    /// Distinct keys stored.
    pub stored: u64,
    /// Times a known record came again and was equal.
    pub unchanged: u64,
    /// Revisions beyond the first.
    pub updated: u64,
}

/// A task that did not end well.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trouble {
    /// Its endpoint.
    pub endpoint: String,
    /// What it asked for.
    pub what: String,
    /// `failed` or `parked`.
    pub state: &'static str,
    /// The outcome class.
    pub outcome: String,
    /// The reason.
    pub reason: String,
    /// Attempts made.
    pub attempts: u32,
}
