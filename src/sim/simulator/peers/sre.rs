//! Client-side throttling of the SRE book: <https://sre.google/sre-book/handling-overload/>. A request is rejected at the
//! client with probability (requests − K × accepts) ÷ (requests + 1) over two minutes, K = 2. 32 workers; one whose
//! request was rejected at the client asks again after 10 ms.

use std::collections::VecDeque;

use fastrand::Rng;

use super::{Answer, Ask, Kind, Law};

const WORKERS: u32 = 32;
const K: f64 = 2.0;
const SLOTS: usize = 120;

pub(super) struct Sre {
    /// Requests and accepts per second, the newest last.
    slots: VecDeque<(f64, f64)>,
    second: f64,
    requests: f64,
    accepts: f64,
    until: f64,
    rng: Rng,
}

impl Sre {
    pub(super) const fn new(rng: Rng) -> Self {
        Self {
            slots: VecDeque::new(),
            second: -1.0,
            requests: 0.0,
            accepts: 0.0,
            until: 0.0,
            rng,
        }
    }

    fn count(&mut self, now: f64, requests: f64, accepts: f64) {
        if now.floor() > self.second {
            self.second = now.floor();
            self.slots.push_back((0.0, 0.0));
            if self.slots.len() > SLOTS
                && let Some((requests, accepts)) = self.slots.pop_front()
            {
                self.requests -= requests;
                self.accepts -= accepts;
            }
        }
        if let Some(slot) = self.slots.back_mut() {
            slot.0 += requests;
            slot.1 += accepts;
        }
        self.requests += requests;
        self.accepts += accepts;
    }
}

impl Law for Sre {
    fn gate(&mut self, now: f64, out: u32) -> Ask {
        if out >= WORKERS {
            return Ask::Full;
        }
        if now < self.until {
            return Ask::At(self.until);
        }
        let reject = (self.requests - K * self.accepts) / (self.requests + 1.0);
        // The free workers are drawn for one after the other.
        for _ in out..WORKERS {
            if self.rng.f64() >= reject {
                return Ask::Go;
            }
            self.count(now, 1.0, 0.0);
        }
        self.until = now + 0.01;
        Ask::At(self.until)
    }

    fn sent(&mut self, now: f64, _: u32) -> u32 {
        self.count(now, 1.0, 0.0);
        0
    }

    fn answer(&mut self, answer: &Answer) {
        if answer.kind == Kind::Good {
            self.count(answer.now, 0.0, 1.0);
        }
    }

    fn view(&self) -> (f64, Option<u32>) {
        (f64::INFINITY, Some(WORKERS))
    }
}
