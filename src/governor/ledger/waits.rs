//! How long requests waited for their permits: a histogram of fixed size, for every lane has one.

use std::time::Duration;

/// Buckets; each is wider than the one before by the same factor.
const BUCKETS: usize = 64;
/// Buckets per doubling of the wait.
const PER_DOUBLING: f64 = 2.0;
/// Upper end of the first bucket, in seconds.
const FIRST: f64 = 0.0001;

/// Waits from 0.1 ms to about four days, each known to within its bucket: a factor of √2.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    at_once: u64,
    deferred: u64,
    /// Made when the first request has to wait.
    counts: Option<Box<[u32; BUCKETS]>>,
}

impl Waits {
    /// A request was granted in the instant it asked.
    pub(crate) fn at_once(&mut self) {
        self.at_once += 1;
    }

    /// A request was granted after `wait`.
    pub(crate) fn after(&mut self, wait: Duration) {
        self.deferred += 1;
        let place = (wait.as_secs_f64() / FIRST).log2() * PER_DOUBLING;
        // Saturates at both ends; the logarithm of zero is below every bucket.
        let place = (place.ceil().max(0.0) as usize).min(BUCKETS - 1);
        let counts = self.counts.get_or_insert_with(|| Box::new([0; BUCKETS]));
        counts[place] = counts[place].saturating_add(1);
    }

    /// Requests that had to wait.
    pub(crate) fn deferred(&self) -> u64 {
        self.deferred
    }

    /// The wait that a share of all requests did not pass; zero where there was none.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let counts = self.counts.as_deref().into_iter().flatten();
        let later = counts.clone().map(|count| u64::from(*count)).sum::<u64>();
        let all = self.at_once + later;
        let rank = (share * all as f64).ceil();
        let mut below = self.at_once as f64;
        if below >= rank {
            return Duration::ZERO;
        }
        for (place, count) in counts.enumerate() {
            below += f64::from(*count);
            if below >= rank {
                return Duration::from_secs_f64(FIRST * (place as f64 / PER_DOUBLING).exp2());
            }
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_the_width_of_a_bucket() {
        let mut waits = Waits::default();
        for millis in 1..=1000_u64 {
            waits.after(Duration::from_millis(millis));
        }
        for (share, exact) in [(0.5, 0.5), (0.95, 0.95), (1.0, 1.0)] {
            let got = waits.quantile(share).as_secs_f64();
            assert!(got >= exact && got < exact * 1.42, "{share}: {got}");
        }
        assert_eq!(waits.deferred(), 1000);
    }

    #[test]
    fn those_granted_at_once_count_as_no_wait_and_extremes_saturate() {
        let mut waits = Waits::default();
        assert_eq!(waits.quantile(0.5), Duration::ZERO);
        for _ in 0..9 {
            waits.at_once();
        }
        waits.after(Duration::MAX);
        waits.after(Duration::ZERO);
        assert_eq!(waits.quantile(0.5), Duration::ZERO);
        assert!(waits.quantile(1.0) > Duration::from_secs(86_400));
    }
}
