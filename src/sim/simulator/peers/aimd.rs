//! Netflix concurrency-limits, `AIMDLimit`: <https://github.com/Netflix/concurrency-limits>. Starts at 10, one more per
//! good answer while at least half is used, ×0.9 per drop or answer over 5 s, at least 1. The library has no upper
//! bound; 200 is that of its other laws.

use super::{Answer, Ask, Kind, Law};

pub(super) struct Aimd {
    limit: u32,
}

impl Aimd {
    pub(super) const fn new() -> Self {
        Self { limit: 10 }
    }
}

impl Law for Aimd {
    fn gate(&mut self, _: f64, out: u32) -> Ask {
        if out < self.limit { Ask::Go } else { Ask::Full }
    }

    fn answer(&mut self, answer: &Answer) {
        if answer.kind != Kind::Good || answer.held > 5.0 {
            let cut = (f64::from(self.limit) * 0.9) as u32;
            self.limit = cut.min(self.limit - 1).max(1);
        } else if answer.out_when_sent * 2 >= self.limit {
            self.limit = (self.limit + 1).min(200);
        }
    }

    fn view(&self) -> (f64, Option<u32>) {
        (f64::INFINITY, Some(self.limit))
    }
}
