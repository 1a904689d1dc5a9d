//! Jobs: what to crawl.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::UrlRules;

/// A name that is not one of the allowed ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseNameError {
    what: &'static str,
    given: String,
    allowed: String,
}

impl ParseNameError {
    /// `given` is no `what`; `allowed` are the names there are.
    pub fn new<'a>(
        what: &'static str,
        given: &str,
        allowed: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self {
            what,
            given: given.to_owned(),
            allowed: allowed.into_iter().collect::<Vec<_>>().join(", "),
        }
    }
}

impl fmt::Display for ParseNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a {}; allowed: {}",
            self.given, self.what, self.allowed
        )
    }
}

impl std::error::Error for ParseNameError {}

macro_rules! named {
    ($(#[$doc:meta])* $type:ident ($what:literal) { $($(#[$vdoc:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $type { $($(#[$vdoc])* $variant),+ }

        impl $type {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name used in settings, on the command line and in reports.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ::std::str::FromStr for $type {
            type Err = ParseNameError;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                match name {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(ParseNameError::new($what, name, [$($name),+])),
                }
            }
        }
    };
}
pub(super) use named;

named! {
    /// What a job starts from.
    Mode ("mode") {
        /// Keywords.
        Search = "search",
        /// Ids or URLs of items.
        Detail = "detail",
        /// Ids or URLs of creators.
        Creator = "creator",
        /// Start URLs, then the links found.
        Crawl = "crawl",
    }
}

named! {
    /// A form of output.
    Format ("format") {
        /// JSON Lines: one flat object a line.
        Jsonl = "jsonl",
    }
}

named! {
    /// Which links `crawl` mode follows.
    Scope ("scope") {
        /// The start URL's scheme family, host and port.
        Host = "host",
        /// The start URL's registrable domain and its subdomains.
        Domain = "domain",
        /// URLs below the start URL's directory.
        Prefix = "prefix",
    }
}

named! {
    /// Whether robots.txt is consulted.
    RobotsPolicy ("robots policy") {
        /// Fetched through the governor and obeyed (RFC 9309).
        Obey = "obey",
        /// Not consulted.
        Off = "off",
    }
}

named! {
    /// Whether a site's cookies are kept.
    CookiePolicy ("cookie policy") {
        /// Kept and sent back (RFC 6265), across runs.
        Keep = "keep",
        /// Neither kept nor sent.
        Off = "off",
    }
}

/// What a job starts from, by mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Inputs {
    /// For `search`.
    pub keywords: Vec<String>,
    /// For `detail`.
    pub ids: Vec<String>,
    /// For `creator`.
    pub creators: Vec<String>,
    /// For `crawl`.
    pub urls: Vec<String>,
}

/// Rules of `crawl` mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CrawlRules {
    /// Which links are followed.
    pub scope: Scope,
    /// Regular expressions over the canonical URL; when there are any, one of them must match.
    pub include: Vec<String>,
    /// Regular expressions over the canonical URL; none may match.
    pub exclude: Vec<String>,
    /// Links away from the start; `None`: no limit.
    pub max_depth: Option<u32>,
    /// Pages stored; `None`: no limit.
    pub max_pages: Option<u64>,
    /// Whether robots.txt is consulted.
    pub robots: RobotsPolicy,
    /// What a page is recognised by.
    pub urls: UrlRules,
}

impl Default for CrawlRules {
    fn default() -> Self {
        Self {
            scope: Scope::Host,
            include: Vec::new(),
            exclude: Vec::new(),
            max_depth: None,
            max_pages: None,
            robots: RobotsPolicy::Obey,
            urls: UrlRules::default(),
        }
    }
}

/// One set of inputs for some sites. Its directory is its identity on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The sites; in `crawl` mode without a site definition: none.
    pub sites: Vec<String>,
    /// What it starts from.
    pub mode: Mode,
    /// The inputs of that mode.
    pub inputs: Inputs,
    /// The output directory; the store lies inside it.
    pub out: PathBuf,
    /// Forms of output.
    pub formats: Vec<Format>,
    /// Items per list of a start endpoint (a keyword, a creator), or ids in `detail`; `None`: no limit.
    pub max_items: Option<u64>,
    /// Comments per item; `None`: no limit.
    pub max_comments: Option<u64>,
    /// Rules of `crawl` mode.
    pub crawl: CrawlRules,
    /// Archive what the directory holds and start over.
    pub fresh: bool,
}

impl Job {
    /// A job without inputs, in the default directory `data`.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self {
            sites: Vec::new(),
            mode,
            inputs: Inputs::default(),
            out: PathBuf::from("data"),
            formats: vec![Format::Jsonl],
            max_items: None,
            max_comments: None,
            crawl: CrawlRules::default(),
            fresh: false,
        }
    }

    /// Search `site` for `keywords`.
    pub fn search<S: Into<String>>(site: &str, keywords: impl IntoIterator<Item = S>) -> Self {
        let mut job = Self::new(Mode::Search).site(site);
        job.inputs.keywords = keywords.into_iter().map(Into::into).collect();
        job
    }

    /// Fetch the items `ids` of `site`.
    pub fn detail<S: Into<String>>(site: &str, ids: impl IntoIterator<Item = S>) -> Self {
        let mut job = Self::new(Mode::Detail).site(site);
        job.inputs.ids = ids.into_iter().map(Into::into).collect();
        job
    }

    /// Fetch what the `creators` of `site` published.
    pub fn creator<S: Into<String>>(site: &str, creators: impl IntoIterator<Item = S>) -> Self {
        let mut job = Self::new(Mode::Creator).site(site);
        job.inputs.creators = creators.into_iter().map(Into::into).collect();
        job
    }

    /// Crawl from `urls` along the links.
    pub fn crawl<S: Into<String>>(urls: impl IntoIterator<Item = S>) -> Self {
        let mut job = Self::new(Mode::Crawl);
        job.inputs.urls = urls.into_iter().map(Into::into).collect();
        job
    }

    /// Add a site.
    #[must_use]
    pub fn site(mut self, site: &str) -> Self {
        self.sites.push(site.to_owned());
        self
    }

    /// Write to `out`.
    #[must_use]
    pub fn out(mut self, out: impl Into<PathBuf>) -> Self {
        self.out = out.into();
        self
    }
}
