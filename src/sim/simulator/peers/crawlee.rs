//! Crawlee: <https://crawlee.dev>. The `AutoscaledPool` starts with one request at once and adds 5 %, at least one,
//! every 10 s while nine tenths are used, up to 200; the `ThrottlingRequestManager` holds a domain back for
//! `Retry-After` (at most 60 s), or for 2 s doubled by each refusal since the last good answer.

use super::{Answer, Ask, Kind, Law};

const BASE: f64 = 2.0;
const MOST: f64 = 60.0;
const INTERVAL: f64 = 10.0;

pub(super) struct Crawlee {
    desired: f64,
    next_scale: f64,
    refusals: i32,
    until: f64,
}

impl Crawlee {
    pub(super) const fn new() -> Self {
        Self {
            desired: 1.0,
            next_scale: INTERVAL,
            refusals: 0,
            until: 0.0,
        }
    }
}

impl Law for Crawlee {
    fn gate(&mut self, now: f64, out: u32) -> Ask {
        while now >= self.next_scale {
            if f64::from(out) >= (self.desired * 0.9).floor() {
                self.desired = (self.desired + (self.desired * 0.05).ceil()).min(200.0);
            }
            self.next_scale += INTERVAL;
        }
        if now < self.until {
            Ask::At(self.until)
        } else if f64::from(out) < self.desired {
            Ask::Go
        } else {
            Ask::At(self.next_scale)
        }
    }

    fn answer(&mut self, answer: &Answer) {
        match answer.kind {
            Kind::Good => self.refusals = 0,
            Kind::Limited => {
                let own = BASE * 2_f64.powi(self.refusals.min(20));
                let wait = answer.retry_after.unwrap_or(own).min(MOST);
                self.refusals += 1;
                self.until = self.until.max(answer.now + wait);
            }
            Kind::Failed => {}
        }
    }

    fn view(&self) -> (f64, Option<u32>) {
        (f64::INFINITY, Some(self.desired as u32))
    }
}
