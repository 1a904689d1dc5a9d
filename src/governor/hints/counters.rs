//! The counters that most servers tell, each in its own way: how many requests are left, and until when.

use std::time::Duration;

use super::bounds::Bounds;
use super::clock::{Clock, Moment, number};
use crate::model::Headers;

/// Families of names for the same things.
const FAMILIES: [&str; 3] = ["ratelimit-", "x-ratelimit-", "x-rate-limit-"];
/// Fields that name the bucket a request was counted in.
const BUCKETS: [&str; 2] = ["x-ratelimit-bucket", "x-ratelimit-resource"];
/// The most that a reset whose meaning is guessed may ask for.
const GUESS: Duration = Duration::from_secs(3600);

/// Adds what the counters say to `bounds`. `window` is the longest window that a policy told.
pub(super) fn read(headers: &Headers, clock: Clock, window: Option<Duration>, bounds: &mut Bounds) {
    for family in FAMILIES {
        let values = |what: &str| values(headers, &format!("{family}{what}"));
        let limits = values("limit");
        let mut left = values("remaining");
        if left.is_empty() {
            // What was used tells as much where the limit is told beside it.
            left = limits
                .iter()
                .zip(values("used"))
                .map(|(limit, used)| Value {
                    count: limit.count.saturating_sub(used.count),
                    window: None,
                })
                .collect();
        }
        for limit in &limits {
            if let Some(window) = limit.window {
                bounds.policy(limit.count, window);
            }
        }
        let window = limits
            .iter()
            .chain(&left)
            .filter_map(|value| value.window)
            .chain(window)
            .max();
        let resets = resets(headers, family);
        for (count, reset) in pairs(&left, &resets, clock) {
            bounds.left(count, reset.wait(clock, window), reset.is_coarse(clock));
        }
    }
    for name in BUCKETS {
        if let Some(value) = headers.get(name).filter(|value| !value.is_empty()) {
            bounds.bucket(name, value.as_bytes());
        }
    }
}

/// Whether the answer speaks for the whole site: `X-RateLimit-Global: true` or `X-RateLimit-Scope: global`.
/// Other scopes (`user`, `shared`) are about the bucket, as is an answer without a scope.
pub(super) fn whole_site(headers: &Headers) -> bool {
    let is = |name: &str, word: &str| {
        headers
            .get(name)
            .is_some_and(|value| value.eq_ignore_ascii_case(word))
    };
    is("x-ratelimit-global", "true") || is("x-ratelimit-scope", "global")
}

/// A number of requests, and the window they are counted in where it is told: `100;w=60`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    count: u64,
    window: Option<Duration>,
}

/// All numbers of a field; several are separated by commas. A line with anything else is ignored.
fn values(headers: &Headers, name: &str) -> Vec<Value> {
    headers
        .all(name)
        .filter_map(|line| line.split(',').map(value).collect::<Option<Vec<_>>>())
        .flatten()
        .collect()
}

fn value(text: &str) -> Option<Value> {
    let mut parts = text.split(';');
    // A part of a request is none.
    let count = number(parts.next()?)?.as_secs();
    let window = parts
        .filter_map(|part| part.trim().strip_prefix("w="))
        .filter_map(number)
        .find(|window| !window.is_zero());
    Some(Value { count, window })
}

/// When a counter starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reset {
    moment: Moment,
    /// The field's name says the unit.
    told: bool,
}

impl Reset {
    /// A time by the server's own clock is taken at its word, as is a number whose unit is told. A bare number may
    /// be in another unit than seconds, and our clock may be wrong.
    fn wait(self, clock: Clock, window: Option<Duration>) -> Duration {
        let wait = self.moment.wait(clock);
        let sure = self.told || (clock.servers && matches!(self.moment, Moment::At(_)));
        match sure {
            true => wait,
            false => wait.min(GUESS.max(window.unwrap_or_default())),
        }
    }

    fn is_coarse(self, clock: Clock) -> bool {
        self.moment.is_coarse(clock)
    }
}

/// `Reset-After` is in seconds; without it, `Reset` is whatever it looks like.
fn resets(headers: &Headers, family: &str) -> Vec<Reset> {
    let after: Vec<Reset> = headers
        .all(&format!("{family}reset-after"))
        .filter_map(number)
        .map(|wait| Reset {
            moment: Moment::In(wait),
            told: true,
        })
        .collect();
    if !after.is_empty() {
        return after;
    }
    headers
        .all(&format!("{family}reset"))
        .filter_map(|line| match Moment::parse(line) {
            // A date has a comma of its own.
            Some(moment) => Some(vec![moment]),
            None => line.split(',').map(Moment::parse).collect(),
        })
        .flatten()
        .map(|moment| Reset {
            moment,
            told: false,
        })
        .collect()
}

/// Each counter with its reset, in order. Where one is told more often than the other, the strictest of what is
/// told less often stands for what is missing: the least left, or the latest reset.
fn pairs(left: &[Value], resets: &[Reset], clock: Clock) -> Vec<(u64, Reset)> {
    let least = left.iter().map(|value| value.count).min();
    let latest = resets
        .iter()
        .copied()
        .max_by_key(|reset| reset.moment.wait(clock));
    let (Some(least), Some(latest)) = (least, latest) else {
        return Vec::new();
    };
    (0..left.len().max(resets.len()))
        .map(|nth| {
            (
                left.get(nth).map_or(least, |value| value.count),
                resets.get(nth).copied().unwrap_or(latest),
            )
        })
        .collect()
}
