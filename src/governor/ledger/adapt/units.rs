//! Seconds as plain numbers, in and out of instants. Everything saturates; nothing is ever NaN.

use std::time::Duration;

use crate::model::Timestamp;

/// Slowest pace, per second: one request in twenty seconds. Below it only a pause may hold the lane.
pub(super) const SLOWEST: f64 = 0.05;
/// Fastest pace, per second.
pub(super) const FASTEST: f64 = 1e6;

/// Seconds from `earlier` to `later`; zero when `earlier` is later.
pub(super) fn between(earlier: Timestamp, later: Timestamp) -> f64 {
    later.since(earlier).as_secs_f64()
}

/// A span of so many seconds; what is no number or too long is cut to the representable.
pub(super) fn span(seconds: f64) -> Duration {
    if seconds > 0.0 {
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    } else {
        Duration::ZERO
    }
}

/// A pace within the bounds of every pace; what is no number is the slowest.
pub(super) fn pace(per_second: f64) -> f64 {
    if per_second.is_nan() {
        SLOWEST
    } else {
        per_second.clamp(SLOWEST, FASTEST)
    }
}

/// Let a mean and its variance follow a sample that counts for `weight`.
pub(super) fn weigh(mean: &mut f64, variance: &mut f64, sample: f64, weight: f64) {
    let delta = sample - *mean;
    *mean += weight * delta;
    *variance = (1.0 - weight) * (*variance + weight * delta * delta);
}
