//! The settings there are: one table for each level, with what each key allows.
//!
//! The tables are the one source of keys: reading, checking, showing and the shipped `default.toml` follow them.

use std::time::Duration;

use super::egress::EgressSettings;
use super::field::{Allowed, Field};
use super::polite::{CacheMode, CrawlDelay};
use super::schema::{LimitMode, LimitSettings, LogLevel, Profile, Settings, SiteSettings};

/// One setting of a level `S`: all settings, those of a site, those of an endpoint.
pub(super) struct Key<S: 'static> {
    /// Its key, relative to the level.
    pub(super) name: &'static str,
    /// What it takes.
    pub(super) allowed: Allowed,
    /// Its value.
    pub(super) get: fn(&S) -> &dyn Field,
    /// Its value, to be set.
    pub(super) get_mut: fn(&mut S) -> &mut dyn Field,
}

impl<S: Default> Key<S> {
    /// What it takes, for messages.
    pub(super) fn allowed(&self) -> String {
        if (self.get)(&S::default()).optional() {
            format!("{}, or \"none\"", self.allowed)
        } else {
            self.allowed.to_string()
        }
    }
}

/// A key whose name is the path of its field.
macro_rules! key {
    ($allowed:expr, $head:ident $(. $tail:ident)*) => {
        key!($allowed, concat!(stringify!($head) $(, ".", stringify!($tail))*) => $head $(. $tail)*)
    };
    ($allowed:expr, $name:expr => $($field:tt)+) => {
        Key {
            name: $name,
            allowed: $allowed,
            get: |settings| &settings.$($field)+,
            get_mut: |settings| &mut settings.$($field)+,
        }
    };
}

const DAY: Duration = Duration::from_secs(86_400);
const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
/// Times of one exchange: longer ones are a mistake, shorter ones no network keeps.
const CLOCK: Allowed = Allowed::Time(MILLISECOND, Duration::from_secs(3600));
/// Pauses and waits.
const PAUSE: Allowed = Allowed::Time(MILLISECOND, DAY);
const CAP: Allowed = Allowed::Whole(1, 10_000);
const BURST: Allowed = Allowed::Whole(1, 1000);
/// What the order of a query counts for.
const QUERY: &[&str] = &["exact", "sort", "sort_unique"];
const COOKIES: Allowed = Allowed::Names(&["keep", "off"]);
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// Keys of the node, in the order they are shown.
pub(super) static NODE: &[Key<Settings>] = &[
    key!(CAP, max_concurrency_num),
    key!(
        Allowed::Time(Duration::ZERO, Duration::from_secs(30 * 86_400)),
        max_wait
    ),
    key!(
        Allowed::Time(Duration::ZERO, Duration::from_secs(3600)),
        shutdown_grace
    ),
    key!(Allowed::Whole(0, 256), arbiters),
    key!(Allowed::Whole(0, 1000), prefetch),
    key!(Allowed::Header, user_agent),
    key!(Allowed::Path, out),
    key!(Allowed::Path, state),
    key!(Allowed::Path, sites_dir),
    key!(Allowed::Real(0.001, 1.0), test_time_scale),
    key!(Allowed::Names(LimitMode::NAMES), limits.mode),
    key!(Allowed::Names(Profile::NAMES), limits.profile),
    key!(CAP, limits.max_concurrency_num),
    key!(Allowed::Rate, limits.rate),
    key!(BURST, limits.burst),
    key!(Allowed::Quotas, limits.quota),
    key!(PAUSE, backoff.base),
    key!(PAUSE, backoff.max),
    key!(Allowed::Real(1.0, 10.0), backoff.factor),
    key!(Allowed::Real(0.0, 1.0), backoff.jitter),
    key!(Allowed::Whole(1, 100), retry.max_attempts),
    key!(Allowed::Real(0.0, 1.0), retry.ratio),
    key!(PAUSE, retry.base),
    key!(PAUSE, retry.max),
    key!(CLOCK, exchange.connect_timeout),
    key!(CLOCK, exchange.first_byte_timeout),
    key!(CLOCK, exchange.head_timeout),
    key!(CLOCK, exchange.idle_timeout),
    key!(
        Allowed::Whole(1, 1_000_000_000),
        exchange.min_bytes_per_second
    ),
    key!(CLOCK, exchange.min_rate_window),
    key!(CLOCK, exchange.total_timeout),
    key!(Allowed::Bytes(KIB, MIB), exchange.max_header_bytes),
    key!(Allowed::Bytes(KIB, GIB), exchange.max_body_bytes),
    key!(Allowed::Bytes(KIB, GIB), exchange.max_decoded_bytes),
    key!(Allowed::Whole(10, 1_000_000), exchange.max_expansion),
    key!(Allowed::Whole(0, 50), exchange.max_redirects),
    key!(Allowed::Path, exchange.ca_file),
    key!(Allowed::Egresses, exchange.egress),
    key!(Allowed::Truth, exchange.deny_private_addresses),
    key!(Allowed::Time(SECOND, DAY), exchange.dns_ttl),
    key!(
        Allowed::Time(SECOND, Duration::from_secs(3600)),
        exchange.dns_failure_ttl
    ),
    key!(COOKIES, exchange.cookies),
    key!(Allowed::Names(CrawlDelay::NAMES), robots.crawl_delay),
    key!(
        Allowed::Time(Duration::from_secs(1), Duration::from_secs(3600)),
        robots.max_crawl_delay
    ),
    key!(
        Allowed::Time(Duration::from_secs(3600), Duration::from_secs(365 * 86_400)),
        robots.unreachable_for
    ),
    key!(Allowed::Names(CacheMode::NAMES), cache.mode),
    key!(Allowed::Bytes(MIB, 1024 * GIB), cache.max_bytes),
    key!(Allowed::Bytes(64 * KIB, 4 * GIB), store.cache_bytes),
    key!(Allowed::Bytes(64 * KIB, 4 * GIB), store.wal_bytes),
    key!(Allowed::Names(LogLevel::NAMES), log.level),
    key!(Allowed::Names(&["host", "domain", "prefix"]), crawl.scope),
    key!(Allowed::Patterns, crawl.include),
    key!(Allowed::Patterns, crawl.exclude),
    key!(Allowed::Whole(0, u32::MAX as u64), crawl.max_depth),
    key!(Allowed::Whole(1, i64::MAX as u64), crawl.max_pages),
    key!(Allowed::Names(&["obey", "off"]), crawl.robots),
    key!(Allowed::Names(QUERY), crawl.urls.query),
    key!(Allowed::Params, crawl.urls.drop_params),
];

/// Keys below `sites.NAME`.
pub(super) static SITE: &[Key<SiteSettings>] = &[
    key!(Allowed::Url, base_url),
    key!(Allowed::Names(&["obey", "off"]), robots),
    key!(Allowed::Egresses, egress),
    key!(Allowed::Names(CrawlDelay::NAMES), crawl_delay),
    key!(Allowed::Names(CacheMode::NAMES), cache),
    key!(Allowed::Names(QUERY), urls.query),
    key!(Allowed::Params, urls.drop_params),
    key!(COOKIES, cookies),
    key!(Allowed::Whole(1, 100), weight),
    key!(Allowed::Names(LimitMode::NAMES), "mode" => limits.mode),
    key!(Allowed::Names(Profile::NAMES), "profile" => limits.profile),
    key!(CAP, "max_concurrency_num" => limits.max_concurrency_num),
    key!(Allowed::Rate, "rate" => limits.rate),
    key!(BURST, "burst" => limits.burst),
    key!(Allowed::Quotas, "quota" => limits.quota),
    key!(PAUSE, "total_timeout" => limits.total_timeout),
];

/// Keys below `sites.NAME.endpoints.NAME`.
pub(super) static ENDPOINT: &[Key<LimitSettings>] = &[
    key!(Allowed::Names(LimitMode::NAMES), mode),
    key!(Allowed::Names(Profile::NAMES), profile),
    key!(CAP, max_concurrency_num),
    key!(Allowed::Rate, rate),
    key!(BURST, burst),
    key!(Allowed::Quotas, quota),
    key!(PAUSE, total_timeout),
];

/// Keys below `egress.NAME`.
pub(super) static EGRESS: &[Key<EgressSettings>] = &[
    key!(Allowed::Proxy, url),
    key!(Allowed::Header, username),
    key!(Allowed::Secret, password),
    key!(Allowed::Instant, expires),
    key!(CAP, max_concurrency_num),
    key!(Allowed::Rate, rate),
    key!(Allowed::Truth, tls_verify),
];

/// A key of the configuration and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// [`NODE`], by index.
    Node(usize),
    /// [`SITE`] of the named site.
    Site(String, usize),
    /// [`ENDPOINT`] of the named site and endpoint.
    Endpoint(String, String, usize),
    /// [`EGRESS`] of the named egress.
    Egress(String, usize),
}

impl Place {
    /// What the key takes, for messages.
    pub(super) fn allowed(&self) -> String {
        match self {
            Self::Node(index) => NODE[*index].allowed(),
            Self::Site(_, index) => SITE[*index].allowed(),
            Self::Endpoint(_, _, index) => ENDPOINT[*index].allowed(),
            Self::Egress(_, index) => EGRESS[*index].allowed(),
        }
    }

    /// Whether its value must not be told.
    pub(super) fn is_secret(&self) -> bool {
        matches!(self, Self::Egress(_, index) if matches!(EGRESS[*index].allowed, Allowed::Secret))
    }

    /// The rule of the key, and its value in `settings`; missing sites and endpoints are made.
    pub(super) fn field<'s>(
        &self,
        settings: &'s mut Settings,
    ) -> (&'static Allowed, &'s mut dyn Field) {
        match self {
            Self::Node(index) => {
                let key = &NODE[*index];
                (&key.allowed, (key.get_mut)(settings))
            }
            Self::Site(site, index) => {
                let key = &SITE[*index];
                let site = settings.sites.entry(site.clone()).or_default();
                (&key.allowed, (key.get_mut)(site))
            }
            Self::Endpoint(site, endpoint, index) => {
                let key = &ENDPOINT[*index];
                let site = settings.sites.entry(site.clone()).or_default();
                let endpoint = site.endpoints.entry(endpoint.clone()).or_default();
                (&key.allowed, (key.get_mut)(endpoint))
            }
            Self::Egress(egress, index) => {
                let key = &EGRESS[*index];
                let egress = settings.egress.entry(egress.clone()).or_default();
                (&key.allowed, (key.get_mut)(egress))
            }
        }
    }
}

/// What a path of keys is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Located {
    /// A setting.
    Key(Place),
    /// A table; the keys below it, in full.
    Table(Vec<String>),
    /// The name at this position of the path is no name of a site, endpoint or egress.
    BadName(usize),
    /// Nothing.
    Unknown,
}

/// Finds what `path` is.
pub(super) fn locate(path: &[&str]) -> Located {
    match path {
        [] => Located::Table(NODE.iter().map(|key| key.name.to_owned()).collect()),
        ["sites"] => Located::Table(vec!["sites.NAME".to_owned()]),
        ["sites", site, ..] if !is_site_name(site) => Located::BadName(1),
        ["sites", site] => Located::Table(site_keys(site)),
        ["sites", site, "endpoints"] => {
            Located::Table(vec![format!("sites.{site}.endpoints.NAME")])
        }
        ["sites", _, "endpoints", endpoint, ..] if !is_endpoint_name(endpoint) => {
            Located::BadName(3)
        }
        ["sites", site, "endpoints", endpoint] => Located::Table(endpoint_keys(site, endpoint)),
        ["sites", site, "endpoints", endpoint, key] => match index(ENDPOINT, key) {
            Some(index) => Located::Key(Place::Endpoint(
                (*site).to_owned(),
                (*endpoint).to_owned(),
                index,
            )),
            None => Located::Unknown,
        },
        ["sites", site, key] if index(SITE, key).is_none() && has_below(SITE, key) => {
            let keys = site_keys(site);
            let below = format!("sites.{site}.{key}.");
            Located::Table(
                keys.into_iter()
                    .filter(|key| key.starts_with(&below))
                    .collect(),
            )
        }
        ["sites", site, key @ ..] => match index(SITE, &key.join(".")) {
            Some(index) if key.iter().all(|part| !part.contains('.')) => {
                Located::Key(Place::Site((*site).to_owned(), index))
            }
            _ => Located::Unknown,
        },
        ["egress"] => Located::Table(vec!["egress.NAME".to_owned()]),
        ["egress", name, ..] if !is_site_name(name) => Located::BadName(1),
        ["egress", name] => Located::Table(egress_keys(name)),
        ["egress", name, key] => match index(EGRESS, key) {
            Some(index) => Located::Key(Place::Egress((*name).to_owned(), index)),
            None => Located::Unknown,
        },
        // A quoted key with a dot in it is not the path that it looks like.
        _ if path.iter().any(|part| part.contains('.')) => Located::Unknown,
        _ => {
            let full = path.join(".");
            if let Some(index) = index(NODE, &full) {
                return Located::Key(Place::Node(index));
            }
            let section = format!("{full}.");
            let below = NODE.iter().map(|key| key.name);
            let below: Vec<_> = below
                .filter(|name| name.starts_with(&section))
                .map(ToOwned::to_owned)
                .collect();
            if below.is_empty() {
                Located::Unknown
            } else {
                Located::Table(below)
            }
        }
    }
}

/// Whether a table has keys below `name`.
fn has_below<S>(table: &[Key<S>], name: &str) -> bool {
    let below = |key: &Key<S>| {
        key.name
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('.'))
    };
    table.iter().any(below)
}

fn index<S>(table: &[Key<S>], name: &str) -> Option<usize> {
    table.iter().position(|key| key.name == name)
}

const SITE_NAME: &str = "a-z, 0-9 and `-`";
const ENDPOINT_NAME: &str = "a-z, 0-9, `-` and `_`";

/// What the part of `path` at `at` should name, and of which characters such a name is.
pub(super) fn bad_name(path: &[&str], at: usize) -> (&'static str, &'static str) {
    match (path.first(), at) {
        (Some(&"egress"), _) => ("an egress", SITE_NAME),
        (_, 1) => ("a site", SITE_NAME),
        _ => ("an endpoint", ENDPOINT_NAME),
    }
}

/// A name that can be reached from every layer: a dot or an upper-case letter could not be written in
/// the name of a variable.
fn is_site_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

fn is_endpoint_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
}

fn site_keys(site: &str) -> Vec<String> {
    let keys = SITE.iter().map(|key| format!("sites.{site}.{}", key.name));
    keys.chain([format!("sites.{site}.endpoints.NAME")])
        .collect()
}

fn egress_keys(name: &str) -> Vec<String> {
    let keys = EGRESS.iter();
    keys.map(|key| format!("egress.{name}.{}", key.name))
        .collect()
}

fn endpoint_keys(site: &str, endpoint: &str) -> Vec<String> {
    let keys = ENDPOINT.iter();
    keys.map(|key| format!("sites.{site}.endpoints.{endpoint}.{}", key.name))
        .collect()
}

/// The full keys that a path could have been meant to be.
pub(super) fn candidates(path: &[&str]) -> Vec<String> {
    let mut keys: Vec<_> = NODE.iter().map(|key| key.name.to_owned()).collect();
    if let ["sites", site, rest @ ..] = path {
        keys.extend(SITE.iter().map(|key| format!("sites.{site}.{}", key.name)));
        if let [_, endpoint, ..] = rest {
            keys.extend(endpoint_keys(site, endpoint));
        }
    } else if let ["egress", name, ..] = path {
        keys.extend(egress_keys(name));
    } else {
        keys.push("sites".to_owned());
        keys.push("egress".to_owned());
    }
    keys
}

/// The valid key that is most like `path`. The last part counts too: `rate` is meant to be `limits.rate`.
pub(super) fn nearest(path: &[&str]) -> String {
    let given = path.join(".");
    let last = path.last().copied().unwrap_or_default();
    let score = |key: &String| {
        let tail = key.rsplit('.').next().unwrap_or_default();
        // A setting that was taken for a table is what was meant.
        if given
            .strip_prefix(key.as_str())
            .is_some_and(|rest| rest.starts_with('.'))
        {
            return 1.0;
        }
        let whole = strsim::normalized_damerau_levenshtein(&given, key);
        // A like ending is worth a little less than a like whole.
        whole.max(0.9 * strsim::normalized_damerau_levenshtein(last, tail))
    };
    let keys = candidates(path);
    let best = keys.iter().max_by(|a, b| score(a).total_cmp(&score(b)));
    best.cloned().unwrap_or_default()
}
