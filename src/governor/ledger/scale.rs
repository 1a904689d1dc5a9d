//! The time of the law: the node's own, or, in tests, one that runs faster.

use std::time::Duration;

use super::adapt::Learned;
use crate::model::Timestamp;

const ONE: u64 = 1_000_000;

/// How long one second of the law lasts, in millionths of a second. Exact in both directions, so that an
/// instant the law names is never reached too early, and is open when it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale(u64);

impl Default for Scale {
    fn default() -> Self {
        Self(ONE)
    }
}

impl Scale {
    /// From `test_time_scale`: 0.001 to 1.
    pub(crate) fn new(scale: f64) -> Self {
        // In range, so it fits; NaN becomes the least.
        Self(((scale * ONE as f64) as u64).clamp(1, ONE))
    }

    /// The law's instant at `now`.
    pub(crate) fn law(self, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(self.shrink(now.as_nanos()))
    }

    /// A length of time as the law sees it.
    pub(crate) fn law_time(self, time: Duration) -> Duration {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.shrink(nanos))
    }

    /// A rate, per second of the law.
    pub(crate) fn law_rate(self, rate: f64) -> f64 {
        rate * (self.0 as f64 / ONE as f64)
    }

    /// A rate per second of the law, as it is in real time.
    pub(crate) fn real_rate(self, rate: f64) -> f64 {
        rate / (self.0 as f64 / ONE as f64)
    }

    /// A length of the law's time, in real time.
    pub(crate) fn real_time(self, time: Duration) -> Duration {
        time.mul_f64(self.0 as f64 / ONE as f64)
    }

    /// What the law learned, in real time.
    pub(crate) fn real_learned(self, learned: Learned) -> Learned {
        let scale = self.0 as f64 / ONE as f64;
        Learned {
            rate: self.real_rate(learned.rate),
            latency: learned.latency * scale,
            horizon: learned.horizon * scale,
            ..learned
        }
    }

    /// What was learned in real time, as the law counts.
    pub(crate) fn law_learned(self, learned: &Learned) -> Learned {
        let scale = self.0 as f64 / ONE as f64;
        Learned {
            rate: self.law_rate(learned.rate),
            latency: learned.latency / scale,
            horizon: learned.horizon / scale,
            ..*learned
        }
    }

    /// The first instant at which the law's clock shows `at`.
    pub(crate) fn real(self, at: Timestamp) -> Timestamp {
        if self.0 == ONE || at == Timestamp::MAX {
            return at;
        }
        let nanos = (u128::from(at.as_nanos()) * u128::from(self.0)).div_ceil(u128::from(ONE));
        Timestamp::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn shrink(self, nanos: u64) -> u64 {
        if self.0 == ONE {
            return nanos;
        }
        let nanos = u128::from(nanos) * u128::from(ONE) / u128::from(self.0);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_instant_of_the_law_is_open_when_it_is_reached(at in 0_u64..u64::MAX / 2000, scale in 0.001_f64..=1.0) {
            let scale = Scale::new(scale);
            let at = Timestamp::from_nanos(at);
            let real = scale.real(at);
            prop_assert!(scale.law(real) >= at);
            if real.as_nanos() > 0 {
                prop_assert!(scale.law(Timestamp::from_nanos(real.as_nanos() - 1)) < at);
            }
        }
    }

    #[test]
    fn without_a_scale_nothing_changes() {
        let at = Timestamp::from_nanos(123_456_789_012_345);
        assert_eq!(Scale::default().law(at), at);
        assert_eq!(Scale::default().real(at), at);
        assert_eq!(Scale::new(f64::NAN).law(Timestamp::ZERO), Timestamp::ZERO);
        let tenth = Scale::new(0.1);
        assert_eq!(
            tenth.law_time(Duration::from_secs(1)),
            Duration::from_secs(10)
        );
    }
}
