//! How levels are measured and judged.

use std::time::Duration;

use serde::Serialize;
use thiserror::Error;

use super::Share;

/// The largest level: the largest cap that the settings take.
pub const MAX_LEVEL: u32 = 10_000;

/// The time that a level may be given, in seconds.
const SECONDS: (f64, f64) = (0.1, 3600.0);
/// Largest share of a level that may be spent on warming up.
const MAX_WARMUP: f64 = 0.9;
/// Bounds that make sense for the share of bad answers.
const ERRORS: (f64, f64) = (0.0001, 0.5);
/// Confidence that makes sense.
const CONFIDENCE: (f64, f64) = (0.5, 0.9999);
/// Requests that may be allowed in all.
const REQUESTS: (u64, u64) = (10, 10_000_000);

/// How levels are measured and judged. [`Rules::check`] says what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rules {
    /// How long a level runs, the warm-up included.
    #[serde(rename = "level_seconds", serialize_with = "seconds")]
    pub length: Duration,
    /// Share of a level that does not count: connections are opened, queues fill. 0 to 90 %.
    pub warmup: Share,
    /// Largest share of bad answers that a level may have. 0.01 % to 50 %.
    pub max_errors: Share,
    /// How sure that must be: the confidence of a two-sided interval. 50 % to 99.99 %.
    pub confidence: Share,
    /// Requests in all levels together; each level has an equal part, and ends when that is used up.
    pub max_requests: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            length: Duration::from_secs(10),
            warmup: Share::percent(20),
            max_errors: Share::percent(5),
            confidence: Share::percent(95),
            max_requests: 10_000,
        }
    }
}

fn seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// What is wrong with the rules or the levels; the text says what is allowed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RulesError {
    /// A level takes too short or too long.
    #[error("{0} s per level; allowed: {min} to {max} s", min = SECONDS.0, max = SECONDS.1)]
    Length(f64),
    /// Hardly anything would be left to count.
    #[error("a warm-up of {0}; allowed: 0 % to 90 %")]
    Warmup(Share),
    /// The bound on bad answers.
    #[error("a bound of {0} on bad answers; allowed: 0.01 % to 50 %")]
    Errors(Share),
    /// The confidence.
    #[error("a confidence of {0}; allowed: 50 % to 99.99 %")]
    Confidence(Share),
    /// The requests in all.
    #[error("{0} requests in all; allowed: {min} to {max}", min = REQUESTS.0, max = REQUESTS.1)]
    Requests(u64),
    /// No levels.
    #[error("no levels; allowed: one or more, each from 1 to {MAX_LEVEL}")]
    NoLevels,
    /// A level that no cap can be.
    #[error("level {0}; allowed: 1 to {MAX_LEVEL}")]
    Level(u32),
    /// Levels that do not rise.
    #[error("level {1} after {0}; levels rise, each is given once")]
    Order(u32, u32),
}

impl Rules {
    /// Whether the numbers make sense.
    ///
    /// # Errors
    /// The first that does not, with what is allowed.
    pub fn check(&self) -> Result<(), RulesError> {
        let length = self.length.as_secs_f64();
        if !(SECONDS.0..=SECONDS.1).contains(&length) {
            return Err(RulesError::Length(length));
        }
        if self.warmup.get() > MAX_WARMUP {
            return Err(RulesError::Warmup(self.warmup));
        }
        if !(ERRORS.0..=ERRORS.1).contains(&self.max_errors.get()) {
            return Err(RulesError::Errors(self.max_errors));
        }
        if !(CONFIDENCE.0..=CONFIDENCE.1).contains(&self.confidence.get()) {
            return Err(RulesError::Confidence(self.confidence));
        }
        if !(REQUESTS.0..=REQUESTS.1).contains(&self.max_requests) {
            return Err(RulesError::Requests(self.max_requests));
        }
        Ok(())
    }

    /// The requests that one of `levels` levels may send; at least one.
    #[must_use]
    pub fn requests_per_level(&self, levels: usize) -> u64 {
        (self.max_requests / (levels as u64).max(1)).max(1)
    }

    /// The requests and the time that end the warm-up of a level that may send `requests`, whichever comes first.
    #[must_use]
    pub fn warmup_of(&self, requests: u64) -> (u64, Duration) {
        let count = (requests as f64 * self.warmup.get()) as u64;
        (count, self.length.mul_f64(self.warmup.get()))
    }
}

/// Whether `levels` are levels: at least one, rising, each a possible cap.
///
/// # Errors
/// The first thing that is wrong, with what is allowed.
pub fn check_levels(levels: &[u32]) -> Result<(), RulesError> {
    if levels.is_empty() {
        return Err(RulesError::NoLevels);
    }
    if let Some(level) = levels
        .iter()
        .find(|level| !(1..=MAX_LEVEL).contains(*level))
    {
        return Err(RulesError::Level(*level));
    }
    match levels.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => Err(RulesError::Order(pair[0], pair[1])),
        None => Ok(()),
    }
}

/// 1, 2, 4, 8, … and at last `ceiling` itself, which is read as at least 1 and at most [`MAX_LEVEL`].
#[must_use]
pub fn ladder(ceiling: u32) -> Vec<u32> {
    let ceiling = ceiling.clamp(1, MAX_LEVEL);
    let mut levels: Vec<u32> = std::iter::successors(Some(1_u32), |level| level.checked_mul(2))
        .take_while(|level| *level < ceiling)
        .collect();
    levels.push(ceiling);
    levels
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_ladder_doubles_and_ends_at_the_ceiling() {
        assert_eq!(ladder(1), [1]);
        assert_eq!(ladder(6), [1, 2, 4, 6]);
        assert_eq!(ladder(16), [1, 2, 4, 8, 16]);
        assert_eq!(ladder(0), [1]);
    }

    proptest! {
        #[test]
        fn every_ladder_is_made_of_levels(ceiling in any::<u32>()) {
            let levels = ladder(ceiling);
            prop_assert_eq!(check_levels(&levels), Ok(()));
            prop_assert_eq!(levels.last().copied(), Some(ceiling.clamp(1, MAX_LEVEL)));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_is_allowed() {
        let rules = Rules::default();
        assert_eq!(rules.check(), Ok(()));
        let text = |rules: Rules| rules.check().unwrap_err().to_string();
        for (wrong, says) in [
            (
                Rules {
                    length: Duration::ZERO,
                    ..rules
                },
                "0 s per level; allowed: 0.1 to 3600 s",
            ),
            (
                Rules {
                    warmup: Share::percent(95),
                    ..rules
                },
                "a warm-up of 95 %; allowed: 0 % to 90 %",
            ),
            (
                Rules {
                    max_errors: Share::percent(0),
                    ..rules
                },
                "a bound of 0 % on bad answers; allowed: 0.01 % to 50 %",
            ),
            (
                Rules {
                    confidence: Share::percent(100),
                    ..rules
                },
                "a confidence of 100 %; allowed: 50 % to 99.99 %",
            ),
            (
                Rules {
                    max_requests: 0,
                    ..rules
                },
                "0 requests in all; allowed: 10 to 10000000",
            ),
        ] {
            assert_eq!(text(wrong), says);
        }
        assert_eq!(check_levels(&[]), Err(RulesError::NoLevels));
        assert_eq!(check_levels(&[1, 0]), Err(RulesError::Level(0)));
        assert_eq!(check_levels(&[10_001]), Err(RulesError::Level(10_001)));
        assert_eq!(check_levels(&[4, 2]), Err(RulesError::Order(4, 2)));
        assert_eq!(check_levels(&[2, 2]), Err(RulesError::Order(2, 2)));
        assert_eq!(check_levels(&[3]), Ok(()));
    }

    #[test]
    fn levels_share_the_requests_and_always_have_one() {
        let rules = Rules {
            max_requests: 100,
            ..Rules::default()
        };
        assert_eq!(rules.requests_per_level(4), 25);
        assert_eq!(rules.requests_per_level(1000), 1);
        assert_eq!(rules.requests_per_level(0), 100);
        assert_eq!(rules.warmup_of(25), (5, Duration::from_secs(2)));
    }
}
