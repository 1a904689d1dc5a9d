//! Netflix concurrency-limits, `Gradient2Limit`: <https://github.com/Netflix/concurrency-limits>. The limit follows the
//! ratio of a long mean of answer times, times 1.5, to the last one, plus room for a queue of 4. Drops count as answers like any
//! other. Starts at 20, between 20 and 200.

use super::{Answer, Ask, Law, within};

const SMOOTHING: f64 = 0.2;
const QUEUE: f64 = 4.0;
const LONG_WINDOW: f64 = 600.0;
const WARM_UP: f64 = 10.0;
const TOLERANCE: f64 = 1.5;

pub(super) struct Gradient2 {
    limit: f64,
    long: f64,
    sum: f64,
    samples: f64,
}

impl Gradient2 {
    pub(super) const fn new() -> Self {
        Self {
            limit: 20.0,
            long: 0.0,
            sum: 0.0,
            samples: 0.0,
        }
    }
}

impl Law for Gradient2 {
    fn gate(&mut self, _: f64, out: u32) -> Ask {
        within(self.limit, out)
    }

    fn answer(&mut self, answer: &Answer) {
        let short = answer.held;
        if self.samples < WARM_UP {
            self.samples += 1.0;
            self.sum += short;
            self.long = self.sum / self.samples;
        } else {
            let factor = 2.0 / (LONG_WINDOW + 1.0);
            self.long = self.long * (1.0 - factor) + short * factor;
        }
        let long = self.long;
        if long / short > 2.0 {
            self.long *= 0.95;
        }
        if f64::from(answer.out_when_sent) < self.limit / 2.0 {
            return;
        }
        let gradient = (TOLERANCE * long / short).clamp(0.5, 1.0);
        let next = self.limit * gradient + QUEUE;
        self.limit = (self.limit * (1.0 - SMOOTHING) + next * SMOOTHING).clamp(20.0, 200.0);
    }

    fn view(&self) -> (f64, Option<u32>) {
        (f64::INFINITY, Some(self.limit as u32))
    }
}
