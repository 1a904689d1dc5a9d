//! The effective settings of a node: what the layers come to.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::egress::EgressSettings;
use super::polite::{CacheMode, CacheSettings, CrawlDelay, RobotsSettings};
use super::value::{Quota, Rate};
use crate::model::{
    CookiePolicy, CrawlRules, ParamPattern, ParseNameError, QueryRule, RobotsPolicy, UrlRules,
};

/// All settings. [`Settings::default`] equals the shipped `config/default.toml`.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The one global cap on exchanges in flight. 1 to 10000.
    pub max_concurrency_num: u32,
    /// A run keeps waiting while the earliest not-before is within this.
    pub max_wait: Duration,
    /// How long exchanges in flight may take to end after a stop was asked for.
    pub shutdown_grace: Duration,
    /// Threads that PlatformActors are hashed onto; 0: one per core.
    pub arbiters: u32,
    /// Tasks leased beyond the cap, so that the next permit finds one waiting. 0 to 1000.
    pub prefetch: u32,
    /// Sent as `User-Agent`, and matched against robots.txt by its product token.
    pub user_agent: String,
    /// Where jobs write when none is named.
    pub out: PathBuf,
    /// What belongs to the user and not to a job; `None`: the platform's state folder.
    pub state: Option<PathBuf>,
    /// Directory of site definitions beside the built-in ones.
    pub sites_dir: Option<PathBuf>,
    /// Limits of every site that sets none itself.
    pub limits: LimitSettings,
    /// Back-off of a lane after a refusal.
    pub backoff: BackoffSettings,
    /// Retries of a task.
    pub retry: RetrySettings,
    /// Clocks and bounds of one HTTP exchange.
    pub exchange: ExchangeSettings,
    /// How robots.txt is obeyed.
    pub robots: RobotsSettings,
    /// The cache of answers.
    pub cache: CacheSettings,
    /// The store of a job.
    pub store: StoreSettings,
    /// Logging of the binary.
    pub log: LogSettings,
    /// Rules of `crawl` mode.
    pub crawl: CrawlRules,
    /// Proxies, by name.
    pub egress: BTreeMap<String, EgressSettings>,
    /// Per site, by name.
    pub sites: BTreeMap<String, SiteSettings>,
    /// Scales pauses, retry delays and cool-downs. For tests only; 1 otherwise. 0.001 to 1.
    pub test_time_scale: f64,
}

/// Limits of a site or an endpoint. What is `None` is not limited at this level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitSettings {
    /// Whether the governor looks for the limit below those that are set; `None`: as the level above.
    pub mode: Option<LimitMode>,
    /// How it looks; `None`: as the level above.
    pub profile: Option<Profile>,
    /// Exchanges in flight. Can only lower the global cap.
    pub max_concurrency_num: Option<u32>,
    /// Pace.
    pub rate: Option<Rate>,
    /// Requests that may leave at once after a pause, at a set rate. 1 to 1000; default 1.
    pub burst: Option<u32>,
    /// Requests per sliding window.
    pub quota: Vec<Quota>,
    /// How long one exchange may take, instead of `exchange.total_timeout`. 1 ms to 24 h.
    pub total_timeout: Option<Duration>,
}

impl LimitSettings {
    /// `self` where it sets something, else `base`.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        Self {
            mode: self.mode.or(base.mode),
            profile: self.profile.or(base.profile),
            max_concurrency_num: self.max_concurrency_num.or(base.max_concurrency_num),
            rate: self.rate.or(base.rate),
            burst: self.burst.or(base.burst),
            quota: if self.quota.is_empty() {
                base.quota.clone()
            } else {
                self.quota.clone()
            },
            total_timeout: self.total_timeout.or(base.total_timeout),
        }
    }
}

/// Whether the governor looks for a limit that nobody told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitMode {
    /// Only what is configured limits, and a refusal pauses.
    Fixed,
    /// Below what is configured, the governor finds the fastest pace that the server takes.
    #[default]
    Adaptive,
}

/// How the governor looks for a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// As few refusals as can be: for sites that ban.
    #[default]
    BanSafe,
    /// Follows a limit that rises sooner, for a few refusals more.
    Responsive,
}

impl LimitMode {
    /// The names.
    pub const NAMES: &'static [&'static str] = &["fixed", "adaptive"];

    /// The name used in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Adaptive => "adaptive",
        }
    }
}

impl FromStr for LimitMode {
    type Err = ParseNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "fixed" => Ok(Self::Fixed),
            "adaptive" => Ok(Self::Adaptive),
            _ => Err(ParseNameError::new(
                "limit mode",
                name,
                Self::NAMES.iter().copied(),
            )),
        }
    }
}

impl Profile {
    /// The names.
    pub const NAMES: &'static [&'static str] = &["ban_safe", "responsive"];

    /// The name used in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BanSafe => "ban_safe",
            Self::Responsive => "responsive",
        }
    }
}

impl FromStr for Profile {
    type Err = ParseNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "ban_safe" => Ok(Self::BanSafe),
            "responsive" => Ok(Self::Responsive),
            _ => Err(ParseNameError::new(
                "profile",
                name,
                Self::NAMES.iter().copied(),
            )),
        }
    }
}

/// Settings of one site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteSettings {
    /// Replaces the definition's base URL.
    pub base_url: Option<String>,
    /// Whether robots.txt is consulted for this site.
    pub robots: Option<RobotsPolicy>,
    /// The egresses that its exchanges go through; none: those of `exchange.egress`.
    pub egress: Vec<String>,
    /// Whether a `Crawl-delay` is kept; `None`: as `robots.crawl_delay` says.
    pub crawl_delay: Option<CrawlDelay>,
    /// Whether answers are kept for the next run; `None`: as `cache.mode` says.
    pub cache: Option<CacheMode>,
    /// What a page is recognised by in mode `crawl`.
    pub urls: SiteUrlSettings,
    /// Whether its cookies are kept and sent; `None`: as `exchange.cookies` says.
    pub cookies: Option<CookiePolicy>,
    /// Share of the global cap's slot time, relative to other sites. 1 to 100; `None` counts as 1.
    pub weight: Option<u32>,
    /// Its limits; they override those of the definition.
    pub limits: LimitSettings,
    /// Limits per endpoint.
    pub endpoints: BTreeMap<String, LimitSettings>,
}

/// What a page of one site is recognised by. What is `None` is as for all sites.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteUrlSettings {
    /// Whether the order of the query counts.
    pub query: Option<QueryRule>,
    /// Options that do not count.
    pub drop_params: Option<Vec<ParamPattern>>,
}

impl SiteUrlSettings {
    /// `self` where it sets something, else `base`.
    #[must_use]
    pub fn over(&self, base: &UrlRules) -> UrlRules {
        let drop_params = self.drop_params.as_ref().unwrap_or(&base.drop_params);
        UrlRules {
            query: self.query.unwrap_or(base.query),
            drop_params: drop_params.clone(),
        }
    }
}

/// Back-off of a lane: exponential, with jitter, shared by all tasks of the lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffSettings {
    /// First pause.
    pub base: Duration,
    /// Longest pause that is not asked for by the server.
    pub max: Duration,
    /// Each further event multiplies the pause by this. 1 to 10.
    pub factor: f64,
    /// A pause is lengthened by up to this share of itself. 0 to 1.
    pub jitter: f64,
}

/// Retries of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetrySettings {
    /// Attempts in all, the first included. 1 to 100.
    pub max_attempts: u32,
    /// Retries that each first request of a site earns; beyond them retries wait longer. 0 to 1.
    pub ratio: f64,
    /// Delay before the first retry; doubles each time.
    pub base: Duration,
    /// Longest delay before a retry.
    pub max: Duration,
}

/// Clocks and bounds of one exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangeSettings {
    /// DNS, TCP and TLS.
    pub connect_timeout: Duration,
    /// From the request sent to the first byte of an answer, an interim one included.
    pub first_byte_timeout: Duration,
    /// From the request sent to the end of the answer's head.
    pub head_timeout: Duration,
    /// Longest silence while the body arrives.
    pub idle_timeout: Duration,
    /// Bytes per second that a body must bring, on average over each `min_rate_window`. 1 to 1000000000; `None`: any.
    pub min_bytes_per_second: Option<u32>,
    /// Over how long the pace of a body is measured.
    pub min_rate_window: Duration,
    /// The whole exchange.
    pub total_timeout: Duration,
    /// Bytes of the answer's head.
    pub max_header_bytes: u64,
    /// Bytes of the body as received.
    pub max_body_bytes: u64,
    /// Bytes of the body decoded; `None`: as `max_body_bytes`.
    pub max_decoded_bytes: Option<u64>,
    /// How many times larger than it arrived a body of more than 1 MiB may be once it is decoded. 10 to 1000000.
    pub max_expansion: u32,
    /// Redirects followed for one task.
    pub max_redirects: u32,
    /// PEM file with further certificate authorities.
    pub ca_file: Option<PathBuf>,
    /// The egresses that exchanges go through, by name; none: straight to the server.
    pub egress: Vec<String>,
    /// Whether addresses that are not of the public internet are refused.
    pub deny_private_addresses: bool,
    /// How long the addresses of a host are used before it is looked up again. 1 s to 1 day.
    pub dns_ttl: Duration,
    /// How long a host that was not resolved is not looked up again; doubles to 15 times. 1 s to 1 h.
    pub dns_failure_ttl: Duration,
    /// Whether cookies of sites that say nothing themselves are kept and sent.
    pub cookies: CookiePolicy,
}

impl ExchangeSettings {
    /// Bytes that a body may have once it is decoded.
    #[must_use]
    pub fn decoded_limit(&self) -> u64 {
        self.max_decoded_bytes.unwrap_or(self.max_body_bytes)
    }
}

/// The store of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoreSettings {
    /// Page cache of SQLite, in bytes.
    pub cache_bytes: u64,
    /// The write-ahead log is folded back when it passes this, in bytes.
    pub wal_bytes: u64,
}

/// Logging of the binary.
#[derive(Clone, Debug, PartialEq)]
pub struct LogSettings {
    /// error, warning, info, debug or trace.
    pub level: LogLevel,
}

/// Least severe level that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Only errors.
    Error,
    /// And warnings.
    Warning,
    /// And what a user wants to know.
    Info,
    /// And what a site author wants to know.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// The names, most severe first.
    pub const NAMES: &'static [&'static str] = &["error", "warning", "info", "debug", "trace"];

    /// The name used in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl FromStr for LogLevel {
    type Err = ParseNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "error" => Ok(Self::Error),
            "warning" => Ok(Self::Warning),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            "trace" => Ok(Self::Trace),
            _ => Err(ParseNameError::new(
                "log level",
                name,
                Self::NAMES.iter().copied(),
            )),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_concurrency_num: 1,
            max_wait: Duration::from_secs(15 * 60),
            shutdown_grace: Duration::from_secs(10),
            arbiters: 0,
            prefetch: 8,
            user_agent: concat!("crawler-node/", env!("CARGO_PKG_VERSION")).to_owned(),
            out: PathBuf::from("data"),
            state: None,
            sites_dir: None,
            limits: LimitSettings {
                mode: Some(LimitMode::Adaptive),
                profile: Some(Profile::BanSafe),
                ..LimitSettings::default()
            },
            backoff: BackoffSettings {
                base: Duration::from_secs(2),
                max: Duration::from_secs(300),
                factor: 2.0,
                jitter: 0.3,
            },
            retry: RetrySettings {
                max_attempts: 5,
                ratio: 0.2,
                base: Duration::from_secs(1),
                max: Duration::from_secs(120),
            },
            exchange: ExchangeSettings {
                connect_timeout: Duration::from_secs(10),
                first_byte_timeout: Duration::from_secs(30),
                head_timeout: Duration::from_secs(30),
                idle_timeout: Duration::from_secs(15),
                min_bytes_per_second: Some(20),
                min_rate_window: Duration::from_secs(20),
                total_timeout: Duration::from_secs(60),
                max_header_bytes: 128 * 1024,
                max_body_bytes: 16 * 1024 * 1024,
                max_decoded_bytes: None,
                max_expansion: 1000,
                max_redirects: 10,
                ca_file: None,
                egress: Vec::new(),
                deny_private_addresses: false,
                dns_ttl: Duration::from_secs(60),
                dns_failure_ttl: Duration::from_secs(60),
                cookies: CookiePolicy::Keep,
            },
            robots: RobotsSettings::default(),
            cache: CacheSettings::default(),
            store: StoreSettings {
                cache_bytes: 16 * 1024 * 1024,
                wal_bytes: 64 * 1024 * 1024,
            },
            log: LogSettings {
                level: LogLevel::Info,
            },
            crawl: CrawlRules::default(),
            egress: BTreeMap::new(),
            sites: BTreeMap::new(),
            test_time_scale: 1.0,
        }
    }
}
