//! How one setting is read and shown: what it allows, and the types it can have.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::given::{Given, Shown, quote};
use super::polite::{CacheMode, CrawlDelay};
use super::schema::{LimitMode, LogLevel, Profile};
use super::value::{Quota, Rate, Secret, parse_bytes, write_bytes};
use crate::model::{CookiePolicy, ParamPattern, QueryRule, RobotsPolicy, Scope, UnixMillis};

/// The text that unsets a setting which may be absent.
pub(super) const NONE: &str = "none";

/// What a setting takes. Displays as the part of a message after "allowed:".
#[derive(Clone, Copy, Debug)]
pub(super) enum Allowed {
    /// A whole number, both ends included.
    Whole(u64, u64),
    /// A number, both ends included.
    Real(f64, f64),
    /// A length of time, both ends included.
    Time(Duration, Duration),
    /// A size, both ends in bytes and included.
    Bytes(u64, u64),
    /// The value of an HTTP header: visible ASCII and spaces.
    Header,
    /// A path.
    Path,
    /// An http or https URL without credentials.
    Url,
    /// A pace.
    Rate,
    /// A list of quotas.
    Quotas,
    /// A list of regular expressions.
    Patterns,
    /// true or false.
    Truth,
    /// The URL of a proxy.
    Proxy,
    /// A list of names of egresses.
    Egresses,
    /// A text that is never shown.
    Secret,
    /// A moment.
    Instant,
    /// A list of names of options in URLs.
    Params,
    /// One of these names.
    Names(&'static [&'static str]),
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(from, to) => write!(f, "a whole number from {from} to {to}"),
            Self::Real(from, to) => write!(f, "a number from {from} to {to}"),
            Self::Time(from, to) => write!(
                f,
                "a time with its unit, such as \"10s\" or \"15min\", from {} to {}",
                humantime::format_duration(*from),
                humantime::format_duration(*to)
            ),
            Self::Bytes(from, to) => write!(
                f,
                "a size, such as \"512 KiB\" or \"16 MiB\", from {} to {}",
                write_bytes(*from),
                write_bytes(*to)
            ),
            Self::Header => f.write_str("1 to 256 visible ASCII characters and spaces"),
            Self::Path => f.write_str("a path"),
            Self::Url => f.write_str("an http or https URL without user name and password"),
            Self::Rate => f.write_str("a rate, such as \"2/s\", \"30/min\" or \"1/10s\""),
            Self::Quotas => {
                f.write_str("a list of quotas, such as [\"180/h\"] or [\"10/s\", \"1000/d\"]")
            }
            Self::Patterns => f.write_str("a list of regular expressions, such as [\"/wiki/\"]"),
            Self::Truth => f.write_str("true or false"),
            Self::Proxy => f.write_str(
                "the URL of a proxy, such as \"socks5h://host:1080\"; http, socks5 or socks5h, without user name, \
                 password and path",
            ),
            Self::Egresses => f.write_str("a list of names of egresses, such as [\"a\", \"direct\"]"),
            Self::Secret => f.write_str("a text of 1 to 255 bytes, without control characters"),
            Self::Instant => f.write_str("a moment with its zone, such as \"2030-01-31T12:00:00Z\""),
            Self::Params => f.write_str(
                "a list of names of URL parameters, such as [\"gclid\", \"utm_*\", \"@tracking\", \"@session\"]",
            ),
            Self::Names(names) => f.write_str(&names.join(", ")),
        }
    }
}

/// Why a value was refused: the detail, where "given" and "allowed" do not say it all.
pub(super) type Refused = Option<String>;

/// A type that a setting can have.
pub(super) trait Kind: Sized {
    /// Whether [`NONE`] is taken.
    const OPTIONAL: bool = false;

    /// Reads what was given, or says why not.
    fn parse(given: &Given<'_>, allowed: &Allowed) -> Result<Self, Refused>;

    /// The value as it is shown.
    fn show(&self) -> Shown;
}

/// A setting of any [`Kind`].
pub(super) trait Field {
    /// Takes what was given, or says why not; then `self` is unchanged.
    fn read(&mut self, given: &Given<'_>, allowed: &Allowed) -> Result<(), Refused>;

    /// The value as it is shown.
    fn show(&self) -> Shown;

    /// Whether [`NONE`] is taken.
    fn optional(&self) -> bool;
}

impl<T: Kind> Field for T {
    fn read(&mut self, given: &Given<'_>, allowed: &Allowed) -> Result<(), Refused> {
        *self = T::parse(given, allowed)?;
        Ok(())
    }

    fn show(&self) -> Shown {
        Kind::show(self)
    }

    fn optional(&self) -> bool {
        T::OPTIONAL
    }
}

fn whole_in(given: &Given<'_>, allowed: &Allowed) -> Result<u64, Refused> {
    let Allowed::Whole(from, to) = *allowed else {
        return Err(None);
    };
    let number = given.whole().and_then(|number| u64::try_from(number).ok());
    number
        .filter(|number| (from..=to).contains(number))
        .ok_or(None)
}

impl Kind for u32 {
    fn parse(given: &Given<'_>, allowed: &Allowed) -> Result<Self, Refused> {
        Self::try_from(whole_in(given, allowed)?).map_err(|_| None)
    }

    fn show(&self) -> Shown {
        Shown::Whole((*self).into())
    }
}

/// A number, or a size in bytes: what is allowed tells which. Shown as a number, which both take.
impl Kind for u64 {
    fn parse(given: &Given<'_>, allowed: &Allowed) -> Result<Self, Refused> {
        let Allowed::Bytes(from, to) = *allowed else {
            return whole_in(given, allowed);
        };
        let bytes = match given.whole() {
            Some(number) => Self::try_from(number).map_err(|_| None)?,
            None => parse_bytes(given.str().ok_or(None)?).map_err(Some)?,
        };
        if !(from..=to).contains(&bytes) {
            return Err(None);
        }
        Ok(bytes)
    }

    fn show(&self) -> Shown {
        Shown::Whole(*self)
    }
}

impl Kind for f64 {
    fn parse(given: &Given<'_>, allowed: &Allowed) -> Result<Self, Refused> {
        let Allowed::Real(from, to) = *allowed else {
            return Err(None);
        };
        // NaN is in no range.
        let number = given.real().filter(|number| (from..=to).contains(number));
        number.ok_or(None)
    }

    fn show(&self) -> Shown {
        Shown::Real(*self)
    }
}

impl Kind for Duration {
    fn parse(given: &Given<'_>, allowed: &Allowed) -> Result<Self, Refused> {
        let Allowed::Time(from, to) = *allowed else {
            return Err(None);
        };
        let text = given.str().ok_or(None)?.trim();
        let time = humantime::parse_duration(text).map_err(|error| Some(error.to_string()))?;
        if !(from..=to).contains(&time) {
            return Err(None);
        }
        Ok(time)
    }

    fn show(&self) -> Shown {
        Shown::Text(humantime::format_duration(*self).to_string())
    }
}

impl Kind for String {
    fn parse(given: &Given<'_>, allowed: &Allowed) -> Result<Self, Refused> {
        let text = given.str().ok_or(None)?;
        let good = match allowed {
            Allowed::Header => {
                (1..=256).contains(&text.len())
                    && text.trim() == text
                    && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
            }
            Allowed::Url => url::Url::parse(text).is_ok_and(|url| {
                matches!(url.scheme(), "http" | "https")
                    && url.username().is_empty()
                    && url.password().is_none()
            }),
            Allowed::Proxy => is_proxy(text),
            _ => false,
        };
        if !good {
            return Err(None);
        }
        Ok(text.to_owned())
    }

    fn show(&self) -> Shown {
        Shown::Text(self.clone())
    }
}

impl Kind for PathBuf {
    fn parse(given: &Given<'_>, _: &Allowed) -> Result<Self, Refused> {
        let text = given.str().ok_or(None)?;
        if text.is_empty() || text.contains('\0') {
            return Err(None);
        }
        Ok(Self::from(text))
    }

    fn show(&self) -> Shown {
        Shown::Text(self.display().to_string())
    }
}

/// Types whose values are names.
macro_rules! name_field {
    ($($type:ty),+) => { $(
        impl Kind for $type {
            fn parse(given: &Given<'_>, _: &Allowed) -> Result<Self, Refused> {
                given.str().ok_or(None)?.trim().parse().map_err(|_| None)
            }

            fn show(&self) -> Shown {
                Shown::Text(self.as_str().to_owned())
            }
        }
    )+ };
}

name_field!(
    CacheMode,
    CookiePolicy,
    CrawlDelay,
    LimitMode,
    LogLevel,
    Profile,
    QueryRule,
    RobotsPolicy,
    Scope
);

/// A setting that may be absent: [`NONE`] unsets it.
impl<T: Kind> Kind for Option<T> {
    const OPTIONAL: bool = true;

    fn parse(given: &Given<'_>, allowed: &Allowed) -> Result<Self, Refused> {
        if given.str() == Some(NONE) {
            return Ok(None);
        }
        T::parse(given, allowed).map(Some)
    }

    fn show(&self) -> Shown {
        match self {
            Some(value) => value.show(),
            None => Shown::Text(NONE.to_owned()),
        }
    }
}

impl Kind for Rate {
    fn parse(given: &Given<'_>, _: &Allowed) -> Result<Self, Refused> {
        given.str().ok_or(None)?.parse().map_err(Some)
    }

    fn show(&self) -> Shown {
        Shown::Text(self.to_string())
    }
}

impl Kind for bool {
    fn parse(given: &Given<'_>, _: &Allowed) -> Result<Self, Refused> {
        given.truth().ok_or(None)
    }

    fn show(&self) -> Shown {
        Shown::Truth(*self)
    }
}

impl Kind for Secret {
    fn parse(given: &Given<'_>, _: &Allowed) -> Result<Self, Refused> {
        let text = given.str().ok_or(None)?;
        if !(1..=255).contains(&text.len()) || text.chars().any(char::is_control) {
            return Err(None);
        }
        Ok(Self::new(text))
    }

    fn show(&self) -> Shown {
        Shown::Text(self.to_string())
    }
}

impl Kind for UnixMillis {
    fn parse(given: &Given<'_>, _: &Allowed) -> Result<Self, Refused> {
        let text = given.str().ok_or(None)?;
        let moment: jiff::Timestamp = text.trim().parse().map_err(|_| None)?;
        Ok(Self(moment.as_millisecond()))
    }

    fn show(&self) -> Shown {
        Shown::Text(self.to_string())
    }
}

/// Whether `text` is the URL of a proxy that can be spoken to. Credentials have keys of their own, so that they can be
/// told from what may be shown.
fn is_proxy(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "socks5" | "socks5h")
            && url.host_str().is_some_and(|host| !host.is_empty())
            && url.username().is_empty()
            && url.password().is_none()
            && matches!(url.path(), "" | "/")
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

impl Kind for Vec<Quota> {
    fn parse(given: &Given<'_>, _: &Allowed) -> Result<Self, Refused> {
        let items = given.list().ok_or(None)?;
        let quotas: Result<Self, String> = items.iter().map(|item| item.parse()).collect();
        quotas.map_err(Some)
    }

    fn show(&self) -> Shown {
        Shown::List(self.iter().map(ToString::to_string).collect())
    }
}

impl Kind for Vec<ParamPattern> {
    fn parse(given: &Given<'_>, _: &Allowed) -> Result<Self, Refused> {
        let items = given.list().ok_or(None)?;
        let patterns: Result<Self, String> = items.iter().map(|item| item.parse()).collect();
        patterns.map_err(Some)
    }

    fn show(&self) -> Shown {
        Shown::List(self.iter().map(ToString::to_string).collect())
    }
}

impl Kind for Vec<String> {
    fn parse(given: &Given<'_>, allowed: &Allowed) -> Result<Self, Refused> {
        let items = given.list().ok_or(None)?;
        // Which egresses there are is known when all layers are.
        if matches!(allowed, Allowed::Egresses) {
            return Ok(items);
        }
        for item in &items {
            regex::Regex::new(item)
                .map_err(|_| Some(format!("{} is not a regular expression", quote(item))))?;
        }
        Ok(items)
    }

    fn show(&self) -> Shown {
        Shown::List(self.clone())
    }
}
