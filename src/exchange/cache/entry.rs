//! One stored answer: from an answer to an entry, from an entry to a question, from a 304 to an answer.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::control::{has, instant};
use super::headers;
use crate::model::{Answer, Headers, Method, Request};

/// Fields of a request that make it one of a kind: it is left as it is, and its answer is not kept.
const OWN_CONDITIONS: [&str; 6] = [
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
];

/// Fields that the exchange sets itself, the same for every request.
const CONSTANT: [&str; 3] = ["accept", "accept-encoding", "host"];

/// An answer as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedAnswer {
    status: u16,
    headers: Headers,
    /// Names of `Vary`, each with a hash of what the request said there.
    vary: Vec<(String, String)>,
    body: Bytes,
}

/// What is written down beside the body.
#[derive(Serialize, Deserialize)]
struct Description {
    status: u16,
    headers: Vec<(String, String)>,
    vary: Vec<(String, String)>,
    /// Of the body: what was damaged on disk is not taken for a page.
    hash: String,
}

/// Under what an answer to `request` is kept: site, account, method and URL, as a hash.
#[must_use]
pub fn cache_key(site: &str, account: &str, request: &Request) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [site, account, request.method.as_str(), request.url.as_str()] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

/// Whether a request sets conditions of its own, so that a 304 is an answer to it.
#[must_use]
pub fn is_conditional(request: &Request) -> bool {
    let own = |(name, _): &(String, String)| {
        OWN_CONDITIONS
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own))
    };
    request.headers.iter().any(own)
}

/// Whether a request can be answered from what is kept: a GET that sets no conditions of its own.
fn is_plain(request: &Request) -> bool {
    let refuses = |(name, value): &(String, String)| {
        name.eq_ignore_ascii_case("cache-control")
            && value.to_ascii_lowercase().contains("no-store")
    };
    request.method == Method::Get
        && !is_conditional(request)
        && !request.headers.iter().any(refuses)
}

impl CachedAnswer {
    /// What of an answer is kept (RFC 9111 §3): a 200 to a GET that can be asked about again. `user_agent` is what the
    /// request was sent with.
    #[must_use]
    pub fn of(request: &Request, answer: &Answer, user_agent: &str) -> Option<Self> {
        let stored = Self {
            status: answer.status,
            headers: headers::kept(&answer.headers),
            vary: vary(request, &answer.headers, user_agent)?,
            body: answer.body.clone(),
        };
        let keeps = is_plain(request)
            && answer.status == 200
            && !has(&answer.headers, "no-store")
            && answer.headers.get("content-range").is_none()
            && (stored.etag().is_some() || stored.last_modified().is_some());
        keeps.then_some(stored)
    }

    fn etag(&self) -> Option<&str> {
        let tag = self.headers.get("etag")?;
        let sendable = |byte: u8| matches!(byte, 0x21..=0x7e);
        (!tag.is_empty() && tag.bytes().all(sendable)).then_some(tag)
    }

    /// Not where the answer depends on the cookies: they change, and a date does not tell for whom a page was made.
    fn last_modified(&self) -> Option<&str> {
        let personal = self.vary.iter().any(|(name, _)| name == "cookie");
        let date = self.headers.get("last-modified").filter(|_| !personal)?;
        instant(date).map(|_| date)
    }

    /// `request` as the question whether this answer still holds (RFC 9111 §4.3.1). `None` where it is no answer to it:
    /// a field that the answer depends on differs, or the request sets conditions of its own.
    #[must_use]
    pub fn question(&self, request: &Request, user_agent: &str) -> Option<Request> {
        let same = |(name, hash): &(String, String)| *hash == value_hash(request, name, user_agent);
        if !is_plain(request) || !self.vary.iter().all(same) {
            return None;
        }
        let mut question = request.clone();
        for (name, value) in [
            ("If-None-Match", self.etag()),
            ("If-Modified-Since", self.last_modified()),
        ] {
            let field = value.map(|value| (name.to_owned(), value.to_owned()));
            question.headers.extend(field);
        }
        (question.headers.len() > request.headers.len()).then_some(question)
    }

    /// The entry as a 304 leaves it (RFC 9111 §4.3.4). `None` where the 304 speaks of another version: then the page
    /// has to be asked for without conditions.
    ///
    /// Tags are compared without their `W/`: a server that packs on the fly marks the tag of the page and not that of the
    /// 304.
    #[must_use]
    pub fn confirmed(&self, by: &Answer) -> Option<Self> {
        let opaque = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
        let same = match (by.headers.get("etag"), self.etag()) {
            (Some(new), Some(old)) => opaque(new) == opaque(old),
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (None, None) => {
                let new = by.headers.get("last-modified").and_then(instant);
                let old = self.headers.get("last-modified").and_then(instant);
                new.is_none_or(|new| Some(new) == old)
            }
        };
        (same && by.status == 304).then(|| Self {
            headers: headers::updated(&self.headers, &by.headers),
            ..self.clone()
        })
    }

    /// The answer that this entry stands for, with the URL and the times of the exchange that confirmed it.
    #[must_use]
    pub fn answer(&self, confirmed_by: &Answer) -> Answer {
        Answer {
            status: self.status,
            headers: self.headers.clone(),
            body: self.body.clone(),
            ..confirmed_by.clone()
        }
    }

    /// Bytes of the body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// What is to be written down beside the body.
    #[must_use]
    pub fn description(&self) -> String {
        let description = Description {
            status: self.status,
            headers: headers::write(&self.headers),
            vary: self.vary.clone(),
            hash: hash(&self.body),
        };
        // Numbers and texts: there is nothing that could not be written.
        serde_json::to_string(&description).unwrap_or_default()
    }

    /// What was stored; `None` where it is damaged.
    #[must_use]
    pub fn stored(description: &str, body: Bytes) -> Option<Self> {
        let said: Description = serde_json::from_str(description).ok()?;
        let whole = said.hash == hash(&body);
        let headers = headers::read(said.headers).filter(|_| whole)?;
        Some(Self {
            status: said.status,
            headers,
            vary: said.vary,
            body,
        })
    }
}

fn hash(body: &[u8]) -> String {
    blake3::hash(body).to_hex().to_string()
}

/// What the answer depends on, by its `Vary`; `None`: on anything (RFC 9111 §4.1).
fn vary(request: &Request, headers: &Headers, user_agent: &str) -> Option<Vec<(String, String)>> {
    let names = headers.all("vary").flat_map(|list| list.split(','));
    let mut vary: Vec<(String, String)> = Vec::new();
    for name in names.map(|name| name.trim().to_ascii_lowercase()) {
        if name == "*" {
            return None;
        }
        let known = name.is_empty() || vary.iter().any(|(of, _)| *of == name);
        if !known {
            let hash = value_hash(request, &name, user_agent);
            vary.push((name, hash));
        }
    }
    Some(vary)
}

/// A hash of what a request says in a field: values may be secrets.
fn value_hash(request: &Request, name: &str, user_agent: &str) -> String {
    let own = request
        .headers
        .iter()
        .filter(|(of, _)| of.eq_ignore_ascii_case(name));
    let mut values: Vec<&str> = own.map(|(_, value)| value.as_str()).collect();
    if values.is_empty() {
        match name {
            "user-agent" => values.push(user_agent),
            _ if CONSTANT.contains(&name) => values.push("constant"),
            _ => {}
        }
    }
    hash(values.join("\n").as_bytes())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
