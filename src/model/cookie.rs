//! Cookies as plain values, and whose they are.

use std::fmt;

use bytes::Bytes;

use super::{Name, UnixMillis};

/// Whose cookies: an account of a site.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountKey {
    /// The site.
    pub site: Name,
    /// The account.
    pub account: Name,
}

impl AccountKey {
    /// The account that a site has without being given one.
    pub const DEFAULT: &'static str = "default";

    /// The account that `site` has without being given one.
    #[must_use]
    pub fn default_of(site: &Name) -> Self {
        Self {
            site: site.clone(),
            account: Self::DEFAULT.into(),
        }
    }
}

impl fmt::Display for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.site, self.account)
    }
}

/// `SameSite` of a cookie: read and kept, but without meaning where nothing is embedded in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameSite {
    /// Only within one site.
    Strict,
    /// And on navigation from elsewhere.
    Lax,
    /// Everywhere.
    None,
}

impl SameSite {
    /// The name, as an attribute has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "Strict",
            Self::Lax => "Lax",
            Self::None => "None",
        }
    }

    /// By its name, in any case; `no_restriction` is what browsers' own exports call `None`.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match () {
            () if is("strict") => Some(Self::Strict),
            () if is("lax") => Some(Self::Lax),
            () if is("none") || is("no_restriction") => Some(Self::None),
            () => None,
        }
    }
}

/// What makes a cookie the same as another one of its account: a new one replaces it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CookieKey {
    /// The domain it belongs to.
    pub domain: String,
    /// Whether subdomains are left out.
    pub host_only: bool,
    /// The path it belongs to.
    pub path: String,
    /// Its name.
    pub name: Bytes,
}

/// A cookie as a jar keeps it (RFC 6265 §5.3). Its `Debug` does not show the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Cookie {
    /// Its name, in octets; may be empty.
    pub name: Bytes,
    /// Its value, in octets, exactly as it came. A secret.
    pub value: Bytes,
    /// The domain in lower case, without a leading dot.
    pub domain: String,
    /// Whether it goes to the domain alone, not to its subdomains.
    pub host_only: bool,
    /// It goes to this path and what lies below.
    pub path: String,
    /// Whether it goes over https only.
    pub secure: bool,
    /// Whether scripts may not read it.
    pub http_only: bool,
    /// What the site said of embedding.
    pub same_site: Option<SameSite>,
    /// When it ends; `None`: with the session, which outlives a run.
    pub expires: Option<UnixMillis>,
    /// When it was first set.
    pub created: UnixMillis,
    /// When it was last set or sent.
    pub used: UnixMillis,
}

impl Cookie {
    /// What makes it the same as another one.
    #[must_use]
    pub fn key(&self) -> CookieKey {
        CookieKey {
            domain: self.domain.clone(),
            host_only: self.host_only,
            path: self.path.clone(),
            name: self.name.clone(),
        }
    }

    /// Whether its key is `key`.
    #[must_use]
    pub fn is(&self, key: &CookieKey) -> bool {
        self.name == key.name
            && self.path == key.path
            && self.host_only == key.host_only
            && self.domain == key.domain
    }

    /// Whether it has ended at `now`.
    #[must_use]
    pub fn is_expired(&self, now: UnixMillis) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }

    /// Whether it says the same as `other`, whenever they were set or sent.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        let timeless = Self {
            created: self.created,
            used: self.used,
            ..other.clone()
        };
        *self == timeless
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cookie")
            .field("name", &String::from_utf8_lossy(&self.name))
            .field("value", &format_args!("{} bytes", self.value.len()))
            .field("domain", &self.domain)
            .field("host_only", &self.host_only)
            .field("path", &self.path)
            .field("secure", &self.secure)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}
