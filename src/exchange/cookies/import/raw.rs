//! The value of a `Cookie` header, as developer tools show it.

use bytes::Bytes;

use super::{Found, Wanted};
use crate::exchange::cookies::domain;
use crate::model::{Cookie, UnixMillis};

/// `name=value; name=value`, with or without `Cookie:` before it. A value is all behind the first `=`.
pub(super) fn read(text: &str, wanted: &Wanted<'_>) -> Vec<Found> {
    let text = text.trim();
    let text = match text.split_once(':') {
        Some((name, rest)) if name.trim().eq_ignore_ascii_case("cookie") => rest,
        _ => text,
    };
    let pairs = text
        .split(';')
        .map(str::trim)
        .filter(|pair| !pair.is_empty());
    let octets = |text: &str| Bytes::copy_from_slice(text.trim().as_bytes());
    (1..)
        .zip(pairs)
        .map(|(nth, pair)| {
            let (name, value) = pair.split_once('=').unwrap_or(("", pair));
            let rooted = name
                .trim()
                .get(..7)
                .is_some_and(|head| head.eq_ignore_ascii_case("__Host-"));
            let cookie = Cookie {
                name: octets(name),
                value: octets(value),
                domain: wanted.domain.to_owned(),
                host_only: rooted || domain::is_public_suffix(wanted.domain),
                path: "/".to_owned(),
                secure: wanted.secure,
                http_only: false,
                same_site: None,
                expires: None,
                created: UnixMillis(0),
                used: UnixMillis(0),
            };
            Found {
                place: format!("pair {nth}"),
                cookie,
            }
        })
        .collect()
}
