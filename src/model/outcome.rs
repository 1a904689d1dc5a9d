//! What an exchange came to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The outcome class of one exchange. A site definition's answers table decides first;
/// [`Outcome::of_status`] is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The answer that was asked for.
    Ok,
    /// 304: what we hold is current.
    NotModified,
    /// A good answer without the expected items.
    Empty,
    /// The thing does not exist any more (404, 410, site rules).
    Gone,
    /// The site asks to slow down (429, 503 with Retry-After, site rules).
    Limited,
    /// The site refuses this client for now (a challenge, 451, site rules).
    Blocked,
    /// A captcha is asked for: only a person can go on.
    Captcha,
    /// The session is missing or has ended.
    Login,
    /// The signature was rejected.
    Signature,
    /// Soft block: this item's data are missing although they exist.
    Withheld,
    /// Another 4xx: our request is wrong, asking again will not help.
    ClientError,
    /// 5xx.
    ServerError,
    /// One of the exchange's clocks ran out.
    Timeout,
    /// Connecting, DNS, TLS or the connection failed.
    Network,
    /// The answer ended before its declared end.
    Truncated,
    /// Not the kind of answer that the endpoint gives.
    Malformed,
    /// Larger than the limits allow.
    Oversize,
    /// We may not ask: robots, scope, private address.
    Denied,
    /// We gave up before the answer came (stop, panic, drop).
    Cancelled,
}

impl Outcome {
    /// All classes, in the order of the design.
    pub const ALL: [Self; 19] = [
        Self::Ok,
        Self::NotModified,
        Self::Empty,
        Self::Gone,
        Self::Limited,
        Self::Blocked,
        Self::Captcha,
        Self::Login,
        Self::Signature,
        Self::Withheld,
        Self::ClientError,
        Self::ServerError,
        Self::Timeout,
        Self::Network,
        Self::Truncated,
        Self::Malformed,
        Self::Oversize,
        Self::Denied,
        Self::Cancelled,
    ];

    /// The name used in site definitions, reports and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotModified => "not_modified",
            Self::Empty => "empty",
            Self::Gone => "gone",
            Self::Limited => "limited",
            Self::Blocked => "blocked",
            Self::Captcha => "captcha",
            Self::Login => "login",
            Self::Signature => "signature",
            Self::Withheld => "withheld",
            Self::ClientError => "client_error",
            Self::ServerError => "server_error",
            Self::Timeout => "timeout",
            Self::Network => "network",
            Self::Truncated => "truncated",
            Self::Malformed => "malformed",
            Self::Oversize => "oversize",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
        }
    }

    /// The default class of a status; `retry_after` tells whether the answer carries that header.
    ///
    /// A bare 403 is one page that is not for us; a site that says "blocked" with it has a row in its answers table.
    /// Redirects are answers, not outcomes: the caller follows them before it asks.
    #[must_use]
    pub const fn of_status(status: u16, retry_after: bool) -> Self {
        match status {
            200..=299 => Self::Ok,
            304 => Self::NotModified,
            401 => Self::Login,
            451 => Self::Blocked,
            404 | 410 => Self::Gone,
            408 => Self::Timeout,
            429 => Self::Limited,
            503 if retry_after => Self::Limited,
            500..=599 => Self::ServerError,
            400..=499 => Self::ClientError,
            _ => Self::Malformed,
        }
    }

    /// Whether the answer holds what was asked for.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Ok | Self::NotModified | Self::Empty)
    }

    /// Whether the task may be asked again within its retry budget.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Limited
                | Self::Blocked
                | Self::ServerError
                | Self::Timeout
                | Self::Network
                | Self::Truncated
                | Self::Malformed
                | Self::Signature
                | Self::Withheld
                | Self::Cancelled
        )
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Outcome {
    type Err = super::ParseNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == name)
            .ok_or_else(|| {
                super::ParseNameError::new("outcome class", name, Self::ALL.map(Self::as_str))
            })
    }
}
