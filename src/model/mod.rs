//! What is crawled, as plain values: outcomes, tasks, lists, records, jobs, time.
//!
//! Every layer above speaks in these types; nothing here knows an actor, a clock, a socket or a disk.

mod file;
mod http;
mod job;
mod list;
mod outcome;
mod record;
mod task;
mod time;

use std::sync::Arc;

pub use file::{Checksum, MEDIA_FOLDER};
pub use http::{Answer, BodyNote, Headers, Method, Request};
pub use job::{CrawlRules, Format, Inputs, Job, Mode, ParseNameError, RobotsPolicy, Scope};
pub use list::{ListState, StopReason};
pub use outcome::Outcome;
pub use record::{Change, Record, StoredRecord};
pub use task::{
    Completion, LeaseToken, NewTask, Params, Task, TaskEnd, TaskId, TaskKey, TaskState,
};
pub use time::{Timestamp, UnixMillis};

/// An interned name: of a site, an endpoint, a record kind or a lane. Cheap to clone and `Send`.
pub type Name = Arc<str>;
