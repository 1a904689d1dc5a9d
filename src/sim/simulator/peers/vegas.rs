//! Netflix concurrency-limits, `VegasLimit`: <https://github.com/Netflix/concurrency-limits>. The queue at the server is
//! guessed from the time of an answer and the shortest one seen; a small queue raises the limit, a large one or a drop
//! lowers it. Starts at 20, at most 1000.

use fastrand::Rng;

use super::{Answer, Ask, Kind, Law, within};

pub(super) struct Vegas {
    limit: f64,
    /// Zero: none yet.
    unloaded: f64,
    probes: f64,
    jitter: f64,
    rng: Rng,
}

impl Vegas {
    pub(super) fn new(mut rng: Rng) -> Self {
        Self {
            limit: 20.0,
            unloaded: 0.0,
            probes: 0.0,
            jitter: 0.5 + rng.f64() / 2.0,
            rng,
        }
    }

    fn next(&self, answer: &Answer) -> f64 {
        let step = self.limit.log10().floor().max(1.0);
        let queue = (self.limit * (1.0 - self.unloaded / answer.held)).ceil();
        if answer.kind != Kind::Good {
            self.limit - step
        } else if f64::from(answer.out_when_sent) * 2.0 < self.limit {
            self.limit
        } else if queue <= step {
            self.limit + 6.0 * step
        } else if queue < 3.0 * step {
            self.limit + step
        } else if queue > 6.0 * step {
            self.limit - step
        } else {
            self.limit
        }
    }
}

impl Law for Vegas {
    fn gate(&mut self, _: f64, out: u32) -> Ask {
        within(self.limit, out)
    }

    fn answer(&mut self, answer: &Answer) {
        self.probes += 1.0;
        if self.jitter * 30.0 * self.limit <= self.probes {
            self.jitter = 0.5 + self.rng.f64() / 2.0;
            self.probes = 0.0;
            self.unloaded = answer.held;
        } else if self.unloaded == 0.0 || answer.held < self.unloaded {
            self.unloaded = answer.held;
        } else {
            self.limit = self.next(answer).clamp(1.0, 1000.0);
        }
    }

    fn view(&self) -> (f64, Option<u32>) {
        (f64::INFINITY, Some(self.limit as u32))
    }
}
