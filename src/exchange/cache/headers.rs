//! Header fields of stored answers: which are kept, which a 304 replaces, and how they are written down.

use bytes::Bytes;

use crate::model::Headers;

/// Fields that are not kept: they speak of one connection (RFC 9111 §3.1), or are secrets that the cookie jar keeps.
const NOT_KEPT: [&str; 12] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "set-cookie2",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields that speak of the body which was stored, not of a 304 (RFC 9111 §3.2 and what browsers leave alone).
const OF_THE_BODY: [&str; 4] = [
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
];

/// Whether `Connection` names the field.
fn is_hop_by_hop(headers: &Headers, name: &str) -> bool {
    headers
        .all("connection")
        .flat_map(|list| list.split(','))
        .any(|named| named.trim().eq_ignore_ascii_case(name))
}

/// The fields that are kept of an answer.
pub(super) fn kept(headers: &Headers) -> Headers {
    let keeps = |name: &str| !NOT_KEPT.contains(&name) && !is_hop_by_hop(headers, name);
    let fields = headers.0.iter().filter(|(name, _)| keeps(name));
    Headers(fields.cloned().collect())
}

/// `stored`, brought up to date by a 304 (RFC 9111 §3.2): a field of the 304 replaces all of its name.
pub(super) fn updated(stored: &Headers, by: &Headers) -> Headers {
    let new = kept(by);
    let replaces =
        |name: &str| !OF_THE_BODY.contains(&name) && new.0.iter().any(|(of, _)| of == name);
    let old = stored.0.iter().filter(|(name, _)| !replaces(name));
    let new = new.0.iter().filter(|(name, _)| replaces(name));
    Headers(old.chain(new).cloned().collect())
}

/// Fields as text: each byte of a value is one character, so that any value comes back as it was.
pub(super) fn write(headers: &Headers) -> Vec<(String, String)> {
    let text = |value: &Bytes| value.iter().copied().map(char::from).collect();
    let fields = headers.0.iter();
    fields
        .map(|(name, value)| (name.clone(), text(value)))
        .collect()
}

/// What [`write`] wrote; `None` where it is something else.
pub(super) fn read(fields: Vec<(String, String)>) -> Option<Headers> {
    let bytes = |text: &str| {
        text.chars()
            .map(|c| u8::try_from(u32::from(c)).ok())
            .collect::<Option<Vec<u8>>>()
    };
    fields
        .into_iter()
        .map(|(name, text)| Some((name, Bytes::from(bytes(&text)?))))
        .collect::<Option<_>>()
        .map(Headers)
}
