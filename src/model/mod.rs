//! What is crawled, as plain values: outcomes, tasks, lists, records, jobs, time.
//!
//! Every layer above speaks in these types; nothing here knows an actor, a clock, a socket or a disk.

mod asked_url;
mod cookie;
mod file;
mod http;
mod job;
mod list;
mod outcome;
mod record;
mod task;
mod time;
mod url_rules;

use std::sync::Arc;

pub use asked_url::asked_url;
pub use cookie::{AccountKey, Cookie, CookieKey, SameSite};
pub use file::{Checksum, MEDIA_FOLDER};
pub use http::{Answer, BodyNote, Headers, Method, Request};
pub use job::{
    CookiePolicy, CrawlRules, Format, Inputs, Job, Mode, ParseNameError, RobotsPolicy, Scope,
};
pub use list::{ListState, StopReason};
pub use outcome::Outcome;
pub use record::{Change, Record, StoredRecord};
pub use task::{
    Completion, LeaseToken, NewTask, Params, Task, TaskEnd, TaskId, TaskKey, TaskState,
};
pub use time::{Timestamp, UnixMillis};
pub use url_rules::{ParamPattern, QueryRule, UrlRules};

/// An interned name: of a site, an endpoint, a record kind or a lane. Cheap to clone and `Send`.
pub type Name = Arc<str>;
