//! Scrapy's AutoThrottle: <https://docs.scrapy.org/en/latest/topics/autothrottle.html>. The delay between requests
//! follows answer time ÷ target concurrency, here 8 with 8 requests at once; it starts at 5 s, is at most 60 s, each gap
//! is drawn between half and one and a half of it, and an answer other than 200 never shortens it.

use fastrand::Rng;

use super::{Answer, Ask, Kind, Law};

const TARGET: f64 = 8.0;

pub(super) struct AutoThrottle {
    delay: f64,
    next: f64,
    rng: Rng,
}

impl AutoThrottle {
    pub(super) const fn new(rng: Rng) -> Self {
        Self {
            delay: 5.0,
            next: 0.0,
            rng,
        }
    }
}

impl Law for AutoThrottle {
    fn gate(&mut self, now: f64, out: u32) -> Ask {
        if f64::from(out) >= TARGET {
            Ask::Full
        } else if now < self.next {
            Ask::At(self.next)
        } else {
            Ask::Go
        }
    }

    fn sent(&mut self, now: f64, _: u32) -> u32 {
        self.next = now + self.delay * (0.5 + self.rng.f64());
        0
    }

    fn answer(&mut self, answer: &Answer) {
        let target = answer.held / TARGET;
        let next = f64::midpoint(self.delay, target).max(target).min(60.0);
        if answer.kind == Kind::Good || next > self.delay {
            self.delay = next;
        }
    }

    fn view(&self) -> (f64, Option<u32>) {
        (1.0 / self.delay, Some(TARGET as u32))
    }
}
