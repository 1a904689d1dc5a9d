//! The rest of a file: asking for it, and knowing what came (RFC 9110 §14). Pure.

use crate::model::Headers;

/// What names this version of a file and no other, fit for `If-Range` (RFC 9110 §13.1.5): a strong entity tag, else a date
/// of last change that lies at least a second before the answer's own date (§8.8.2.2).
#[must_use]
pub fn validator(headers: &Headers) -> Option<String> {
    if let Some(tag) = headers.get("etag") {
        let inner = tag.strip_prefix('"')?.strip_suffix('"')?;
        let plain = inner.bytes().all(|byte| byte > b' ' && byte != b'"');
        return (plain && tag.len() <= 1024).then(|| tag.to_owned());
    }
    let changed = headers.get("last-modified")?;
    let at = httpdate::parse_http_date(changed).ok()?;
    let now = httpdate::parse_http_date(headers.get("date")?).ok()?;
    let age = now.duration_since(at).ok()?;
    (age.as_secs() >= 1).then(|| changed.to_owned())
}

/// The headers that ask for what follows the first `have` bytes of the file that `validator` names.
#[must_use]
pub fn ask_for_rest(have: u64, validator: &str) -> [(String, String); 2] {
    [
        ("Range".to_owned(), format!("bytes={have}-")),
        ("If-Range".to_owned(), validator.to_owned()),
    ]
}

/// What `Content-Range` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentRange {
    /// `bytes first-last/total`: both ends included.
    Bytes {
        /// The first byte, from 0.
        first: u64,
        /// The last byte.
        last: u64,
        /// The length of the whole file; `None`: `*`.
        total: Option<u64>,
    },
    /// `bytes */total`: there is no such range.
    None {
        /// The length of the whole file.
        total: u64,
    },
}

impl ContentRange {
    /// Reads the header of an answer; `None` where there is none that makes sense.
    #[must_use]
    pub fn of(headers: &Headers) -> Option<Self> {
        let mut all = headers.all("content-range");
        let (value, None) = (all.next()?, all.next()) else {
            return None;
        };
        let (unit, rest) = value.split_once(' ')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let (range, total) = rest.trim().split_once('/')?;
        let total = match total.trim() {
            "*" => None,
            digits => Some(number(digits)?),
        };
        if range.trim() == "*" {
            return Some(Self::None { total: total? });
        }
        let (first, last) = range.split_once('-')?;
        let (first, last) = (number(first.trim())?, number(last.trim())?);
        let sense = first <= last && total.is_none_or(|total| last < total);
        sense.then_some(Self::Bytes { first, last, total })
    }
}

fn number(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn headers(fields: &[(&str, &str)]) -> Headers {
        let field = |(name, value): &(&str, &str)| {
            ((*name).to_owned(), Bytes::copy_from_slice(value.as_bytes()))
        };
        Headers(fields.iter().map(field).collect())
    }

    fn range(value: &str) -> Option<ContentRange> {
        ContentRange::of(&headers(&[("content-range", value)]))
    }

    #[test]
    fn only_a_strong_validator_is_one() {
        let (old, new) = (
            "Tue, 14 Nov 2023 22:13:20 GMT",
            "Tue, 14 Nov 2023 22:13:21 GMT",
        );
        for (fields, expected) in [
            (&[("etag", "\"a-1\"")][..], Some("\"a-1\"")),
            (&[("etag", "W/\"a\"")], None),
            (&[("etag", "a")], None),
            (&[("etag", "\"")], None),
            (
                &[("etag", "W/\"a\""), ("last-modified", old), ("date", new)],
                None,
            ),
            (&[("last-modified", old), ("date", new)], Some(old)),
            (&[("last-modified", old), ("date", old)], None),
            (&[("last-modified", new), ("date", old)], None),
            (&[("last-modified", old)], None),
            (&[("last-modified", "yesterday"), ("date", old)], None),
            (&[], None),
        ] {
            assert_eq!(
                validator(&headers(fields)).as_deref(),
                expected,
                "{fields:?}"
            );
        }
    }

    #[test]
    fn content_ranges_that_make_no_sense_are_none() {
        let bytes = |first, last, total| Some(ContentRange::Bytes { first, last, total });
        assert_eq!(range("bytes 5-9/10"), bytes(5, 9, Some(10)));
        assert_eq!(range("Bytes 5-9/*"), bytes(5, 9, None));
        assert_eq!(range("bytes */10"), Some(ContentRange::None { total: 10 }));
        for value in [
            "bytes 5-10/10",
            "bytes 9-5/10",
            "bytes 5-/10",
            "bytes -5/10",
            "bytes */*",
            "bytes +5-9/10",
            "bytes 5-9",
            "items 5-9/10",
            "5-9/10",
            "bytes 5-99999999999999999999/*",
        ] {
            assert_eq!(range(value), None, "{value}");
        }
        let twice = [
            ("content-range", "bytes 5-9/10"),
            ("content-range", "bytes 0-9/10"),
        ];
        assert_eq!(ContentRange::of(&headers(&twice)), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,60}", tag in ".{0,20}") {
            let _ = range(&text);
            let _ = range(&format!("bytes {text}"));
            let _ = validator(&headers(&[("etag", &tag)]));
        }

        #[test]
        fn what_is_written_is_read(first in 0..u64::MAX / 2, more in 0u64..1000, rest in 1u64..1000) {
            let (last, total) = (first + more, first + more + rest);
            let read = range(&format!("bytes {first}-{last}/{total}"));
            prop_assert_eq!(read, Some(ContentRange::Bytes { first, last, total: Some(total) }));
        }
    }
}
