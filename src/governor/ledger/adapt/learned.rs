//! What is worth keeping for the next run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a lane has learned, as plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// Requests per second that the server takes.
    pub rate: f64,
    /// Requests at once that it takes; none: not limited.
    pub cap: Option<u32>,
    /// Seconds that a permit is held without load; zero: unknown.
    pub latency: f64,
    /// Length of a long window that the server counts in, in seconds; zero: none was found.
    pub horizon: f64,
    /// Whether `rate` is a limit that was met, not only the pace reached so far.
    pub met: bool,
}

/// What remains of a rate after a day.
const KEPT_PER_DAY: f64 = 0.7;
/// After so many days only the latency is still believed.
const FORGOTTEN_DAYS: f64 = 14.0;
const DAY: f64 = 86_400.0;

impl Learned {
    /// What is still to be believed after `age`.
    #[must_use]
    pub fn aged(self, age: Duration) -> Self {
        let days = age.as_secs_f64() / DAY;
        let old = days > FORGOTTEN_DAYS;
        Self {
            rate: self.rate * KEPT_PER_DAY.powf(days.min(FORGOTTEN_DAYS)),
            cap: if old { None } else { self.cap },
            horizon: if old { 0.0 } else { self.horizon },
            met: self.met && !old,
            ..self
        }
    }
}
