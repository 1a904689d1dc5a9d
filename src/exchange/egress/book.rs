//! What is kept of one egress: how many use it, how soon the next may, and whether it works. Pure.

use std::sync::Arc;
use std::time::Duration;

use crate::model::{Timestamp, UnixMillis};

/// Failures in a row after which an egress is left alone.
const MOST_FAILURES: u32 = 3;
/// How long it is left alone before one exchange probes it; each failed probe doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
/// As long as it gets.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// As many different hosts are out of reach through one egress only when it is the egress.
const MANY_HOSTS: usize = 3;

/// What limits an egress.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Limits {
    /// Exchanges at one time.
    pub(super) cap: Option<u32>,
    /// Time from one exchange to the next.
    pub(super) interval: Option<Duration>,
    /// From then on it is not used.
    pub(super) expires: Option<UnixMillis>,
}

/// The two clocks: one that only goes on, and the wall's, which an expiry is told by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) steady: Timestamp,
    pub(super) wall: UnixMillis,
}

/// How an egress stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It may be used now.
    Ready,
    /// It may be used when a time has come, or (`None`) when an exchange of it has ended.
    Busy(Option<Timestamp>),
    /// It does not work; it is probed then.
    Down(Timestamp),
    /// Its time is over.
    Expired,
}

/// What is known of other egresses while one reaches nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Others {
    /// None has brought anything.
    Silent,
    /// One works.
    Work,
    /// One has reached what this one did not.
    Reach,
}

/// The book of one egress.
#[derive(Clone, Debug)]
pub(super) struct Book {
    limits: Limits,
    in_flight: u32,
    /// The pace lets nobody out before.
    next: Timestamp,
    /// Failures since the last success.
    failures: u32,
    /// It is left alone until then, and then probed by one.
    down_until: Option<Timestamp>,
    probing: bool,
    pause: Duration,
    /// Hosts that it did not reach since its last success.
    unreached: Vec<Arc<str>>,
    /// Another egress has worked since the first of them; and has reached one of them.
    others: Others,
    /// Scales the pauses; for tests.
    scale: f64,
}

impl Book {
    pub(super) fn new(limits: Limits, scale: f64) -> Self {
        Self {
            limits,
            in_flight: 0,
            next: Timestamp::ZERO,
            failures: 0,
            down_until: None,
            probing: false,
            pause: FIRST_PAUSE,
            unreached: Vec::new(),
            others: Others::Silent,
            scale,
        }
    }

    pub(super) fn standing(&self, now: Now) -> Standing {
        if self.limits.expires.is_some_and(|end| now.wall >= end) {
            return Standing::Expired;
        }
        if let Some(until) = self.down_until {
            if now.steady < until {
                return Standing::Down(until);
            }
            if self.probing {
                return Standing::Busy(None);
            }
        }
        if self.limits.cap.is_some_and(|cap| self.in_flight >= cap) {
            return Standing::Busy(None);
        }
        if now.steady < self.next {
            return Standing::Busy(Some(self.next));
        }
        Standing::Ready
    }

    /// One exchange more, if it may be now.
    pub(super) fn take(&mut self, now: Now) -> bool {
        if self.standing(now) != Standing::Ready {
            return false;
        }
        self.in_flight += 1;
        self.probing = self.down_until.is_some();
        if let Some(interval) = self.limits.interval {
            // Nothing is saved up while nobody asks: evenly, with no burst.
            self.next = now.steady + interval;
        }
        true
    }

    /// An exchange has ended, or was never made.
    pub(super) fn give_back(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.probing = false;
    }

    /// It says that it cannot reach `host`. Whether that is put down to the egress itself.
    pub(super) fn unreached(&mut self, host: &Arc<str>) -> bool {
        if self.unreached.len() < MANY_HOSTS && !self.unreached.contains(host) {
            self.unreached.push(Arc::clone(host));
        }
        match self.others {
            Others::Silent => false,
            Others::Work => self.unreached.len() >= MANY_HOSTS,
            Others::Reach => true,
        }
    }

    /// Another egress has reached `host`.
    pub(super) fn another_reached(&mut self, host: &str) {
        if self.unreached.is_empty() {
            return;
        }
        let same = self.unreached.iter().any(|unreached| **unreached == *host);
        let others = if same { Others::Reach } else { Others::Work };
        self.others = self.others.max(others);
    }

    /// Whether a connection that breaks is rather put down to it than to the server: it has failed since its last
    /// success.
    pub(super) const fn is_doubtful(&self) -> bool {
        self.failures > 0 || self.down_until.is_some()
    }

    /// It brought an answer, or word of the target.
    pub(super) fn worked(&mut self) {
        self.unreached.clear();
        self.others = Others::Silent;
        self.failures = 0;
        self.down_until = None;
        self.pause = FIRST_PAUSE;
    }

    /// It failed. How long it is left alone, where this failure is what decides it.
    pub(super) fn failed(&mut self, now: Timestamp) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        match self.down_until {
            // Those that had begun before it was given up.
            Some(until) if now < until => None,
            // A probe.
            Some(_) => {
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                Some(self.leave_alone(now))
            }
            None => (self.failures >= MOST_FAILURES).then(|| self.leave_alone(now)),
        }
    }

    fn leave_alone(&mut self, now: Timestamp) -> Duration {
        let pause = self.pause.mul_f64(self.scale);
        self.down_until = Some(now + pause);
        pause
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Now {
        Now {
            steady: Timestamp::ZERO + Duration::from_millis(millis),
            wall: UnixMillis(i64::try_from(millis).unwrap()),
        }
    }

    #[test]
    fn three_failures_in_a_row_take_it_out_and_a_probe_brings_it_back() {
        let mut book = Book::new(Limits::default(), 1.0);
        assert_eq!(book.failed(at(0).steady), None);
        assert_eq!(book.failed(at(0).steady), None);
        book.worked();
        assert_eq!(book.failed(at(0).steady), None);
        assert_eq!(book.failed(at(0).steady), None);
        assert_eq!(book.failed(at(0).steady), Some(FIRST_PAUSE));
        assert_eq!(book.standing(at(29_999)), Standing::Down(at(30_000).steady));
        // One probe at a time.
        assert!(book.take(at(30_000)));
        assert_eq!(book.standing(at(30_000)), Standing::Busy(None));
        book.give_back();
        assert_eq!(book.failed(at(30_000).steady), Some(FIRST_PAUSE * 2));
        assert!(!book.take(at(89_999)));
        assert!(book.take(at(90_000)));
        book.give_back();
        book.worked();
        assert_eq!(book.standing(at(90_000)), Standing::Ready);
    }

    #[test]
    fn what_one_egress_does_not_reach_is_put_down_to_it_when_another_does() {
        let host: Arc<str> = "a.example".into();
        let mut book = Book::new(Limits::default(), 1.0);
        assert!(!book.unreached(&host));
        assert!(!book.unreached(&host));
        book.another_reached("b.example");
        assert!(!book.unreached(&host), "one host can be down");
        book.another_reached(&host);
        assert!(book.unreached(&host));
        book.worked();
        assert!(!book.unreached(&host));
    }

    #[test]
    fn many_hosts_out_of_reach_are_put_down_to_an_egress_when_others_work() {
        let hosts: Vec<Arc<str>> = (0..4).map(|n| format!("{n}.example").into()).collect();
        let mut book = Book::new(Limits::default(), 1.0);
        assert!(
            !hosts.iter().any(|host| book.unreached(host)),
            "the net is down"
        );
        let mut book = Book::new(Limits::default(), 1.0);
        assert!(!book.unreached(&hosts[0]));
        book.another_reached("other.example");
        assert!(!book.unreached(&hosts[1]));
        assert!(book.unreached(&hosts[2]));
    }

    #[test]
    fn an_egress_is_in_doubt_from_its_failure_to_its_next_success() {
        let mut book = Book::new(Limits::default(), 1.0);
        assert!(!book.is_doubtful());
        book.failed(at(0).steady);
        assert!(book.is_doubtful());
        book.worked();
        assert!(!book.is_doubtful());
    }

    #[test]
    fn an_expiry_ends_its_use() {
        let limits = Limits {
            expires: Some(UnixMillis(1000)),
            ..Limits::default()
        };
        let mut book = Book::new(limits, 1.0);
        assert!(book.take(at(999)));
        assert!(!book.take(at(1000)));
        assert_eq!(book.standing(at(1000)), Standing::Expired);
    }

    proptest! {
        /// Never more at once than the cap, and never two closer than the interval.
        #[test]
        fn cap_and_pace_hold(
            cap in 1u32..5,
            interval in 1u64..1000,
            steps in prop::collection::vec((0u64..400, 0u8..4), 1..200),
        ) {
            let limits = Limits { cap: Some(cap), interval: Some(Duration::from_millis(interval)), expires: None };
            let mut book = Book::new(limits, 1.0);
            let (mut now, mut out, mut last) = (0, 0u32, None);
            for (wait, what) in steps {
                now += wait;
                match what {
                    0 | 1 => if book.take(at(now)) {
                        out += 1;
                        prop_assert!(out <= cap);
                        prop_assert!(last.is_none_or(|last| now - last >= interval));
                        last = Some(now);
                    },
                    2 => if out > 0 { out -= 1; book.give_back(); },
                    _ => { book.failed(at(now).steady); }
                }
            }
            // However it went, it can be used again some day.
            (0..out).for_each(|_| book.give_back());
            prop_assert!(book.take(at(now + 600_000)));
        }
    }
}
