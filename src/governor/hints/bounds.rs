//! What several policies and counters come to together: the strictest of each.

use std::time::Duration;

use crate::governor::messages::Hints;

/// A bound below this, one request in eleven days, would be a ban and not a pace.
const LEAST_RATE: f64 = 1e-6;
/// Nobody goes faster than this, so it is as good as no bound.
const MOST_RATE: f64 = 1e9;

/// Bounds read so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    exhausted: Option<Duration>,
    rate: Option<(f64, Option<Duration>)>,
    cap: Option<u32>,
    bucket: Option<u64>,
}

impl Bounds {
    /// At most `requests` in each `window`. Nothing at all is no pace: it bounds nothing here.
    pub(super) fn policy(&mut self, requests: u64, window: Duration) {
        if requests > 0 && !window.is_zero() {
            self.rate(requests as f64 / window.as_secs_f64(), None);
        }
    }

    /// `requests` are left for `wait`, after which there are others. When `coarse`, `wait` has whole seconds: only
    /// a second less of it is certain, and a bound has to follow from what was said.
    pub(super) fn left(&mut self, requests: u64, wait: Duration, coarse: bool) {
        if requests == 0 {
            self.exhausted = self.exhausted.max(Some(wait));
            return;
        }
        let certain = match coarse {
            true => wait.saturating_sub(Duration::from_secs(1)),
            false => wait,
        };
        if !certain.is_zero() {
            self.rate(requests as f64 / certain.as_secs_f64(), Some(wait));
        }
    }

    fn rate(&mut self, rate: f64, lasts: Option<Duration>) {
        if self.rate.is_none_or(|(least, _)| rate < least) {
            self.rate = Some((rate.clamp(LEAST_RATE, MOST_RATE), lasts));
        }
    }

    /// At most so many at once. One is always let through: it is how the server can say otherwise.
    pub(super) fn at_once(&mut self, requests: u64) {
        let cap = u32::try_from(requests).unwrap_or(u32::MAX).max(1);
        self.cap = Some(self.cap.map_or(cap, |least| least.min(cap)));
    }

    /// The request was counted in the bucket of this name, which is told in a field of this `kind`. The first
    /// name counts.
    pub(super) fn bucket(&mut self, kind: &str, name: &[u8]) {
        let mut hasher = blake3::Hasher::new();
        // The length keeps kind and name apart.
        hasher.update(&(kind.len() as u64).to_le_bytes());
        hasher.update(kind.as_bytes());
        hasher.update(name);
        let hash = hasher.finalize();
        let first = hash.as_bytes().iter().take(8);
        let number = first.fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        self.bucket.get_or_insert(number);
    }

    pub(super) fn hints(self) -> Hints {
        Hints {
            exhausted: self.exhausted,
            rate: self.rate.map(|(rate, _)| rate),
            rate_for: self.rate.and_then(|(_, lasts)| lasts),
            cap: self.cap,
            bucket: self.bucket,
            ..Hints::default()
        }
    }
}
