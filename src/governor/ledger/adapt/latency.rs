//! How long a permit is held, of successes only: the mean, its spread, and the baseline without load.

use super::units::weigh;
use std::time::Duration;

/// Weight of a new sample in the mean.
const WEIGHT: f64 = 0.05;
/// The mean starts as a plain average until so many samples are in.
const FIRST: f64 = 20.0;

/// Latency of one lane, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latency {
    samples: f64,
    mean: f64,
    variance: f64,
    baseline: f64,
}

impl Latency {
    /// A lane whose unloaded latency is known from an earlier run.
    pub(super) fn known(seconds: f64) -> Self {
        Self {
            samples: 1.0,
            mean: seconds,
            variance: 0.0,
            baseline: seconds,
        }
    }

    pub(super) fn sample(&mut self, held: Duration) {
        let seconds = held.as_secs_f64();
        self.samples = (self.samples + 1.0).min(FIRST);
        let weight = WEIGHT.max(1.0 / self.samples);
        weigh(&mut self.mean, &mut self.variance, seconds, weight);
        if self.baseline == 0.0 {
            self.baseline = seconds;
        }
    }

    /// Move the baseline by `share` of the way to the mean. Called only while the load is known to be low:
    /// a baseline that follows the queue it should detect is worthless, and the least value ever seen is
    /// permanently too low for a server whose service time varies.
    pub(super) fn rebase(&mut self, share: f64) {
        self.baseline += share * (self.mean - self.baseline);
    }

    /// Only downwards.
    pub(super) fn rebase_down(&mut self, share: f64) {
        if self.mean < self.baseline {
            self.rebase(share);
        }
    }

    /// Whether there are enough samples to speak of a queue.
    pub(super) fn is_settled(self) -> bool {
        self.samples >= FIRST
    }

    pub(super) fn is_known(self) -> bool {
        self.samples > 0.0
    }

    /// Mean in seconds; zero before the first sample.
    pub(super) fn mean(self) -> f64 {
        self.mean
    }

    pub(super) fn deviation(self) -> f64 {
        self.variance.max(0.0).sqrt()
    }

    /// Mean without load, in seconds; zero before the first sample.
    pub(super) fn baseline(self) -> f64 {
        self.baseline
    }
}
