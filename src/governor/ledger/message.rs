//! What a ledger is told, and what it wants done.

use std::time::Duration;

use super::{LaneId, Learned};
use crate::governor::messages::{Hints, PermitId, Refused, Target, Ticket};
use crate::governor::quota_store::Use;
use crate::model::{Outcome, Timestamp};
use crate::settings::LimitSettings;

/// What a ledger is told.
#[derive(Clone, Debug)]
pub enum Msg {
    /// Ask for a permit.
    Acquire {
        /// Names the request.
        ticket: Ticket,
        /// From [`Ledger::lane`](super::Ledger::lane).
        lane: LaneId,
        /// Smaller goes first.
        priority: u8,
        /// Longest time worth staying for.
        patience: Duration,
    },
    /// An exchange ended.
    Release {
        /// Its permit.
        permit: PermitId,
        /// Whether a request was, or may have been, sent.
        used: bool,
    },
    /// What an answer was.
    Report {
        /// The permit it came under.
        permit: PermitId,
        /// Its class.
        outcome: Outcome,
        /// What its header says of limits.
        hints: Hints,
    },
    /// Take a request back.
    Cancel {
        /// The request.
        ticket: Ticket,
    },
    /// New limits.
    Retune {
        /// Whose.
        target: Target,
        /// The limits.
        limits: LimitSettings,
    },
    /// The least time between two requests on the host of a lane.
    Ceiling {
        /// From [`Ledger::lane`](super::Ledger::lane).
        lane: LaneId,
        /// The time; `None`: only what the limits ask for.
        interval: Option<Duration>,
    },
    /// Grant nothing.
    Pause {
        /// For whom.
        target: Target,
        /// For how long; `None`: until resumed.
        length: Option<Duration>,
    },
    /// End a pause.
    Resume {
        /// Whose.
        target: Target,
    },
    /// Grant no new permits, refuse all who wait.
    Drain,
    /// Time has passed: [`Ledger::next_wake`](super::Ledger::next_wake) was due.
    Tick,
    /// What earlier processes used, from the quota store. Until it comes, nothing leaves that is stored.
    UsesLoaded(Vec<(String, Timestamp)>),
    /// What earlier runs knew of lanes, by scope. Until it comes, nothing is granted.
    LearnedLoaded(Vec<(String, Known)>),
    /// The use of a permit is stored: it may be handed out.
    UseStored(PermitId),
    /// Other processes used the same quotas meanwhile; the use of the permit is *not* stored.
    UseBehind(PermitId, Vec<(String, Timestamp)>),
    /// The use of a permit could not be stored; do not ask before the time has passed.
    UseFailed(PermitId, Duration),
}

/// What is worth knowing of a lane in the next run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Known {
    /// What its law learned.
    pub learned: Option<Learned>,
    /// What is left of a time that its server named.
    pub wait: Option<Duration>,
}

/// What a ledger wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Hand out a permit.
    Grant {
        /// To this request.
        ticket: Ticket,
        /// The permit.
        permit: PermitId,
        /// Its lane.
        lane: LaneId,
        /// When it is taken back.
        deadline: Timestamp,
    },
    /// Send a request away.
    Refuse {
        /// The request.
        ticket: Ticket,
        /// Why.
        why: Refused,
    },
    /// Read what was stored, then say [`Msg::UsesLoaded`]. Asked once, when it is first needed.
    Load,
    /// Read what earlier runs knew of lanes, then say [`Msg::LearnedLoaded`]. Asked once, when it is first
    /// needed.
    LoadLearned,
    /// A server named a time that outlasts a restart: store [`Ledger::take_news`](super::Ledger::take_news) now.
    KeepLearned,
    /// Store the uses of a permit, then say [`Msg::UseStored`], [`Msg::UseBehind`] or [`Msg::UseFailed`].
    Store {
        /// The permit.
        permit: PermitId,
        /// What it uses.
        uses: Vec<Use>,
    },
}
