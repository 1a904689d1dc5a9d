//! How long what was read of a robots.txt is good.

use std::time::Duration;

use crate::model::{Answer, UnixMillis};

/// RFC 9309 §2.4: not to be used for more than 24 hours.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A file that asks not to be kept is asked again after this: each page would else cost two requests.
const SHORTEST: Duration = Duration::from_secs(5 * 60);

/// A refusal says less than a file, and may be over soon.
const REFUSED: Duration = Duration::from_secs(3600);

/// How long an answer that told the rules is good: what its `Cache-Control: max-age` or `Expires` says (RFC 9111
/// §4.2), within bounds.
pub(super) fn good_for(answer: &Answer, now: UnixMillis) -> Duration {
    let told = super::super::cache::freshness(&answer.headers, now);
    let longest = match answer.status {
        200..=299 | 404 | 410 => LONGEST,
        _ => REFUSED,
    };
    told.unwrap_or(longest).clamp(SHORTEST, longest)
}
