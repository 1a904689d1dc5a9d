//! A request as it is asked for and an answer as it arrived: plain values between site, exchange and platform.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use url::Url;

/// The methods that site definitions may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// GET
    Get,
    /// POST
    Post,
}

impl Method {
    /// The method as it is sent.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// One HTTP request, rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// GET or POST.
    pub method: Method,
    /// Absolute http or https URL; its fragment is not sent.
    pub url: Url,
    /// Headers beside those that the exchange sets itself (Host, User-Agent, Accept-Encoding, Content-Length).
    pub headers: Vec<(String, String)>,
    /// The body; empty for GET.
    pub body: Bytes,
}

impl Request {
    /// A GET of `url` without further headers.
    #[must_use]
    pub fn get(url: Url) -> Self {
        Self {
            method: Method::Get,
            url,
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }
}

/// Header fields in the order they arrived; names in lower case, values as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, Bytes)>);

impl Headers {
    /// The first field called `name` (lower case) whose value is visible ASCII or UTF-8.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .filter(|(field, _)| field == name)
            .find_map(|(_, value)| std::str::from_utf8(value).ok())
            .map(str::trim)
    }

    /// All fields called `name` (lower case) whose values are UTF-8.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(field, _)| field == name)
            .filter_map(|(_, value)| std::str::from_utf8(value).ok())
            .map(str::trim)
    }
}

/// A whole answer: body read to its end and content-decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The URL that was asked.
    pub url: Url,
    /// The status code.
    pub status: u16,
    /// The header fields.
    pub headers: Headers,
    /// The decoded body.
    pub body: Bytes,
    /// What the labels of the body say and is not so.
    pub notes: Vec<BodyNote>,
    /// From the first byte sent to the last byte of the head.
    pub head_time: Duration,
    /// From the first byte sent to the last byte of the body.
    pub total_time: Duration,
}

/// A label of a body that was not true, and was put up with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BodyNote {
    /// It is not encoded as its `Content-Encoding` says: it was left as it is.
    #[error("labelled {0} and not encoded")]
    NotEncoded(&'static str),
    /// It is gzip under the label of another coding.
    #[error("labelled {0} and gzip")]
    OtherCoding(&'static str),
    /// A text that was compressed once more than its label says.
    #[error("encoded twice under one label")]
    EncodedTwice,
    /// The label names something that is no coding known: it was skipped.
    #[error("labelled with the unknown coding {0:?}")]
    UnknownCoding(String),
    /// The label speaks of the compression of a gzip file, which was left as it is.
    #[error("a gzip file labelled with its own compression")]
    ArchiveKept,
    /// There were bytes behind the end of the encoded body: they were dropped.
    #[error("bytes behind the end of the encoded body")]
    BytesBehind,
}

impl Answer {
    /// The media type without parameters, in lower case; empty when there is none.
    #[must_use]
    pub fn media_type(&self) -> String {
        let value = self.headers.get("content-type").unwrap_or_default();
        value
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase()
    }

    /// The `Location` of a redirect (301, 302, 303, 307, 308) as text: the first that is not empty. Bytes beyond ASCII
    /// are percent-encoded one by one, as browsers do: UTF-8 and any other encoding come back as they were sent.
    ///
    /// 300, 304, 305 and 306 lead nowhere by themselves (RFC 9110 §15.4.1, §15.4.5 to §15.4.7).
    #[must_use]
    pub fn location(&self) -> Option<Cow<'_, str>> {
        self.locations().next()
    }

    /// Whether a redirect names several targets that differ: which one is meant nobody can say.
    #[must_use]
    pub fn has_several_locations(&self) -> bool {
        let mut all = self.locations();
        all.next()
            .is_some_and(|first| all.any(|other| other != first))
    }

    fn locations(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let leads = matches!(self.status, 301 | 302 | 303 | 307 | 308);
        let fields = self
            .headers
            .0
            .iter()
            .filter(move |(name, _)| leads && name == "location");
        fields
            .map(|(_, value)| ascii_text(value.trim_ascii()))
            .filter(|text| !text.is_empty())
    }
}

fn ascii_text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => text.into(),
        _ => {
            let mut out = String::with_capacity(bytes.len() + 16);
            for byte in bytes {
                match byte.is_ascii() {
                    true => out.push(char::from(*byte)),
                    false => {
                        let _ = write!(out, "%{byte:02X}");
                    }
                }
            }
            out.into()
        }
    }
}
