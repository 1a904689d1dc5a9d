//! What a built-in site answers: values in, values out.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

/// The content of a site. It is asked only for what gate and faults let through.
pub trait Content: Send + Sync + 'static {
    /// The names of the endpoint classes, for counts and knobs; at least one.
    fn classes(&self) -> &'static [&'static str];

    /// The index of the class of a target (path and query) in [`Content::classes`]; out of range means the last.
    fn class_of(&self, target: &str) -> usize;

    /// The text of `/robots.txt`; `None` is a 404.
    fn robots(&self) -> Option<String> {
        None
    }

    /// The answer to a request; a HEAD gets its head only.
    fn answer(&self, request: &Request<'_>) -> Answer;
}

/// A request as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// In upper case.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// The `Host` field: name and port.
    pub host: &'a str,
    /// The `Content-Type` field; empty when there is none.
    pub content_type: &'a str,
    /// The `Range` field; empty when there is none.
    pub range: &'a str,
    /// The `If-Range` field; empty when there is none.
    pub if_range: &'a str,
    /// The body without its framing.
    pub body: &'a [u8],
}

impl Request<'_> {
    /// The path as it was sent.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target
            .split_once('?')
            .map_or(self.target, |(path, _)| path)
    }

    /// The query as it was sent; empty when there is none.
    #[must_use]
    pub fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// The parameters of query and body (form, or the texts and numbers of a JSON object); the body wins.
    #[must_use]
    pub fn params(&self) -> BTreeMap<String, String> {
        let pairs = |text: &[u8]| url::form_urlencoded::parse(text).into_owned().collect();
        let mut params: BTreeMap<String, String> = pairs(self.query().as_bytes());
        if self
            .content_type
            .starts_with("application/x-www-form-urlencoded")
        {
            params.append(&mut pairs(self.body));
        } else if self.content_type.starts_with("application/json")
            && let Ok(Value::Object(fields)) = serde_json::from_slice(self.body)
        {
            params.extend(fields.into_iter().filter_map(|(name, value)| match value {
                Value::String(text) => Some((name, text)),
                Value::Number(number) => Some((name, number.to_string())),
                _ => None,
            }));
        }
        params
    }
}

/// An answer before it is framed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// The `Content-Type` field.
    pub content_type: Cow<'static, str>,
    /// Further fields.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
    /// A second part of the body, so that text which many answers share need not be built again.
    pub rest: Bytes,
}

impl Answer {
    /// A whole body.
    #[must_use]
    pub fn new(
        status: u16,
        content_type: impl Into<Cow<'static, str>>,
        body: impl Into<Bytes>,
    ) -> Self {
        Self {
            status,
            content_type: content_type.into(),
            headers: Vec::new(),
            body: body.into(),
            rest: Bytes::new(),
        }
    }

    /// 200 with an HTML page in UTF-8.
    #[must_use]
    pub fn html(body: impl Into<Bytes>) -> Self {
        Self::new(200, "text/html; charset=utf-8", body)
    }

    /// JSON.
    #[must_use]
    pub fn json(status: u16, value: &Value) -> Self {
        Self::new(status, "application/json; charset=utf-8", value.to_string())
    }

    /// A redirect.
    #[must_use]
    pub fn redirect(status: u16, location: String) -> Self {
        let mut answer = Self::new(status, "text/plain", "moved\n");
        answer.headers.push(("Location", location));
        answer
    }

    /// 404 with a page that says so.
    #[must_use]
    pub fn not_found() -> Self {
        Self {
            status: 404,
            ..Self::html("<!doctype html><title>Not found</title><p>Nothing here.\n")
        }
    }

    /// Bytes in the body.
    pub(super) fn len(&self) -> usize {
        self.body.len() + self.rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_come_from_query_form_and_json() {
        let get = Request {
            method: "GET",
            target: "/a?q=%E7%8C%AB&page=1",
            host: "h",
            content_type: "",
            range: "",
            if_range: "",
            body: b"",
        };
        assert_eq!(get.path(), "/a");
        assert_eq!(get.params()["q"], "猫");
        let form = Request {
            content_type: "application/x-www-form-urlencoded; charset=utf-8",
            body: b"page=2&x=a+b",
            ..get
        };
        assert_eq!(form.params()["page"], "2");
        assert_eq!(form.params()["x"], "a b");
        let json = Request {
            content_type: "application/json",
            body: br#"{"page":3,"n":null}"#,
            ..get
        };
        assert_eq!(json.params()["page"], "3");
        assert!(!json.params().contains_key("n"));
    }
}
