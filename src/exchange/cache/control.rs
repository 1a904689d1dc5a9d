//! `Cache-Control`, `Age` and `Expires`.

use std::time::Duration;

use crate::model::{Headers, UnixMillis};

/// The directives of all `Cache-Control` fields (RFC 9111 §5.2), names in lower case, in order. What is no directive is
/// left out.
pub(super) fn directives(headers: &Headers) -> impl Iterator<Item = (String, Option<&str>)> {
    headers
        .all("cache-control")
        .flat_map(split_quoted)
        .filter_map(|part| {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name, Some(value.trim().trim_matches('"'))),
                None => (part, None),
            };
            let name = name.trim().to_ascii_lowercase();
            (!name.is_empty()).then_some((name, value))
        })
}

/// The members of a list, by commas outside of quotes.
fn split_quoted(list: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    list.split(move |c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    })
}

/// Whether a directive is there.
pub(super) fn has(headers: &Headers, wanted: &str) -> bool {
    directives(headers).any(|(name, _)| name == wanted)
}

/// How long an answer that has just come may be used without asking, where it says so (RFC 9111 §4.2.1, for a cache of
/// one user): `max-age`, else `Expires`, less what `Age` has used up. Zero for `no-store`, `no-cache`, and for what
/// cannot be read.
#[must_use]
pub fn freshness(headers: &Headers, now: UnixMillis) -> Option<Duration> {
    if has(headers, "no-store") || has(headers, "no-cache") {
        return Some(Duration::ZERO);
    }
    let max_age = directives(headers).find(|(name, _)| name == "max-age");
    if let Some((_, value)) = max_age {
        let age = headers.get("age").and_then(seconds).unwrap_or_default();
        let lasts = value.and_then(seconds).unwrap_or_default();
        return Some(lasts.saturating_sub(age));
    }
    let expires = headers.get("expires")?;
    let date = headers.get("date").and_then(instant).unwrap_or(now);
    Some(instant(expires).map_or(Duration::ZERO, |at| at.since(date)))
}

fn seconds(text: &str) -> Option<Duration> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // RFC 9111 §1.2.2: a number too large counts as the largest.
    digits.then(|| Duration::from_secs(text.parse::<u32>().unwrap_or(u32::MAX).into()))
}

/// The instant of a date field, in one of the three forms of RFC 9110 §5.6.7.
pub(super) fn instant(text: &str) -> Option<UnixMillis> {
    let at = httpdate::parse_http_date(text).ok()?;
    let since = at.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(UnixMillis(i64::try_from(since.as_millis()).ok()?))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn lasts(fields: &[(&str, &str)]) -> Option<u64> {
        let field = |(name, value): &(&str, &str)| {
            ((*name).to_owned(), Bytes::copy_from_slice(value.as_bytes()))
        };
        let headers = Headers(fields.iter().map(field).collect());
        freshness(&headers, UnixMillis(0)).map(|time| time.as_secs())
    }

    #[test]
    fn freshness_is_what_the_fields_say() {
        const DATE: (&str, &str) = ("date", "Tue, 15 Nov 1994 08:12:31 GMT");
        for (fields, seconds) in [
            (&[][..], None),
            (&[("cache-control", "public")], None),
            (&[("cache-control", "public, Max-Age = 60")], Some(60)),
            (&[("cache-control", "max-age=\"60\"")], Some(60)),
            (
                &[("cache-control", "private=\"a, max-age=1\", max-age=60")],
                Some(60),
            ),
            (&[("cache-control", "max-age=60"), ("age", "20")], Some(40)),
            (&[("cache-control", "max-age=60"), ("age", "90")], Some(0)),
            (&[("cache-control", "max-age=-1")], Some(0)),
            (
                &[("cache-control", "max-age=99999999999999999999")],
                Some(u64::from(u32::MAX)),
            ),
            (
                &[
                    ("cache-control", "max-age=60"),
                    ("cache-control", "no-cache"),
                ],
                Some(0),
            ),
            (
                &[("cache-control", "max-age=60"), ("expires", "0")],
                Some(60),
            ),
            (&[("expires", "0")], Some(0)),
            (
                &[("expires", "Tue, 15 Nov 1994 08:13:31 GMT"), DATE],
                Some(60),
            ),
            (
                &[("expires", "Tue, 15 Nov 1994 08:11:31 GMT"), DATE],
                Some(0),
            ),
        ] {
            assert_eq!(lasts(fields), seconds, "{fields:?}");
        }
    }

    proptest! {
        #[test]
        fn no_field_makes_it_panic(control in any::<String>(), expires in any::<String>(), age in any::<String>()) {
            let _ = lasts(&[("cache-control", &control), ("expires", &expires), ("age", &age)]);
        }
    }
}
