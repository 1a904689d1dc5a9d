//! What an answer's header says of limits.
//!
//! | field | read as |
//! |---|---|
//! | `Retry-After` (RFC 9110 §10.2.3), `retry-after-ms`, `x-ms-retry-after-ms` | [`Hints::retry_after`] |
//! | `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers) | [`Hints::rate`], [`Hints::cap`], [`Hints::exhausted`], [`Hints::bucket`] |
//! | `RateLimit-`, `X-RateLimit-` and `X-Rate-Limit-` with `Limit`, `Remaining`, `Used`, `Reset`, `Reset-After` | [`Hints::rate`], [`Hints::exhausted`] |
//! | `X-RateLimit-Bucket`, `X-RateLimit-Resource` | [`Hints::bucket`] |
//! | `X-RateLimit-Global`, `X-RateLimit-Scope` | [`Hints::whole_site`] |
//!
//! Three rules hold for all of them. What cannot be read is no hint. Where several speak, the strictest counts.
//! A time counts from the answer's own `Date`, for the clocks need not agree.
//!
//! An answer with an `Age` above zero came from a cache: its counters are old, and only its `Retry-After` counts.

mod bounds;
mod clock;
mod counters;
mod policies;
mod retry_after;
mod structured;

use bounds::Bounds;
use clock::Clock;

use super::messages::Hints;
use crate::model::{Headers, UnixMillis};

pub use retry_after::retry_after;

/// The hints of an answer that arrived at `now`.
#[must_use]
pub fn hints(headers: &Headers, now: UnixMillis) -> Hints {
    let clock = Clock::of(headers, now);
    let mut bounds = Bounds::default();
    if !from_a_cache(headers) {
        let window = policies::read(headers, &mut bounds);
        counters::read(headers, clock, window, &mut bounds);
    }
    Hints {
        retry_after: retry_after::longest(headers, clock.now),
        whole_site: counters::whole_site(headers),
        ..bounds.hints()
    }
}

fn from_a_cache(headers: &Headers) -> bool {
    headers
        .get("age")
        .and_then(clock::number)
        .is_some_and(|age| !age.is_zero())
}

#[cfg(test)]
mod cases;
