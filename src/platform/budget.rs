//! How many retries a site may be asked for, in proportion to what is asked of it first. Pure.
//!
//! Each first request earns a share of a retry, each retry spends one. So a server in trouble sees at most
//! `1 + ratio` times the requests that it would have seen, and a few more: a reserve, and a floor, so that a small job
//! and a lone task are retried as well. A retry that finds nothing left is put off until the floor has earned it; it
//! is never refused.

use std::time::Duration;

use crate::model::UnixMillis;

/// Retries that may be made before any was earned, and the least that a budget is filled up to.
pub const RESERVE: f64 = 10.0;
/// The most retries that a long quiet time saves up: a budget for the trouble of now, not of an hour.
pub const MOST_SAVED: f64 = 100.0;
/// Retries that are earned by time alone, per second: the floor.
pub const FLOOR_PER_SECOND: f64 = 1.0;

/// The budget of one site, in `crawl` mode of one host.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryBudget {
    /// Retries that may be made at once; below zero: that many have been promised to later.
    saved: f64,
    /// Until when the floor has been counted.
    counted: UnixMillis,
    /// Retries earned per second.
    floor: f64,
}

impl RetryBudget {
    /// A budget with its reserve. `scale` is the test-only scale of time, above 0: 1 otherwise.
    #[must_use]
    pub fn new(now: UnixMillis, scale: f64) -> Self {
        Self {
            saved: RESERVE,
            counted: now,
            floor: FLOOR_PER_SECOND / scale,
        }
    }

    /// A request was sent for a task that had not been asked before: earns `ratio` of a retry.
    pub fn earn(&mut self, ratio: f64) {
        if ratio > 0.0 {
            self.saved = (self.saved + ratio).min(MOST_SAVED);
        }
    }

    /// Takes one retry out. Zero: it may be made at once, else it is earned when this has passed.
    pub fn spend(&mut self, now: UnixMillis) -> Duration {
        let passed = now.since(self.counted).as_secs_f64();
        // A clock that was set back earns nothing until it is where it was.
        self.counted = self.counted.max(now);
        // What time earns fills the reserve up and pays what was promised; it saves nothing beyond.
        if self.saved < RESERVE {
            self.saved = (self.saved + passed * self.floor).min(RESERVE);
        }
        self.saved -= 1.0;
        if self.saved >= 0.0 {
            Duration::ZERO
        } else {
            // Finite and positive; far beyond any count of tasks it saturates.
            Duration::try_from_secs_f64(-self.saved / self.floor).unwrap_or(Duration::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_lone_task_is_retried_at_once_and_a_storm_is_put_off() {
        let mut budget = RetryBudget::new(UnixMillis(0), 1.0);
        let waits: Vec<_> = (0..13).map(|_| budget.spend(UnixMillis(0))).collect();
        assert!(waits[..10].iter().all(Duration::is_zero), "{waits:?}");
        assert_eq!(
            waits[10..]
                .iter()
                .map(Duration::as_secs)
                .collect::<Vec<_>>(),
            [1, 2, 3]
        );
    }

    #[test]
    fn first_requests_earn_their_share_and_save_no_more_than_the_most() {
        let mut budget = RetryBudget::new(UnixMillis(0), 1.0);
        (0..10).for_each(|_| assert!(budget.spend(UnixMillis(0)).is_zero()));
        (0..5).for_each(|_| budget.earn(0.2));
        assert!(budget.spend(UnixMillis(0)).is_zero());
        assert!(!budget.spend(UnixMillis(0)).is_zero());
        (0..100_000).for_each(|_| budget.earn(0.2));
        let at_once = (0..1000).filter(|_| budget.spend(UnixMillis(0)).is_zero());
        assert_eq!(at_once.count(), 100);
    }

    #[test]
    fn a_clock_that_goes_back_changes_nothing() {
        let mut budget = RetryBudget::new(UnixMillis(10_000), 1.0);
        for _ in 0..11 {
            budget.spend(UnixMillis(10_000));
        }
        assert_eq!(budget.spend(UnixMillis(0)), Duration::from_secs(2));
        assert_eq!(budget.spend(UnixMillis(10_000)), Duration::from_secs(3));
    }

    #[derive(Clone, Debug)]
    enum Step {
        First,
        Fails,
        Pass(u16),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => Just(Step::First),
            4 => Just(Step::Fails),
            1 => (0..5000u16).prop_map(Step::Pass),
        ];
        prop::collection::vec(step, 0..120)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        /// Whatever happens in whatever order: the retries that were due in any span from the start are no more
        /// than the reserve, what first requests earned, and what time earned.
        #[test]
        fn retries_are_in_proportion(steps in steps(), ratio in 0.0..1.0f64) {
            let mut now = 0;
            let mut budget = RetryBudget::new(UnixMillis(0), 1.0);
            let mut firsts = Vec::new();
            let mut due = Vec::new();
            for step in steps {
                match step {
                    Step::First => {
                        budget.earn(ratio);
                        firsts.push(now);
                    }
                    Step::Fails => {
                        let wait = budget.spend(UnixMillis(now));
                        due.push(now as f64 / 1000.0 + wait.as_secs_f64());
                    }
                    Step::Pass(millis) => now += i64::from(millis),
                }
            }
            due.sort_by(f64::total_cmp);
            for (made, at) in due.iter().enumerate() {
                let earned = firsts.iter().filter(|first| **first as f64 / 1000.0 <= *at).count();
                let most = RESERVE + ratio * earned as f64 + FLOOR_PER_SECOND * at + 1e-6;
                prop_assert!((made + 1) as f64 <= most, "{} by {at}: {most}", made + 1);
            }
        }

        /// No retry waits longer than the floor takes for all that were promised before it.
        #[test]
        fn every_retry_has_its_time(steps in steps(), ratio in 0.0..1.0f64) {
            let mut now = 0;
            let mut spent = 0.0;
            let mut budget = RetryBudget::new(UnixMillis(0), 1.0);
            for step in steps {
                match step {
                    Step::First => budget.earn(ratio),
                    Step::Fails => {
                        spent += 1.0;
                        let wait = budget.spend(UnixMillis(now)).as_secs_f64();
                        prop_assert!(wait <= f64::max(0.0, spent - RESERVE) / FLOOR_PER_SECOND + 1e-6);
                    }
                    Step::Pass(millis) => now += i64::from(millis),
                }
            }
        }
    }
}
