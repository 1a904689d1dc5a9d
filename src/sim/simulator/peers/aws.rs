//! AWS SDKs, adaptive retry mode: <https://github.com/boto/botocore/tree/develop/botocore/retries>. A token bucket that
//! is switched on by the first throttling, with a CUBIC rate (β 0.7, scale 0.4) bounded by twice the measured rate.
//! Around it standard retries: each call that was refused sleeps `rand × 2^i`, at most 20 s. 64 workers.

use fastrand::Rng;

use super::{Answer, Ask, Kind, Law};

const WORKERS: usize = 64;
const BETA: f64 = 0.7;
const SCALE: f64 = 0.4;
const SMOOTHING: f64 = 0.8;
const LEAST: f64 = 0.5;

pub(super) struct Aws {
    enabled: bool,
    rate: f64,
    capacity: f64,
    tokens: f64,
    filled: f64,
    w_max: f64,
    k: f64,
    last_fail: f64,
    measured: f64,
    count: f64,
    last_slot: f64,
    /// Calls that sleep until then, and which attempt follows.
    sleepers: Vec<(f64, u32)>,
    attempt: u32,
    rng: Rng,
}

impl Aws {
    pub(super) const fn new(rng: Rng) -> Self {
        Self {
            enabled: false,
            rate: 1.0,
            capacity: 1.0,
            tokens: 0.0,
            filled: 0.0,
            w_max: 0.0,
            k: 0.0,
            last_fail: 0.0,
            measured: 0.0,
            count: 0.0,
            last_slot: 0.0,
            sleepers: Vec::new(),
            attempt: 0,
            rng,
        }
    }

    fn fill(&mut self, now: f64) {
        let tokens = self.tokens + (now - self.filled) * self.rate;
        self.tokens = tokens.min(self.capacity);
        self.filled = now;
    }

    fn measure(&mut self, now: f64) {
        let slot = (now * 2.0).floor() / 2.0;
        self.count += 1.0;
        if slot > self.last_slot {
            let current = self.count / (slot - self.last_slot);
            self.measured = current * SMOOTHING + self.measured * (1.0 - SMOOTHING);
            self.count = 0.0;
            self.last_slot = slot;
        }
    }
}

impl Law for Aws {
    fn gate(&mut self, now: f64, out: u32) -> Ask {
        let first = self
            .sleepers
            .iter()
            .enumerate()
            .min_by(|a, b| a.1.0.total_cmp(&b.1.0))
            .map(|(nth, sleeper)| (nth, *sleeper));
        let free = out as usize + self.sleepers.len() < WORKERS;
        let ready = first.filter(|(_, (until, _))| *until <= now);
        if ready.is_none() && !free {
            return first.map_or(Ask::Full, |(_, (until, _))| Ask::At(until));
        }
        if self.enabled {
            self.fill(now);
            if self.tokens < 1.0 {
                return Ask::At(now + (1.0 - self.tokens) / self.rate);
            }
        }
        self.attempt = ready.map_or(0, |(nth, (_, attempt))| {
            self.sleepers.swap_remove(nth);
            attempt
        });
        Ask::Go
    }

    fn sent(&mut self, _: f64, _: u32) -> u32 {
        if self.enabled {
            self.tokens -= 1.0;
        }
        self.attempt
    }

    fn answer(&mut self, answer: &Answer) {
        let now = answer.now;
        self.measure(now);
        let next = if answer.kind == Kind::Limited {
            let rate = if self.enabled {
                self.measured.min(self.rate)
            } else {
                self.measured
            };
            self.w_max = rate;
            self.k = (rate * (1.0 - BETA) / SCALE).cbrt();
            self.last_fail = now;
            self.enabled = true;
            rate * BETA
        } else {
            SCALE * (now - self.last_fail - self.k).powi(3) + self.w_max
        };
        self.fill(now);
        let rate = next.min(2.0 * self.measured);
        self.rate = rate.max(LEAST);
        self.capacity = rate.max(1.0);
        self.tokens = self.tokens.min(self.capacity);
        if answer.kind != Kind::Good {
            let most = 2_f64.powi(answer.tag.min(10) as i32);
            let sleep = (self.rng.f64() * most).min(20.0);
            self.sleepers.push((now + sleep, answer.tag + 1));
        }
    }

    fn view(&self) -> (f64, Option<u32>) {
        let pace = if self.enabled {
            self.rate
        } else {
            f64::INFINITY
        };
        (pace, Some(WORKERS as u32))
    }
}
