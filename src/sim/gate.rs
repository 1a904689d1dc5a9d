//! The gate of a site: all its hidden limits and its ban, as one decision.

use std::time::Duration;

use super::knobs::{Knobs, ROBOTS};
use super::limits::{BanState, Left, Limit, Limiter};
use super::schedule::Schedule;

/// What the gate says to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Admit,
    Refuse {
        /// How long until another try makes sense, as far as the limits know.
        wait: Duration,
        /// Whether a ban stood already.
        banned: bool,
        /// Whether this refusal brought a ban.
        bans: bool,
    },
}

/// Limits of the site and of each class, how the site's change, and the ban.
#[derive(Debug)]
pub(super) struct Gate {
    site: Vec<Limiter>,
    classes: Vec<Vec<Limiter>>,
    schedule: Schedule,
    ban: Option<BanState>,
}

impl Gate {
    /// `classes` has the content's classes and [`ROBOTS`] as its last.
    pub(super) fn new(knobs: &Knobs, classes: &[&str]) -> Self {
        let mut gate = Self {
            site: Vec::new(),
            classes: classes.iter().map(|_| Vec::new()).collect(),
            schedule: Schedule::default(),
            ban: None,
        };
        gate.retune(knobs, classes);
        gate
    }

    /// Takes new limits; one that is as before, at the same place, keeps what it remembers.
    pub(super) fn retune(&mut self, knobs: &Knobs, classes: &[&str]) {
        self.schedule.retune(&knobs.steps);
        let limits = self.schedule.current().unwrap_or(&knobs.limits);
        retune(&mut self.site, limits);
        for (limiters, class) in self.classes.iter_mut().zip(classes) {
            let limits = knobs.endpoints.get(*class).map(|knobs| &knobs.limits[..]);
            retune(limiters, limits.unwrap_or_default());
        }
        if self.ban.as_ref().map(BanState::ban) != knobs.ban.as_ref() {
            self.ban = knobs.ban.clone().map(BanState::new);
        }
    }

    /// What is left of the limit that has the least left for `class`; `None` without limits.
    pub(super) fn left(
        &self,
        now: Duration,
        class: usize,
        at_work_site: u32,
        at_work_class: u32,
    ) -> Option<Left> {
        let site = self
            .site
            .iter()
            .map(|limiter| limiter.left(now, at_work_site));
        let own = self.classes[class]
            .iter()
            .map(|limiter| limiter.left(now, at_work_class));
        own.chain(site).min_by_key(|left| left.remaining)
    }

    /// Decides about a request of `class`; the numbers at work are those admitted and not ended.
    pub(super) fn ask(
        &mut self,
        now: Duration,
        class: usize,
        at_work_site: u32,
        at_work_class: u32,
    ) -> Decision {
        // robots.txt is the last class and stands outside the site's limits and bans.
        let exempt = class + 1 == self.classes.len();
        if !exempt && self.schedule.asked(now) {
            retune(&mut self.site, self.schedule.current().unwrap_or_default());
        }
        let ban = self.ban.as_mut().filter(|_| !exempt);
        if let Some(wait) = ban.as_ref().and_then(|ban| ban.left(now)) {
            return Decision::Refuse {
                wait,
                banned: true,
                bans: false,
            };
        }
        let site = if exempt { &mut [] } else { &mut self.site[..] };
        let own = &mut self.classes[class];
        let wait = site
            .iter()
            .filter_map(|limiter| limiter.wait(now, at_work_site))
            .chain(
                own.iter()
                    .filter_map(|limiter| limiter.wait(now, at_work_class)),
            )
            .max();
        let all = site.iter_mut().chain(own);
        let Some(wait) = wait else {
            all.for_each(|limiter| limiter.admitted(now));
            if !exempt {
                self.schedule.admitted();
            }
            return Decision::Admit;
        };
        all.for_each(|limiter| limiter.refused(now));
        let bans = ban.is_some_and(|ban| ban.refused(now));
        Decision::Refuse {
            wait,
            banned: false,
            bans,
        }
    }
}

/// The names of a site's classes with [`ROBOTS`] as the last.
pub(super) fn with_robots(classes: &[&'static str]) -> Vec<&'static str> {
    classes.iter().copied().chain([ROBOTS]).collect()
}

fn retune(limiters: &mut Vec<Limiter>, limits: &[Limit]) {
    limiters.truncate(limits.len());
    for (nth, limit) in limits.iter().enumerate() {
        match limiters.get_mut(nth) {
            Some(limiter) if limiter.limit() == limit => {}
            Some(limiter) => *limiter = Limiter::new(limit.clone()),
            None => limiters.push(Limiter::new(limit.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::knobs::EndpointKnobs;
    use crate::sim::limits::Ban;
    use crate::sim::schedule::{Step, When};

    const CLASSES: [&str; 3] = ["list", "item", ROBOTS];
    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn fixed(max: u32) -> Limit {
        Limit::Fixed {
            max,
            window: MS(1_000),
            phase: Duration::ZERO,
        }
    }

    fn refused(decision: Decision) -> bool {
        decision != Decision::Admit
    }

    #[test]
    fn site_and_class_must_both_admit_and_robots_is_exempt() {
        let mut knobs = Knobs {
            limits: vec![fixed(3)],
            ..Knobs::default()
        };
        let own = EndpointKnobs {
            limits: vec![fixed(1)],
            ..EndpointKnobs::default()
        };
        knobs.endpoints.insert("list".to_owned(), own);
        let mut gate = Gate::new(&knobs, &CLASSES);
        assert!(!refused(gate.ask(MS(0), 0, 0, 0)));
        assert!(refused(gate.ask(MS(0), 0, 0, 0)), "the class is used up");
        assert!(!refused(gate.ask(MS(0), 1, 0, 0)));
        assert!(
            !refused(gate.ask(MS(0), 1, 0, 0)),
            "what the class refused did not use the site up"
        );
        assert!(refused(gate.ask(MS(0), 1, 0, 0)), "the site is used up");
        assert!(!refused(gate.ask(MS(0), 2, 9, 9)));
    }

    #[test]
    fn a_limit_that_stays_keeps_its_memory() {
        let knobs = |max| Knobs {
            limits: vec![fixed(max)],
            ..Knobs::default()
        };
        let mut gate = Gate::new(&knobs(1), &CLASSES);
        assert!(!refused(gate.ask(MS(0), 0, 0, 0)));
        gate.retune(&knobs(1), &CLASSES);
        assert!(refused(gate.ask(MS(0), 0, 0, 0)));
        gate.retune(&knobs(2), &CLASSES);
        assert!(!refused(gate.ask(MS(0), 0, 0, 0)));
        gate.retune(&Knobs::default(), &CLASSES);
        assert!((0..9).all(|_| !refused(gate.ask(MS(0), 0, 0, 0))));
    }

    #[test]
    fn limits_change_with_the_requests_that_were_admitted() {
        let steps = vec![Step {
            when: When::Admitted(2),
            limits: Vec::new(),
        }];
        let knobs = Knobs {
            limits: vec![fixed(2)],
            steps,
            ..Knobs::default()
        };
        let mut gate = Gate::new(&knobs, &CLASSES);
        assert!(
            (0..9).all(|_| !refused(gate.ask(MS(0), 2, 0, 0))),
            "robots.txt"
        );
        assert!((0..9).all(|_| !refused(gate.ask(MS(0), 0, 0, 0))));
        gate.retune(&knobs, &CLASSES);
        assert!(!refused(gate.ask(MS(0), 0, 0, 0)), "the step stays taken");
        let knobs = Knobs {
            limits: vec![fixed(2)],
            ..Knobs::default()
        };
        gate.retune(&knobs, &CLASSES);
        assert!((0..3).any(|_| refused(gate.ask(MS(0), 0, 0, 0))));
    }

    #[test]
    fn a_ban_refuses_what_the_limits_would_admit() {
        let ban = Ban {
            refusals: 2,
            within: MS(500),
            lasts: MS(5_000),
        };
        let knobs = Knobs {
            limits: vec![fixed(1)],
            ban: Some(ban),
            ..Knobs::default()
        };
        let mut gate = Gate::new(&knobs, &CLASSES);
        let bans = |decision| matches!(decision, Decision::Refuse { bans: true, .. });
        gate.ask(MS(0), 0, 0, 0);
        assert!(!bans(gate.ask(MS(1), 0, 0, 0)));
        assert!(bans(gate.ask(MS(2), 0, 0, 0)));
        let wait = MS(3_002);
        let (banned, bans) = (true, false);
        assert_eq!(
            gate.ask(MS(2_000), 0, 0, 0),
            Decision::Refuse { wait, banned, bans }
        );
        assert!(!refused(gate.ask(MS(2_000), 2, 0, 0)), "robots.txt");
        assert!(!refused(gate.ask(MS(5_002), 0, 0, 0)));
    }
}
