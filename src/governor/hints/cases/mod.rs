//! Headers as servers sent them, by what they are about.

mod counters;
mod policies;
mod properties;
mod retry_after;

use std::time::Duration;

use bytes::Bytes;

use super::hints;
use crate::governor::messages::Hints;
use crate::model::{Headers, UnixMillis};

/// 1994-11-06T08:49:37Z, in milliseconds.
const NOV_6: i64 = 784_111_777_000;
/// The same as an HTTP-date.
const NOV_6_DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
/// 2024-05-06T07:08:09Z, in milliseconds.
const MAY_6: i64 = 1_714_979_289_000;
/// The same as an HTTP-date.
const MAY_6_DATE: &str = "Mon, 06 May 2024 07:08:09 GMT";

fn headers(fields: &[(&str, &str)]) -> Headers {
    let owned = |(name, value): &(&str, &str)| {
        ((*name).to_owned(), Bytes::copy_from_slice(value.as_bytes()))
    };
    Headers(fields.iter().map(owned).collect())
}

/// Hints of an answer without `Date`, at our time `MAY_6`.
fn said(fields: &[(&str, &str)]) -> Hints {
    hints(&headers(fields), UnixMillis(MAY_6))
}

fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

/// Whether a rate is this many per second, but for rounding.
fn is_rate(hints: Hints, rate: f64) -> bool {
    hints
        .rate
        .is_some_and(|told| (told - rate).abs() <= rate * 1e-9)
}
