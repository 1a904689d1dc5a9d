//! What is known of host names, and for how long. Pure.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::model::Timestamp;

/// Addresses of a host, or why there are none.
pub(super) type Resolved = Result<Arc<[IpAddr]>, Arc<str>>;

/// The longest that a failure is remembered, as a multiple of the first time: 1 min doubles to 15.
const MOST_DOUBLED: u32 = 15;

/// Names remembered before those that are out of date are dropped.
const MOST_NAMES: usize = 10_000;

/// How long answers hold.
#[derive(Clone, Copy, Debug)]
pub(in crate::exchange) struct Lifetimes {
    /// Of addresses. The system's resolver tells no time of its own.
    pub(in crate::exchange) found: Duration,
    /// Of a first failure; each further one in a row doubles it, up to 15 times.
    pub(in crate::exchange) failed: Duration,
}

/// Answers of the resolver.
#[derive(Debug)]
pub(super) struct NameCache {
    names: HashMap<Arc<str>, Known>,
    lifetimes: Lifetimes,
}

#[derive(Debug)]
struct Known {
    answer: Resolved,
    until: Timestamp,
    /// How long the latest failure is remembered; zero after a success.
    failed_for: Duration,
}

impl NameCache {
    pub(super) fn new(lifetimes: Lifetimes) -> Self {
        Self {
            names: HashMap::new(),
            lifetimes,
        }
    }

    /// What is known of `host` and still holds.
    pub(super) fn look(&self, now: Timestamp, host: &str) -> Option<Resolved> {
        let known = self.names.get(host)?;
        (now < known.until).then(|| known.answer.clone())
    }

    /// The resolver has answered.
    pub(super) fn learn(&mut self, now: Timestamp, host: &Arc<str>, answer: Resolved) {
        let failed_before = self.names.get(host).map(|known| known.failed_for);
        let failed_for = match &answer {
            Ok(_) => Duration::ZERO,
            Err(_) => match failed_before {
                Some(before) if !before.is_zero() => {
                    (before * 2).min(self.lifetimes.failed * MOST_DOUBLED)
                }
                _ => self.lifetimes.failed,
            },
        };
        let holds = match &answer {
            Ok(_) => self.lifetimes.found,
            Err(_) => failed_for,
        };
        if self.names.len() >= MOST_NAMES && !self.names.contains_key(host) {
            self.names.retain(|_, known| now < known.until);
            if self.names.len() >= MOST_NAMES {
                self.names.clear();
            }
        }
        let known = Known {
            answer,
            until: now + holds,
            failed_for,
        };
        self.names.insert(Arc::clone(host), known);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIFETIMES: Lifetimes = Lifetimes {
        found: Duration::from_secs(60),
        failed: Duration::from_secs(60),
    };

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    fn found() -> Resolved {
        Ok(Arc::new([IpAddr::from([1, 1, 1, 1])]))
    }

    fn failed() -> Resolved {
        Err("no such name".into())
    }

    #[test]
    fn an_answer_holds_for_its_time() {
        let mut cache = NameCache::new(LIFETIMES);
        let host: Arc<str> = "a.example".into();
        assert_eq!(cache.look(at(0), &host), None);
        cache.learn(at(0), &host, found());
        assert_eq!(cache.look(at(59), &host), Some(found()));
        assert_eq!(cache.look(at(60), &host), None);
    }

    #[test]
    fn l54_a_failure_is_remembered_for_a_minute_then_longer_up_to_fifteen() {
        let mut cache = NameCache::new(LIFETIMES);
        let host: Arc<str> = "a.example".into();
        let mut now = 0;
        for minutes in [1, 2, 4, 8, 15, 15] {
            cache.learn(at(now), &host, failed());
            assert_eq!(
                cache.look(at(now + 60 * minutes - 1), &host),
                Some(failed())
            );
            now += 60 * minutes;
            assert_eq!(cache.look(at(now), &host), None, "{minutes}");
        }
        // A success forgets them.
        cache.learn(at(now), &host, found());
        cache.learn(at(now + 60), &host, failed());
        assert_eq!(cache.look(at(now + 120), &host), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut cache = NameCache::new(LIFETIMES);
        for number in 0..MOST_NAMES + 10 {
            cache.learn(at(0), &format!("{number}.example").into(), found());
        }
        assert!(cache.names.len() <= MOST_NAMES);
    }

    proptest! {
        /// Whatever comes: nothing holds longer than its time, and a failure never longer than fifteen minutes.
        #[test]
        fn nothing_outlives_its_time(steps in prop::collection::vec((0u64..2000, any::<bool>()), 1..40)) {
            let mut cache = NameCache::new(LIFETIMES);
            let host: Arc<str> = "a.example".into();
            let mut now = 0;
            for (wait, good) in steps {
                now += wait;
                cache.learn(at(now), &host, if good { found() } else { failed() });
                let longest = if good { 60 } else { 900 };
                prop_assert_eq!(cache.look(at(now + longest), &host), None);
                prop_assert!(cache.look(at(now), &host).is_some());
            }
        }
    }
}
