//! The canonical form of a URL: what de-duplication compares, patterns match and records of pages are keyed by.
//! It is never what is sent.

use std::borrow::Cow;

use url::Url;

use super::urls::{HEX, hex_value, is_unreserved};
use crate::model::{ParamPattern, QueryRule, UrlRules};

/// Characters that RFC 3986 §3.3 and §3.4 allow in no path and no query: they can only stand for themselves, so that
/// it means the same whether they are percent-encoded or not. The URL standard leaves some of them as they are.
const fn is_excluded(byte: u8) -> bool {
    matches!(
        byte,
        b'"' | b'<' | b'>' | b'[' | b'\\' | b']' | b'^' | b'`' | b'{' | b'|' | b'}'
    )
}

/// One form of percent-encoding: upper-case hex, what needs no encoding decoded (RFC 3986 §6.2.2), what must be
/// encoded encoded. `None`: nothing to change.
fn normal_escapes(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    if !bytes.iter().any(|byte| *byte == b'%' || is_excluded(*byte)) {
        return None;
    }
    let mut out = Vec::with_capacity(bytes.len());
    let escape = |out: &mut Vec<u8>, byte: u8| {
        out.extend([
            b'%',
            HEX[usize::from(byte >> 4)],
            HEX[usize::from(byte & 15)],
        ]);
    };
    let mut at = 0;
    // Digits decoded right behind a stray `%` would make a new escape with it: those stay encoded.
    let mut stray_end = 0;
    while at < bytes.len() {
        let pair = (bytes[at] == b'%' && at + 2 < bytes.len())
            .then(|| Some((hex_value(bytes[at + 1])?, hex_value(bytes[at + 2])?)))
            .flatten();
        if let Some((high, low)) = pair {
            let byte = high * 16 + low;
            if is_unreserved(byte) && out.len() >= stray_end {
                out.push(byte);
            } else {
                escape(&mut out, byte);
            }
            at += 3;
            continue;
        }
        if bytes[at] == b'%' {
            stray_end = out.len() + 3;
        }
        if is_excluded(bytes[at]) {
            escape(&mut out, bytes[at]);
        } else {
            out.push(bytes[at]);
        }
        at += 1;
    }
    let out = String::from_utf8(out).ok()?;
    (out != text).then_some(out)
}

/// The number of the form below, to be raised when it changes: keys of another number may differ for one page.
const FORM: u32 = 2;

/// The canonical form of URLs under some rules.
#[derive(Clone, Debug, Default)]
pub struct Canonical {
    rules: UrlRules,
}

impl Canonical {
    /// By `rules`; by the default ones nothing is dropped and nothing is sorted.
    #[must_use]
    pub fn new(rules: &UrlRules) -> Self {
        Self {
            rules: rules.clone(),
        }
    }

    /// The canonical form of an http or https URL: no fragment, one form of percent-encoding; of the query, and of
    /// options of the path, what the rules leave. Case, default ports and dot segments are the URL parser's. What
    /// may change the meaning, such as the order of the query, stays unless a rule asks for it.
    #[must_use]
    pub fn of<'a>(&self, url: &'a Url) -> Cow<'a, Url> {
        let mut url = Cow::Borrowed(url);
        if url.fragment().is_some() {
            url.to_mut().set_fragment(None);
        }
        let path = normal_escapes(url.path());
        if let Some(path) = self
            .kept_path(path.as_deref().unwrap_or(url.path()))
            .or(path)
        {
            url.to_mut().set_path(&path);
        }
        if let Some(query) = url.query() {
            let plain = normal_escapes(query);
            match self.kept_query(plain.as_deref().unwrap_or(query)) {
                Some(kept) => {
                    let kept = (!kept.is_empty()).then_some(kept);
                    url.to_mut().set_query(kept.as_deref());
                }
                None => {
                    if let Some(plain) = plain {
                        url.to_mut().set_query(Some(&plain));
                    }
                }
            }
        }
        url
    }

    /// Form and rules in one line, to be kept beside keys that were made by them.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("form={FORM} {}", self.rules.fingerprint())
    }

    fn drops(&self, option: &str) -> bool {
        let name = option.split('=').next().unwrap_or_default();
        self.rules
            .drop_params
            .iter()
            .any(|pattern: &ParamPattern| pattern.fits(name))
    }

    /// The path without the options that do not count (`/a;jsessionid=1/b`). `None`: as it is.
    fn kept_path(&self, path: &str) -> Option<String> {
        if self.rules.drop_params.is_empty() || !path.contains(';') {
            return None;
        }
        let segment = |segment: &str| {
            let mut parts = segment.split(';');
            let first = parts.next().unwrap_or_default();
            let kept = parts.filter(|option| !self.drops(option));
            std::iter::once(first)
                .chain(kept)
                .collect::<Vec<_>>()
                .join(";")
        };
        let kept = path.split('/').map(segment).collect::<Vec<_>>().join("/");
        (kept != path).then_some(kept)
    }

    /// The query that counts; empty: none does. `None`: as it is.
    fn kept_query(&self, query: &str) -> Option<String> {
        let all = || query.split('&');
        let UrlRules {
            query: rule,
            drop_params,
        } = &self.rules;
        let drops = !drop_params.is_empty() && all().any(|option| self.drops(option));
        if *rule == QueryRule::Exact && !drops {
            return None;
        }
        let mut kept: Vec<&str> = all().filter(|option| !self.drops(option)).collect();
        if *rule != QueryRule::Exact {
            kept.retain(|option| !option.is_empty());
            // Stable: the order of what has one name can mean something.
            kept.sort_by_key(|option| option.split('=').next());
        }
        if *rule == QueryRule::SortUnique {
            let mut seen = std::collections::HashSet::new();
            kept.retain(|option| seen.insert(*option));
        }
        let kept = kept.join("&");
        (kept != query || kept.is_empty()).then_some(kept)
    }
}

/// The canonical form of a URL under the default rules.
#[must_use]
pub fn canonical(url: &Url) -> Url {
    Canonical::default().of(url).into_owned()
}

#[cfg(test)]
#[path = "canonical_tests.rs"]
mod tests;
