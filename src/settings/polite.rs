//! How servers are spared: robots.txt, and asking whether a page has changed before asking for it.

use std::str::FromStr;
use std::time::Duration;

use crate::model::ParseNameError;

/// How robots.txt is obeyed, where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RobotsSettings {
    /// Whether a `Crawl-delay` is kept.
    pub crawl_delay: CrawlDelay,
    /// The longest `Crawl-delay` that is kept; what is longer counts as this. 1 s to 1 h.
    pub max_crawl_delay: Duration,
    /// After so long without an answer robots.txt counts as missing; `None`: never. 1 h to 365 days.
    pub unreachable_for: Option<Duration>,
}

impl Default for RobotsSettings {
    fn default() -> Self {
        Self {
            crawl_delay: CrawlDelay::Obey,
            max_crawl_delay: Duration::from_secs(60),
            unreachable_for: Some(Duration::from_secs(30 * 86_400)),
        }
    }
}

/// The cache of answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheSettings {
    /// Whether answers are kept for the next run.
    pub mode: CacheMode,
    /// Bytes of them on disk. 1 MiB to 1 TiB.
    pub max_bytes: u64,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            mode: CacheMode::Off,
            max_bytes: 1024 * 1024 * 1024,
        }
    }
}

/// Whether a `Crawl-delay` of robots.txt is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CrawlDelay {
    /// It is the least time between two requests to the host.
    #[default]
    Obey,
    /// It is passed over.
    Ignore,
}

/// Whether answers are kept for the next run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheMode {
    /// Nothing is kept and nothing used.
    #[default]
    Off,
    /// An answer that is kept is asked about, and used again if the server says that it still holds.
    Revalidate,
}

/// A setting that is one of some names.
macro_rules! names {
    ($type:ident, $what:literal, $($variant:ident = $name:literal),+) => {
        impl $type {
            /// The names.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// The name used in settings.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }

        impl FromStr for $type {
            type Err = ParseNameError;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                match name {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(ParseNameError::new($what, name, Self::NAMES.iter().copied())),
                }
            }
        }
    };
}

names!(
    CrawlDelay,
    "crawl delay rule",
    Obey = "obey",
    Ignore = "ignore"
);
names!(
    CacheMode,
    "cache mode",
    Off = "off",
    Revalidate = "revalidate"
);
