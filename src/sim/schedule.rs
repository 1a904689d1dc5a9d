//! Limits that change while a site is crawled, as a pure value: time is an argument.

use std::time::Duration;

use super::limits::Limit;

/// The site's limits from a moment on, in place of those before. Those of classes stay.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The moment. A step is not taken before the one listed ahead of it.
    pub when: When,
    /// All must admit a request. One that is as before, at the same place, keeps what it remembers.
    pub limits: Vec<Limit>,
}

/// A moment in the life of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// So long after the site's first request, robots.txt left out.
    Time(Duration),
    /// When so many requests have been admitted, robots.txt left out.
    Admitted(u64),
}

/// The steps of a site with how far they were taken.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    steps: Vec<Step>,
    taken: usize,
    first: Option<Duration>,
    admitted: u64,
}

impl Schedule {
    /// Takes other steps, none of them taken; the same steps stay where they are.
    pub(super) fn retune(&mut self, steps: &[Step]) {
        if self.steps != steps {
            self.steps = steps.to_vec();
            self.taken = 0;
        }
    }

    /// The limits of the last step that was taken.
    pub(super) fn current(&self) -> Option<&[Limit]> {
        let last = self.taken.checked_sub(1)?;
        self.steps.get(last).map(|step| &step.limits[..])
    }

    /// A request is here: `true` when it brought a step.
    pub(super) fn asked(&mut self, now: Duration) -> bool {
        let since = now.saturating_sub(*self.first.get_or_insert(now));
        let due = |step: &&Step| match step.when {
            When::Time(at) => since >= at,
            When::Admitted(count) => self.admitted >= count,
        };
        let taken = self.steps[self.taken..].iter().take_while(due).count();
        self.taken += taken;
        taken > 0
    }

    pub(super) const fn admitted(&mut self) {
        self.admitted += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn step(when: When, max: u32) -> Step {
        let limits = vec![Limit::Concurrency { max }];
        Step { when, limits }
    }

    #[test]
    fn steps_come_in_order_and_time_begins_with_the_first_request() {
        let mut schedule = Schedule::default();
        schedule.retune(&[
            step(When::Time(MS(100)), 1),
            step(When::Admitted(2), 2),
            step(When::Time(MS(50)), 3),
        ]);
        let most = |schedule: &Schedule| schedule.current().map(<[Limit]>::to_vec);
        assert!(!schedule.asked(MS(1_000)));
        schedule.admitted();
        schedule.admitted();
        assert!(
            !schedule.asked(MS(1_099)),
            "the first step holds the others"
        );
        assert_eq!(most(&schedule), None);
        assert!(schedule.asked(MS(1_100)));
        assert_eq!(most(&schedule), Some(vec![Limit::Concurrency { max: 3 }]));
        assert!(!schedule.asked(MS(9_000)));
    }

    #[test]
    fn the_same_steps_stay_taken_and_others_begin_anew() {
        let steps = [step(When::Admitted(0), 1)];
        let mut schedule = Schedule::default();
        schedule.retune(&steps);
        assert!(schedule.asked(MS(0)));
        schedule.retune(&steps);
        assert!(schedule.current().is_some());
        schedule.retune(&[step(When::Admitted(9), 1)]);
        assert!(schedule.current().is_none());
    }
}
