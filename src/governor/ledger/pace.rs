//! The pace of one level: GCRA, the leaky bucket that keeps one instant instead of a counter.
//!
//! A learned rate would enter here: the rest of the ledger asks only `earliest`, `take` and `retune`.

use crate::model::Timestamp;
use crate::settings::{LimitSettings, Rate};

/// Longest interval the arithmetic is asked to carry, about 36 years; beyond it products would saturate
/// and a saturated sum could look like an open gate.
const LONGEST_NANOS: u64 = 1 << 60;

/// At most `rate × window + burst` requests in any window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    interval: u64,
    burst: u32,
    /// Theoretical arrival time: when the bucket will be empty again.
    tat: Timestamp,
}

impl Pace {
    /// A bucket whose burst is spent: one request at `earliest`, then one per interval.
    pub(crate) fn spent(rate: Rate, burst: u32, earliest: Timestamp) -> Self {
        let mut pace = Self {
            interval: nanos(rate),
            burst: burst.max(1),
            tat: Timestamp::ZERO,
        };
        pace.tat = plus(earliest, pace.tolerance());
        pace
    }

    /// A bucket that remembers: it was left at `tat`.
    pub(crate) fn with_tat(rate: Rate, burst: u32, tat: Timestamp) -> Self {
        Self {
            interval: nanos(rate),
            burst: burst.max(1),
            tat,
        }
    }

    /// The pace that `limits` set, if they set one.
    pub(crate) fn of(limits: &LimitSettings) -> Option<(Rate, u32)> {
        limits.rate.map(|rate| (rate, limits.burst.unwrap_or(1)))
    }

    pub(crate) fn tat(&self) -> Timestamp {
        self.tat
    }

    /// Nothing before `earliest`.
    pub(crate) fn hold(&mut self, earliest: Timestamp) {
        self.tat = self.tat.max(plus(earliest, self.tolerance()));
    }

    /// How long a request can matter for the bucket, in nanoseconds.
    pub(crate) fn memory(&self) -> u64 {
        self.tolerance().saturating_add(self.interval)
    }

    fn tolerance(&self) -> u64 {
        self.interval
            .saturating_mul(u64::from(self.burst) - 1)
            .min(LONGEST_NANOS)
    }

    /// The earliest instant of the next request, when `pending` more are promised and not yet sent.
    pub(crate) fn earliest(&self, now: Timestamp, pending: u32) -> Timestamp {
        let tat = if pending == 0 {
            self.tat
        } else {
            let promised = self.interval.saturating_mul(u64::from(pending));
            plus(self.tat.max(now), promised)
        };
        Timestamp::from_nanos(tat.as_nanos().saturating_sub(self.tolerance()))
    }

    /// A request leaves at `now`.
    pub(crate) fn take(&mut self, now: Timestamp) {
        self.tat = plus(self.tat.max(now), self.interval);
    }

    /// The last request taken was not sent. Right only while no other was taken since: otherwise idle
    /// time after it may have emptied the bucket already.
    pub(crate) fn give_back(&mut self) {
        self.tat = Timestamp::from_nanos(self.tat.as_nanos().saturating_sub(self.interval));
    }

    /// A new rate: what is in the bucket keeps its number of requests, so that no burst is given anew.
    pub(crate) fn retune(&mut self, rate: Rate, burst: u32, now: Timestamp) {
        let interval = nanos(rate);
        let level = self.tat.as_nanos().saturating_sub(now.as_nanos());
        // Rounded up: a nanosecond too late is harmless.
        let scaled = (u128::from(level) * u128::from(interval)).div_ceil(u128::from(self.interval));
        if level > 0 {
            self.tat = plus(now, u64::try_from(scaled).unwrap_or(u64::MAX));
        }
        self.interval = interval;
        self.burst = burst.max(1);
    }
}

fn nanos(rate: Rate) -> u64 {
    u64::try_from(rate.interval().as_nanos())
        .unwrap_or(LONGEST_NANOS)
        .clamp(1, LONGEST_NANOS)
}

fn plus(at: Timestamp, nanos: u64) -> Timestamp {
    Timestamp::from_nanos(at.as_nanos().saturating_add(nanos))
}
