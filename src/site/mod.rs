//! Sites: what a platform's requests look like, how its answers are read, and what it allows.

mod answers;
mod canonical;
mod charset;
mod check;
mod crawl;
mod definition;
mod directives;
pub(crate) mod document;
mod endpoint;
mod extract;
mod inputs;
mod links;
mod load;
mod markup;
mod media_type;
mod nesting;
mod paging;
mod predicate;
mod prescan;
mod refresh;
mod save;
mod schema;
mod scope;
mod select;
mod template;
pub mod urls;
mod values;

use std::collections::BTreeMap;

use thiserror::Error;

use crate::model::{
    Answer, Job, ListState, Name, NewTask, Outcome, Params, Record, Request, RobotsPolicy, Task,
    TaskKey,
};
use crate::settings::LimitSettings;

pub use crawl::CrawlSite;
pub use definition::SiteDefinition;
pub use directives::Directives;
pub use document::{DefinitionErrors, Problem};
pub use links::{PageLinks, page_links, page_links_for};
pub use load::{builtin, load_dir};
pub use save::{FileType, Save};
pub(crate) use schema::read_limits;

/// One platform to crawl. A TOML definition is one implementation; an application may bring its own.
///
/// All methods are pure: they turn values into values, and never block.
pub trait Site: Send + Sync + 'static {
    /// The site's name: `[a-z0-9-]+`.
    fn name(&self) -> &Name;

    /// What the site allows, as far as its definition knows.
    fn limits(&self) -> SiteLimits;

    /// Whether robots.txt is consulted.
    fn robots(&self) -> RobotsPolicy {
        RobotsPolicy::Obey
    }

    /// Whether each host is a lane of its own (`crawl` mode); else each endpoint is.
    fn lanes_by_host(&self) -> bool {
        false
    }

    /// By what rules the keys of its tasks are made, where those can change between two runs of a job; a job that was
    /// begun with others says so. `None`: they cannot.
    fn key_rules(&self) -> Option<String> {
        None
    }

    /// The tasks that a job starts from; inputs that cannot be read are listed, the others go on.
    fn seeds(&self, job: &Job) -> Seeds;

    /// The request of a task.
    ///
    /// # Errors
    /// When a value is missing or the URL cannot be formed: the task fails with the text.
    fn request(&self, task: &Task) -> Result<Request, SiteError>;

    /// How the answer of a task is saved, where it is a file: it is streamed to the disk, and becomes a record of its own
    /// instead of being [read](Self::read). [`classify`](Self::classify) is asked with the first bytes of its body, and
    /// says `malformed` of what is no such file.
    ///
    /// # Errors
    /// When a value is missing: the task fails with the text.
    fn save(&self, task: &Task) -> Result<Option<Save>, SiteError> {
        let _ = task;
        Ok(None)
    }

    /// The class of an answer.
    fn classify(&self, task: &Task, answer: &Answer) -> Outcome;

    /// What an answer of class `ok` or `empty` holds.
    ///
    /// # Errors
    /// When the answer is not what the endpoint gives: the outcome becomes `malformed`.
    fn read(&self, task: &Task, answer: &Answer, reader: &Reader<'_>)
    -> Result<Reading, SiteError>;

    /// Whether a redirect of `task` to `target` may be followed, and under which key it is known.
    fn redirect(&self, task: &Task, target: &url::Url) -> Redirect;
}

/// What the engine lends to [`Site::read`].
pub struct Reader<'a> {
    /// The job: caps and rules.
    pub job: &'a Job,
    /// Whether a task with this key and at most this depth is known for sure; `false` promises nothing.
    /// Asked before a follow-up is built, so that the many links known already cost nothing.
    pub known: &'a dyn Fn(&TaskKey, u32) -> bool,
}

/// Limits of a site and of its endpoints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteLimits {
    /// For the site as a whole (for each host in `crawl` mode).
    pub site: LimitSettings,
    /// For single endpoints, beside those of the site.
    pub endpoints: BTreeMap<String, LimitSettings>,
}

/// The start of a job on one site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seeds {
    /// The tasks.
    pub tasks: Vec<NewTask>,
    /// Inputs that cannot be used, each with the reason.
    pub rejected: Vec<(String, String)>,
}

/// What one answer holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The records.
    pub records: Vec<Record>,
    /// The tasks found.
    pub follow: Vec<NewTask>,
    /// The new state of the task's list. `stop: None` means that there is a next page to ask for.
    pub list: Option<ListState>,
    /// How many sequences of bytes were none of the answer's encoding, so that its text lacks them.
    pub replaced: u64,
}

/// What becomes of a redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// Ask there, in this lane, unless the key is known already.
    Follow {
        /// The canonical URL to ask.
        url: url::Url,
        /// How the task claims it, where targets are de-duplicated.
        claim: Option<Target>,
        /// Its lane.
        lane: Name,
    },
    /// It is an answer of its own: of this class.
    Answer(Outcome),
    /// Out of bounds.
    Refuse(String),
}

/// A redirect's target as a task's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its key.
    pub key: TaskKey,
    /// What the task's request is rendered from, once it leads there.
    pub params: Params,
}

/// Why a site could not do its part; the text names the endpoint and what was missing or wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SiteError(pub String);
