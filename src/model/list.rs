//! A list: the pages that belong together, and why it ended.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Why a list has no further page to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The server said that there is no more.
    Complete,
    /// A cap of the job was reached.
    Cap,
    /// Everything further is known from an earlier run.
    Known,
    /// The server's own window ended.
    ServerWindow,
    /// The cursor repeated, or pages brought nothing new.
    Stalled,
    /// An empty page where items were expected, twice.
    EmptyUnconfirmed,
    /// The site blocked us.
    Blocked,
    /// The run was stopped.
    Interrupted,
    /// A page failed for good.
    Error,
}

impl StopReason {
    /// The name used in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Cap => "cap",
            Self::Known => "known",
            Self::ServerWindow => "server_window",
            Self::Stalled => "stalled",
            Self::EmptyUnconfirmed => "empty_unconfirmed",
            Self::Blocked => "blocked",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
        }
    }
}

/// Where a list stands. It travels with the list's one task: after each page the task goes back
/// to the frontier with the new state, until a stop reason ends it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListState {
    /// Pages read so far.
    pub pages: u32,
    /// What asks for the next page: a page number, an offset, a cursor or a URL; `None` before the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Value>,
    /// Values made once per list and sent with each of its pages.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub sticky: Map<String, Value>,
    /// Distinct items taken from the pages so far.
    pub items: u64,
    /// The server's own count of items, where it told one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Fingerprints of the items taken, kept while a cap or a stall guard needs them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<u64>,
    /// Consecutive pages that brought no new item.
    pub stale_pages: u32,
    /// The page asked for came empty although there should be more: it is asked once more, then the list ends.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub confirming: bool,
    /// Why the list ended; `None` while it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
}
