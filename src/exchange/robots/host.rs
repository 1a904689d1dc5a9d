//! What is known of the robots.txt of one origin, and what follows from it at an instant. In memory for a run, on disk
//! between runs.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::read::RobotsRead;
use crate::model::UnixMillis;

/// The longest wait before an unreachable robots.txt is asked for again, where the server names none.
const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);

/// The longest wait that a server may ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(24 * 3600);

/// Times by which robots.txt is kept and asked again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RobotsTimes {
    /// Wait after the first failure; doubles with each further one, up to 5 minutes.
    pub first_wait: Duration,
    /// After so long without an answer the file counts as missing (RFC 9309 §2.3.1.4); `None`: never.
    pub unreachable_for: Option<Duration>,
    /// For tests: all times are multiplied by it, but what a server asks to wait.
    pub scale: f64,
}

/// What is known of one origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRobots {
    /// The last file that was read.
    last: Option<Last>,
    trouble: Option<Trouble>,
    /// The file's text; kept apart from the rest on disk.
    #[serde(skip)]
    file: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Last {
    at: UnixMillis,
    until: UnixMillis,
    /// There is no file.
    missing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Trouble {
    /// The first failure in a row.
    since: UnixMillis,
    /// The latest.
    at: UnixMillis,
    again: UnixMillis,
    failures: u32,
    connected: bool,
    why: String,
}

/// What follows for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// robots.txt has to be asked for first.
    Ask,
    /// These are the rules.
    Rules {
        /// The file; `None`: everything is allowed.
        file: Option<Bytes>,
        /// Until when they need not be looked at again.
        until: UnixMillis,
    },
    /// Nothing may be asked before robots.txt has been asked again.
    Wait {
        /// When that is.
        until: UnixMillis,
        /// Why it could not be read, for people.
        why: String,
        /// Whether there was a connection.
        connected: bool,
    },
}

impl HostRobots {
    /// What was stored: the description and the file.
    #[must_use]
    pub fn stored(description: &str, file: Bytes) -> Option<Self> {
        let known: Self = serde_json::from_str(description).ok()?;
        Some(Self { file, ..known })
    }

    /// What is to be stored.
    #[must_use]
    pub fn to_store(&self) -> (String, Bytes) {
        // Numbers, flags and a text: there is nothing that could not be written.
        let description = serde_json::to_string(self).unwrap_or_default();
        (description, self.file.clone())
    }

    /// What follows at `now`.
    #[must_use]
    pub fn standing(&self, now: UnixMillis, times: &RobotsTimes) -> Standing {
        // A clock that was set back makes nothing last longer: what lies ahead of it is asked anew.
        if let Some(last) = &self.last
            && (last.at..last.until).contains(&now)
        {
            return self.rules(last.until);
        }
        let Some(trouble) = &self.trouble else {
            return Standing::Ask;
        };
        if !(trouble.at..trouble.again).contains(&now) {
            return Standing::Ask;
        }
        let given_up = times
            .unreachable_for
            .is_some_and(|long| now.since(trouble.since) >= long.mul_f64(times.scale));
        match &self.last {
            _ if given_up => Standing::Rules {
                file: None,
                until: trouble.again,
            },
            // RFC 9309 §2.4: a copy may be used for longer than a day where the file is unreachable.
            Some(_) => self.rules(trouble.again),
            None => Standing::Wait {
                until: trouble.again,
                why: trouble.why.clone(),
                connected: trouble.connected,
            },
        }
    }

    fn rules(&self, until: UnixMillis) -> Standing {
        let missing = self.last.as_ref().is_some_and(|last| last.missing);
        Standing::Rules {
            file: (!missing).then(|| self.file.clone()),
            until,
        }
    }

    /// robots.txt was asked for at `now`.
    pub fn heard(&mut self, read: RobotsRead, now: UnixMillis, times: &RobotsTimes) {
        match read {
            RobotsRead::Known { file, good_for } => {
                let missing = file.is_none();
                // The least that there is, so that what was just read is of use.
                let good_for = good_for.mul_f64(times.scale).max(Duration::from_millis(1));
                self.last = Some(Last {
                    at: now,
                    until: now.after(good_for),
                    missing,
                });
                self.file = file.unwrap_or_default();
                self.trouble = None;
            }
            RobotsRead::Unreachable {
                why,
                connected,
                retry_after,
            } => {
                let earlier = self.trouble.take().filter(|earlier| earlier.since <= now);
                let failures = earlier.as_ref().map_or(0, |earlier| earlier.failures);
                let doubled = times
                    .first_wait
                    .saturating_mul(1u32.checked_shl(failures).unwrap_or(u32::MAX));
                let own = doubled.min(LONGEST_WAIT).mul_f64(times.scale);
                let asked = retry_after.unwrap_or_default().min(LONGEST_ASKED);
                let wait = own.max(asked).max(Duration::from_millis(1));
                self.trouble = Some(Trouble {
                    since: earlier.map_or(now, |earlier| earlier.since),
                    at: now,
                    again: now.after(wait),
                    failures: failures.saturating_add(1),
                    connected,
                    why,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMES: RobotsTimes = RobotsTimes {
        first_wait: Duration::from_secs(1),
        unreachable_for: Some(Duration::from_secs(30 * 86_400)),
        scale: 1.0,
    };

    fn known(text: Option<&'static str>, seconds: u64) -> RobotsRead {
        RobotsRead::Known {
            file: text.map(|text| Bytes::from_static(text.as_bytes())),
            good_for: Duration::from_secs(seconds),
        }
    }

    fn unreachable(asked: Option<u64>) -> RobotsRead {
        RobotsRead::Unreachable {
            why: "why".to_owned(),
            connected: true,
            retry_after: asked.map(Duration::from_secs),
        }
    }

    fn seconds(at: i64) -> UnixMillis {
        UnixMillis(at * 1000)
    }

    /// `ask`, `wait SECONDS`, or the rules.
    fn standing(host: &HostRobots, at: i64) -> String {
        match host.standing(seconds(at), &TIMES) {
            Standing::Ask => "ask".to_owned(),
            Standing::Rules { file: None, .. } => "all".to_owned(),
            Standing::Rules {
                file: Some(file), ..
            } => String::from_utf8(file.to_vec()).unwrap(),
            Standing::Wait { until, .. } => format!("wait {}", until.since(seconds(at)).as_secs()),
        }
    }

    #[test]
    fn a_file_is_used_until_it_expires_and_then_asked_again() {
        let mut host = HostRobots::default();
        assert_eq!(standing(&host, 100), "ask");
        host.heard(known(Some("a"), 60), seconds(100), &TIMES);
        assert_eq!(standing(&host, 100), "a");
        assert_eq!(standing(&host, 159), "a");
        assert_eq!(standing(&host, 160), "ask");
        assert_eq!(standing(&host, 99), "ask", "the clock was set back");
        host.heard(known(None, 60), seconds(160), &TIMES);
        assert_eq!(standing(&host, 170), "all");
    }

    #[test]
    fn l42_an_unreachable_file_is_asked_again_with_back_off_and_counts_as_missing_after_thirty_days()
     {
        let mut host = HostRobots::default();
        let mut at = 0;
        let mut waits = Vec::new();
        for _ in 0..12 {
            host.heard(unreachable(None), seconds(at), &TIMES);
            let Standing::Wait { until, .. } = host.standing(seconds(at), &TIMES) else {
                panic!("nothing may be fetched");
            };
            waits.push(until.since(seconds(at)).as_secs());
            at += i64::try_from(waits[waits.len() - 1]).unwrap();
            assert_eq!(standing(&host, at), "ask");
        }
        assert_eq!(waits[..], [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        let month = 30 * 86_400;
        host.heard(unreachable(None), seconds(month - 1), &TIMES);
        assert_eq!(standing(&host, month - 1), "wait 300");
        assert_eq!(standing(&host, month), "all");
        host.heard(unreachable(None), seconds(month + 300), &TIMES);
        assert_eq!(standing(&host, month + 300), "all");
        host.heard(known(Some("a"), 60), seconds(month + 700), &TIMES);
        host.heard(unreachable(None), seconds(month + 800), &TIMES);
        assert_eq!(
            standing(&host, month + 800),
            "a",
            "the trouble began anew, and there is a copy"
        );
    }

    #[test]
    fn a_copy_is_used_while_the_file_is_unreachable() {
        let mut host = HostRobots::default();
        host.heard(known(Some("a"), 60), seconds(0), &TIMES);
        host.heard(unreachable(Some(600)), seconds(60), &TIMES);
        assert_eq!(standing(&host, 61), "a");
        assert_eq!(standing(&host, 659), "a");
        assert_eq!(
            standing(&host, 660),
            "ask",
            "not before the time that the server asked for"
        );
    }

    #[test]
    fn what_is_stored_is_what_is_known() {
        let mut host = HostRobots::default();
        for read in [known(Some("a"), 60), known(None, 60), unreachable(Some(7))] {
            host.heard(read, seconds(9), &TIMES);
            let (description, file) = host.to_store();
            assert_eq!(HostRobots::stored(&description, file), Some(host.clone()));
        }
        assert_eq!(HostRobots::stored("{", Bytes::new()), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Whatever is heard and however the clock jumps: what was just heard is an answer, no file is used for
        /// longer than a day unless it is unreachable, and nothing is allowed that no file, refusal or month allowed.
        #[test]
        fn nothing_is_allowed_that_was_not_told(
            steps in prop::collection::vec((0u8..4, -100_000i64..100_000, 0u64..200_000), 1..60),
        ) {
            let mut host = HostRobots::default();
            let mut now = 10_000_000_i64;
            let mut told = false;
            let mut failing_since = None;
            for (step, jump, span) in steps {
                now += jump;
                match step {
                    0 => host.heard(known(Some("a"), span.min(86_400)), seconds(now), &TIMES),
                    1 => host.heard(known(None, span.min(86_400)), seconds(now), &TIMES),
                    2 => host.heard(unreachable(Some(span)), seconds(now), &TIMES),
                    _ => {}
                }
                match step {
                    0 | 1 => { told = true; failing_since = None; }
                    2 => { failing_since = Some(failing_since.filter(|since| *since <= now).unwrap_or(now)); }
                    _ => {}
                }
                let standing = host.standing(seconds(now), &TIMES);
                if step < 3 {
                    prop_assert_ne!(&standing, &Standing::Ask);
                }
                if let Standing::Rules { until, .. } = standing {
                    let month = failing_since.is_some_and(|since| now - since >= 30 * 86_400);
                    prop_assert!(told || month);
                    prop_assert!(until.since(seconds(now)) <= Duration::from_secs(86_400));
                }
            }
        }
    }
}
