//! Records: the data that a crawl is for.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Name, UnixMillis};

/// One extracted piece of data. (site, kind, key) is unique in a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The site it comes from.
    pub site: Name,
    /// content, comment, creator, page, …
    pub kind: Name,
    /// The site's identity of the thing, always text: ids are never numbers here.
    pub key: String,
    /// The fields in the order of the definition.
    pub fields: Map<String, Value>,
}

/// What storing a record did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// First time seen: revision 1.
    New,
    /// Known, with other fields: the revision went up by one.
    Updated,
    /// Known and equal: nothing was written.
    Unchanged,
}

/// A record as it was committed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredRecord {
    /// The record itself.
    pub record: Record,
    /// 1 for the first version, then one more for each change.
    pub revision: u32,
    /// The run that stored this revision.
    pub run: Name,
    /// When it was stored.
    pub at: UnixMillis,
    /// What storing it did.
    pub change: Change,
}
