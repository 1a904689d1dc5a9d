//! 16 workers, each with exponential back-off and full jitter of its own:
//! <https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/>. `Retry-After` is a floor.

use fastrand::Rng;

use super::{Answer, Ask, Kind, Law};

const WORKERS: usize = 16;
const BASE: f64 = 1.0;
const MOST: f64 = 20.0;

/// A worker that sleeps, and which attempt follows.
#[derive(Clone, Copy)]
struct Sleeper {
    until: f64,
    attempt: u32,
}

pub(super) struct Jitter {
    sleepers: Vec<Sleeper>,
    /// Of the worker that the gate has just let through.
    attempt: u32,
    rng: Rng,
}

impl Jitter {
    pub(super) const fn new(rng: Rng) -> Self {
        Self {
            sleepers: Vec::new(),
            attempt: 0,
            rng,
        }
    }
}

impl Law for Jitter {
    fn gate(&mut self, now: f64, out: u32) -> Ask {
        let first = self
            .sleepers
            .iter()
            .enumerate()
            .min_by(|a, b| a.1.until.total_cmp(&b.1.until));
        match first {
            Some((nth, sleeper)) if sleeper.until <= now => {
                self.attempt = sleeper.attempt;
                self.sleepers.swap_remove(nth);
                Ask::Go
            }
            _ if out as usize + self.sleepers.len() < WORKERS => {
                self.attempt = 0;
                Ask::Go
            }
            Some((_, sleeper)) => Ask::At(sleeper.until),
            None => Ask::Full,
        }
    }

    fn sent(&mut self, _: f64, _: u32) -> u32 {
        self.attempt
    }

    fn answer(&mut self, answer: &Answer) {
        if answer.kind == Kind::Good {
            return;
        }
        let most = (BASE * 2_f64.powi(answer.tag.min(30) as i32)).min(MOST);
        let sleep = self.rng.f64() * most;
        self.sleepers.push(Sleeper {
            until: answer.now + sleep.max(answer.retry_after.unwrap_or(0.0)),
            attempt: answer.tag + 1,
        });
    }

    fn view(&self) -> (f64, Option<u32>) {
        let awake = WORKERS - self.sleepers.len().min(WORKERS);
        (f64::INFINITY, Some(awake as u32))
    }
}
