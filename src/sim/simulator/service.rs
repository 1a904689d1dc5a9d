//! How long an origin works on a request.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use fastrand::Rng;

use crate::model::Timestamp;

/// A time: a fixed part and an exponential one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draw {
    /// Always.
    pub fixed: Duration,
    /// Mean of the exponential part.
    pub random: Duration,
}

impl Draw {
    /// From milliseconds.
    #[must_use]
    pub const fn ms(fixed: u64, random: u64) -> Self {
        Self {
            fixed: Duration::from_millis(fixed),
            random: Duration::from_millis(random),
        }
    }

    fn pick(self, rng: &mut Rng) -> Duration {
        // 1 - f64() is never zero, so the logarithm is finite.
        self.fixed + self.random.mul_f64(-(1.0 - rng.f64()).ln())
    }

    fn mean(self) -> f64 {
        self.fixed.as_secs_f64() + self.random.as_secs_f64()
    }
}

/// The work that a request makes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// The usual time.
    pub time: Draw,
    /// A share (0 to 1) of the requests takes another time.
    pub other: Option<(f64, Draw)>,
    /// Requests worked on at once; the others queue, in order. `None`: all.
    pub workers: Option<u32>,
}

impl Default for Service {
    fn default() -> Self {
        Self {
            time: Draw::ms(80, 20),
            other: None,
            workers: None,
        }
    }
}

impl Service {
    /// Mean seconds without a queue.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self.other {
            Some((share, other)) => share * other.mean() + (1.0 - share) * self.time.mean(),
            None => self.time.mean(),
        }
    }

    pub(super) fn pick(&self, rng: &mut Rng) -> Duration {
        match self.other {
            Some((share, other)) if rng.f64() < share => other.pick(rng),
            _ => self.time.pick(rng),
        }
    }
}

/// When each worker is free again.
#[derive(Debug, Default)]
pub(super) struct Workers(BinaryHeap<Reverse<Timestamp>>);

impl Workers {
    pub(super) fn new(workers: Option<u32>) -> Self {
        let free = workers.unwrap_or(0);
        Self((0..free).map(|_| Reverse(Timestamp::ZERO)).collect())
    }

    /// When work that arrives at `now` and takes `work` is done. Work is taken in the order of arrival.
    pub(super) fn done(&mut self, now: Timestamp, work: Duration) -> Timestamp {
        let Some(Reverse(free)) = self.0.pop() else {
            return now + work;
        };
        let done = free.max(now) + work;
        self.0.push(Reverse(done));
        done
    }
}
