//! When a dead actor is started again. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use crate::model::Timestamp;

/// Deaths allowed within [`WINDOW`]; one more and the actor is given up.
const BUDGET: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
const FIRST_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// The deaths of one actor and its successors.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    deaths: VecDeque<Timestamp>,
}

impl Restarts {
    /// The actor died at `now`: how long to wait before the next is started; `None`: give up.
    pub(super) fn died(&mut self, now: Timestamp) -> Option<Duration> {
        while let Some(first) = self.deaths.front()
            && now.since(*first) > WINDOW
        {
            self.deaths.pop_front();
        }
        self.deaths.push_back(now);
        if self.deaths.len() > BUDGET {
            return None;
        }
        let doublings = u32::try_from(self.deaths.len() - 1).unwrap_or(31).min(31);
        Some((FIRST_DELAY * (1 << doublings)).min(LONGEST_DELAY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn delays_grow_and_the_sixth_death_within_a_minute_is_the_last() {
        let mut restarts = Restarts::default();
        let delays: Vec<_> = (0..6).map(|n| restarts.died(at(n))).collect();
        let millis: Vec<_> = delays.iter().map(|d| d.map(|d| d.as_millis())).collect();
        assert_eq!(
            millis,
            [Some(50), Some(100), Some(200), Some(400), Some(800), None]
        );
    }

    #[test]
    fn old_deaths_are_forgiven() {
        let mut restarts = Restarts::default();
        for n in 0..100 {
            assert_eq!(restarts.died(at(n * 61)), Some(FIRST_DELAY), "death {n}");
        }
    }
}
