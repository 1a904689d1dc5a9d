//! Why an exchange gave no answer.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use thiserror::Error;

use super::partial::Partial;
use crate::model::{Method, Outcome};

/// An exchange that gave no answer: where it went and what was wrong.
///
/// The text names the host only: paths and queries may carry tokens.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{host}: {fault}")]
pub struct FetchError {
    /// Host, with its port where it is not the scheme's own.
    pub host: Arc<str>,
    /// The method that was asked with.
    pub method: Method,
    /// What was wrong.
    pub fault: Fault,
    /// What was read of an answer that was cut short in its body.
    pub partial: Option<Partial>,
}

/// What was wrong with an exchange.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The URL cannot be asked: its scheme, host or credentials.
    #[error("the URL cannot be asked: {0}")]
    InvalidUrl(String),
    /// A header of the request cannot be sent, or belongs to the exchange.
    #[error("the request header `{name}` cannot be sent: {why}")]
    InvalidHeader {
        /// The header; its value may be a secret and is not kept.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The name could not be resolved.
    #[error("the host name was not resolved: {0}")]
    Dns(String),
    /// No TCP connection to any address of the host.
    #[error("no connection: {0}")]
    Connect(String),
    /// The proxy does not work, or not for us. No word about the server.
    #[error("egress {egress}: {why}")]
    Proxy {
        /// The egress.
        egress: Arc<str>,
        /// What is wrong with it.
        why: String,
    },
    /// The host has no address of the public internet, and `deny_private_addresses` is on.
    #[error(
        "its address {address} is not public ({kind}): denied by exchange.deny_private_addresses"
    )]
    Denied {
        /// The address.
        address: IpAddr,
        /// What it is instead.
        kind: &'static str,
    },
    /// The TLS handshake failed.
    #[error("no TLS session: {0}")]
    Tls(String),
    /// DNS, TCP and TLS took longer than `connect_timeout`.
    #[error("no connection within connect_timeout")]
    ConnectTimeout,
    /// No byte of an answer came within `first_byte_timeout`.
    #[error("no byte of an answer within first_byte_timeout")]
    FirstByteTimeout,
    /// The head of the answer took longer than `head_timeout`.
    #[error("no answer within head_timeout")]
    HeadTimeout,
    /// The body was silent for longer than `idle_timeout`.
    #[error("the body was silent for longer than idle_timeout")]
    IdleTimeout,
    /// The body came slower than `min_bytes_per_second`, over a whole `min_rate_window`.
    #[error("the body came slower than min_bytes_per_second")]
    TooSlow,
    /// The exchange took longer than `total_timeout`, or than its permit lasts.
    #[error("the exchange was not over within total_timeout")]
    TotalTimeout,
    /// The server closed the connection before any byte of an answer.
    #[error("the connection was closed before an answer{}", if *reused { " (kept connection)" } else { "" })]
    Disconnected {
        /// Whether the connection had served an answer before: then the request raced with the
        /// server's idle close and says nothing about the server's health.
        reused: bool,
    },
    /// The answer ended before its declared end.
    #[error("the answer was cut short after {received} bytes of its body{}", match expected { Some(length) => format!(" of {length}"), None => String::new() })]
    Truncated {
        /// Body bytes that arrived.
        received: u64,
        /// Body bytes that were announced, where they were.
        expected: Option<u64>,
    },
    /// The head is larger than `max_header_bytes`.
    #[error("the head of the answer is larger than {limit} bytes")]
    HeaderTooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The body as received is larger than `max_body_bytes`.
    #[error("the body is larger than {limit} bytes")]
    BodyTooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The decoded body is larger than `max_decoded_bytes`.
    #[error("the decoded body is larger than {limit} bytes")]
    DecodedTooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The decoded body is `max_expansion` times as large as it arrived, or more.
    #[error("the body grows {limit} times or more when it is decoded (`exchange.max_expansion`)")]
    ExpandsTooMuch {
        /// The limit: decoded bytes for each received one.
        limit: u32,
    },
    /// The content coding is unknown or its stream is corrupt.
    #[error("the body cannot be decoded: {0}")]
    Decode(String),
    /// The bytes are not an HTTP/1.x answer.
    #[error("not an HTTP/1.1 answer: {0}")]
    Protocol(String),
    /// The exchange was given up before it ended.
    #[error("the exchange was cancelled")]
    Cancelled,
}

/// Whether and how a failed exchange may be tried again. Each try is a new acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryClass {
    /// Once, at once, and without a mark against the server.
    Once,
    /// After the back-off, within the retry budget.
    Backoff,
    /// Asking again gives the same.
    Never,
}

impl Fault {
    /// The outcome class.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Dns(_)
            | Self::Connect(_)
            | Self::Proxy { .. }
            | Self::Tls(_)
            | Self::Disconnected { .. } => Outcome::Network,
            Self::Denied { .. } => Outcome::Denied,
            Fault::ConnectTimeout
            | Fault::FirstByteTimeout
            | Fault::HeadTimeout
            | Fault::TooSlow
            | Fault::IdleTimeout
            | Fault::TotalTimeout => Outcome::Timeout,
            Fault::Truncated { .. } => Outcome::Truncated,
            Fault::HeaderTooLarge { .. }
            | Fault::BodyTooLarge { .. }
            | Fault::DecodedTooLarge { .. }
            | Fault::ExpandsTooMuch { .. } => Outcome::Oversize,
            Fault::Decode(_) | Fault::Protocol(_) => Outcome::Malformed,
            Fault::InvalidUrl(_) | Fault::InvalidHeader { .. } => Outcome::ClientError,
            Fault::Cancelled => Outcome::Cancelled,
        }
    }
}

impl FetchError {
    /// The outcome class.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        self.fault.outcome()
    }

    /// Whether and how it may be tried again.
    #[must_use]
    pub const fn retry(&self) -> RetryClass {
        match self.fault {
            // A POST may have been acted upon: it is not repeated behind the caller's back.
            Fault::Disconnected { reused: true } if matches!(self.method, Method::Get) => {
                RetryClass::Once
            }
            Fault::Dns(_)
            | Fault::Connect(_)
            | Fault::Proxy { .. }
            | Fault::Tls(_)
            | Fault::Disconnected { .. }
            | Fault::ConnectTimeout
            | Fault::FirstByteTimeout
            | Fault::HeadTimeout
            | Fault::TooSlow
            | Fault::IdleTimeout
            | Fault::TotalTimeout
            | Fault::Truncated { .. }
            | Fault::Protocol(_)
            | Fault::Decode(_)
            | Fault::Cancelled => RetryClass::Backoff,
            Fault::Denied { .. }
            | Fault::HeaderTooLarge { .. }
            | Fault::BodyTooLarge { .. }
            | Fault::DecodedTooLarge { .. }
            | Fault::ExpandsTooMuch { .. }
            | Fault::InvalidUrl(_)
            | Fault::InvalidHeader { .. } => RetryClass::Never,
        }
    }
}

impl fmt::Display for RetryClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Once => "once",
            Self::Backoff => "backoff",
            Self::Never => "never",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(method: Method, fault: Fault) -> FetchError {
        FetchError {
            host: "h.example".into(),
            method,
            fault,
            partial: None,
        }
    }

    #[test]
    fn crosses_threads_and_is_cloned() {
        fn check<T: Send + Sync + Clone + 'static>() {}
        check::<FetchError>();
    }

    #[test]
    fn only_a_get_on_a_kept_connection_is_retried_at_once() {
        let reused = Fault::Disconnected { reused: true };
        let fresh = Fault::Disconnected { reused: false };
        assert_eq!(error(Method::Get, reused.clone()).retry(), RetryClass::Once);
        assert_eq!(error(Method::Post, reused).retry(), RetryClass::Backoff);
        assert_eq!(error(Method::Get, fresh).retry(), RetryClass::Backoff);
    }

    #[test]
    fn never_retried_is_what_the_tables_call_final() {
        for fault in [
            Fault::BodyTooLarge { limit: 1 },
            Fault::DecodedTooLarge { limit: 1 },
            Fault::ExpandsTooMuch { limit: 10 },
            Fault::HeaderTooLarge { limit: 1 },
            Fault::InvalidUrl(String::new()),
        ] {
            let error = error(Method::Get, fault);
            assert_eq!(error.retry(), RetryClass::Never);
            assert!(!error.outcome().is_retryable());
        }
    }

    #[test]
    fn texts_name_the_host_and_the_numbers() {
        let cut = Fault::Truncated {
            received: 9,
            expected: Some(100),
        };
        assert_eq!(
            error(Method::Get, cut).to_string(),
            "h.example: the answer was cut short after 9 bytes of its body of 100"
        );
    }
}
