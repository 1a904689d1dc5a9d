//! `Retry-After` and its like: what the server asks for in so many words. Nothing is cut short, however long it is.

use std::time::Duration;

use super::clock::{self, Moment};
use crate::model::{Headers, UnixMillis};

/// A number that is an instant rather than a wait lies at most this long before the answer …
const EPOCH_BEFORE: Duration = Duration::from_secs(86_400);
/// … or this long after it. A wait of so many seconds would be longer than thirty years.
const EPOCH_AFTER: Duration = Duration::from_secs(366 * 86_400);

/// The longest wait that any of the fields asks for; dates are counted from `base`.
pub(super) fn longest(headers: &Headers, base: UnixMillis) -> Option<Duration> {
    let seconds = headers
        .all("retry-after")
        .filter_map(|value| retry_after(value, base));
    let millis = ["retry-after-ms", "x-ms-retry-after-ms"]
        .into_iter()
        .flat_map(|name| headers.all(name))
        .filter_map(millis);
    seconds.chain(millis).max()
}

/// One value of `Retry-After` (RFC 9110 §10.2.3), also as servers really write it: fractions are rounded up to a
/// millisecond, and a number of seconds or milliseconds since 1970 that lies near `base` is a date. A date is
/// counted from `base`. Zero and a past date are hints of zero.
#[must_use]
pub fn retry_after(value: &str, base: UnixMillis) -> Option<Duration> {
    let Some(number) = clock::number(value) else {
        return clock::http_date(value).map(|at| at.since(base));
    };
    match Moment::parse(value) {
        Some(Moment::At(at)) if at.since(base) <= EPOCH_AFTER && base.since(at) <= EPOCH_BEFORE => {
            Some(at.since(base))
        }
        _ => Some(number),
    }
}

fn millis(value: &str) -> Option<Duration> {
    let number = clock::number(value)?;
    let whole = Duration::from_millis(number.as_secs());
    // A part of a millisecond counts as one.
    let rest = Duration::from_millis(u64::from(number.subsec_nanos() > 0));
    Some(whole.saturating_add(rest))
}
