//! Vector's adaptive request concurrency: <https://vector.dev/blog/adaptive-request-concurrency/>. Once per mean answer
//! time: one more if the limit was reached, nothing pushed back and answers were not slower than before; ×0.9 if
//! something pushed back or answers were slower by 2.5 deviations. Starts at 1, at most 200, mean weight 0.4.

use super::{Answer, Ask, Kind, Law};

const WEIGHT: f64 = 0.4;
const DEVIATIONS: f64 = 2.5;

pub(super) struct Arc {
    limit: u32,
    past: Option<(f64, f64)>,
    next_update: f64,
    sum: f64,
    count: f64,
    pushed_back: bool,
    reached: bool,
}

impl Arc {
    pub(super) const fn new() -> Self {
        Self {
            limit: 1,
            past: None,
            next_update: 0.0,
            sum: 0.0,
            count: 0.0,
            pushed_back: false,
            reached: false,
        }
    }

    fn manage(&mut self, mean: f64, variance: f64, current: Option<f64>) {
        let slow = mean + variance.sqrt() * DEVIATIONS;
        let quick = current.is_some_and(|current| current <= mean);
        if self.limit < 200 && self.reached && !self.pushed_back && quick {
            self.limit += 1;
        } else if self.limit > 1 && (self.pushed_back || current.unwrap_or(0.0) >= slow) {
            self.limit = ((f64::from(self.limit) * 0.9) as u32).max(1);
        }
    }
}

impl Law for Arc {
    fn gate(&mut self, _: f64, out: u32) -> Ask {
        if out < self.limit { Ask::Go } else { Ask::Full }
    }

    fn sent(&mut self, _: f64, out: u32) -> u32 {
        self.reached |= out >= self.limit;
        0
    }

    fn answer(&mut self, answer: &Answer) {
        if answer.kind == Kind::Good {
            self.sum += answer.held;
            self.count += 1.0;
        } else {
            self.pushed_back = true;
        }
        let current = (self.count > 0.0).then(|| self.sum / self.count);
        let Some((mean, variance)) = self.past else {
            if let Some(current) = current {
                self.past = Some((current, 0.0));
                self.next_update = answer.now + current;
            }
            return;
        };
        if answer.now < self.next_update {
            return;
        }
        self.manage(mean, variance, current);
        let mut next = mean;
        if let Some(current) = current {
            let step = WEIGHT * (current - mean);
            next = mean + step;
            let variance = (1.0 - WEIGHT) * (variance + (current - mean) * step);
            self.past = Some((next, variance));
        }
        self.next_update = answer.now + next;
        (self.sum, self.count) = (0.0, 0.0);
        (self.pushed_back, self.reached) = (false, false);
    }

    fn view(&self) -> (f64, Option<u32>) {
        (f64::INFINITY, Some(self.limit))
    }
}
