//! Tasks: the units of work of the frontier.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ListState, Name, Outcome, Record, UnixMillis};

/// Identity of a task within its job.
pub type TaskId = i64;

/// A fencing token: a lease is honoured only with the token it was handed out with.
pub type LeaseToken = u64;

/// What a task's request is rendered from. In `crawl` mode: `{"url": "…"}`.
pub type Params = Map<String, Value>;

/// 128-bit keyed hash of (site, endpoint, identity): what de-duplication compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskKey(pub [u8; 16]);

impl TaskKey {
    /// The key of a task. The parts are length-prefixed, so that no two different lists of parts collide by joining.
    #[must_use]
    pub fn of(site: &str, endpoint: &str, identity: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in [site, endpoint, identity] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let mut key = [0; 16];
        key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(key)
    }
}

/// A task that is to be added, unless its key is known.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    /// The endpoint that answers it.
    pub endpoint: Name,
    /// What its request is rendered from; of two with one key the latest wins while the task waits.
    pub params: Params,
    /// What de-duplication compares.
    pub key: TaskKey,
    /// The queue it waits in, by what limits it: the endpoint of an API site, the host in `crawl` mode.
    pub lane: Name,
    /// Smaller goes first. In `crawl` mode the depth.
    pub priority: i32,
    /// Links away from the start.
    pub depth: u32,
    /// Whether the task stands for a list and carries a [`ListState`].
    pub list: bool,
}

/// States of the frontier. A delayed task is `Pending` with a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Waits for a lease, from its due time on.
    Pending,
    /// Handed to a PlatformActor.
    Leased,
    /// Finished.
    Done,
    /// Failed for good.
    Failed,
    /// Waits for a time far off or for a person.
    Parked,
    /// Not asked: out of scope, denied by robots, or the target of a redirect that was already known.
    Dropped,
}

impl TaskState {
    /// All states.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Leased,
        Self::Done,
        Self::Failed,
        Self::Parked,
        Self::Dropped,
    ];

    /// The name used in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Leased => "leased",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Parked => "parked",
            Self::Dropped => "dropped",
        }
    }
}

/// A leased task.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Identity within the job.
    pub id: TaskId,
    /// The token that completes this lease.
    pub lease: LeaseToken,
    /// The site it belongs to.
    pub site: Name,
    /// The endpoint that answers it.
    pub endpoint: Name,
    /// What its request is rendered from.
    pub params: Params,
    /// The queue it waited in.
    pub lane: Name,
    /// Smaller goes first.
    pub priority: i32,
    /// Links away from the start.
    pub depth: u32,
    /// Attempts that ended without a result before this one.
    pub attempts: u32,
    /// Where its list stands, when the task stands for a list.
    pub list: Option<ListState>,
}

/// How one lease of a task ends.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskEnd {
    /// Finished.
    Done {
        /// Its class.
        outcome: Outcome,
    },
    /// The page of a list was read and the list goes on: back to pending, attempts start afresh.
    Continue,
    /// Asked without a result: pending again, one attempt more, not before `due`.
    Retry {
        /// Earliest next attempt.
        due: UnixMillis,
        /// What the attempt came to.
        outcome: Outcome,
    },
    /// Handed back unasked: pending again, no attempt counted, not before `due` if given.
    Unused {
        /// Earliest next lease.
        due: Option<UnixMillis>,
    },
    /// Failed for good.
    Failed {
        /// Its class.
        outcome: Outcome,
        /// For people; no secrets.
        reason: String,
    },
    /// Waits for a time or a person.
    Parked {
        /// Its class.
        outcome: Outcome,
        /// When it may go on by itself; `None`: a person must act.
        until: Option<UnixMillis>,
        /// For people; no secrets.
        reason: String,
    },
    /// Not asked, and never will be.
    Dropped {
        /// For people.
        reason: String,
    },
}

/// All that a lease brought, committed as one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The task.
    pub task: TaskId,
    /// The token of the lease; a stale one changes nothing.
    pub lease: LeaseToken,
    /// How it ended.
    pub end: TaskEnd,
    /// The records found.
    pub records: Vec<Record>,
    /// The tasks found.
    pub follow: Vec<NewTask>,
    /// The list's new state, where the task stands for a list.
    pub list: Option<ListState>,
}
