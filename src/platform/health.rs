//! Whether what fails is the lane or the task. Pure.

use crate::model::Outcome;

/// Answers that are looked at: the latest ones.
const WINDOW: u32 = 20;
/// So many of them must have failed before it is called the lane's trouble: fewer may be bad luck of their tasks.
const LEAST_FAILURES: u32 = 5;

/// The latest answers of one lane, as one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The newest is the lowest bit; one: it failed.
    recent: u32,
    known: u32,
}

impl Health {
    /// An exchange came to `outcome`.
    pub fn note(&mut self, outcome: Outcome) {
        let failed = match outcome {
            Outcome::Limited
            | Outcome::Blocked
            | Outcome::ServerError
            | Outcome::Timeout
            | Outcome::Network
            | Outcome::Truncated => true,
            // Nothing came back, by our own doing.
            Outcome::Cancelled | Outcome::Denied => return,
            _ => false,
        };
        self.recent = (self.recent << 1 | u32::from(failed)) & ((1 << WINDOW) - 1);
        self.known = (self.known + 1).min(WINDOW);
    }

    /// Whether most of the latest answers failed: then a task that fails shows nothing about itself.
    #[must_use]
    pub const fn in_trouble(self) -> bool {
        let failures = self.recent.count_ones();
        failures >= LEAST_FAILURES && failures * 2 > self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(outcomes: impl IntoIterator<Item = Outcome>) -> bool {
        let mut health = Health::default();
        outcomes
            .into_iter()
            .for_each(|outcome| health.note(outcome));
        health.in_trouble()
    }

    #[test]
    fn a_lane_is_in_trouble_when_most_of_its_answers_failed_and_not_before() {
        let (good, bad) = (Outcome::Ok, Outcome::ServerError);
        assert!(!after([]));
        assert!(!after([bad; 4]), "too few to tell");
        assert!(after([bad; 5]));
        assert!(!after(
            [[good; 15], [bad; 15]].concat()[..20].iter().copied()
        ));
        assert!(after([[good; 15], [bad; 15]].concat()));
        assert!(!after([bad, good].repeat(20)), "half of them");
        assert!(!after([[bad; 20], [good; 20]].concat()), "it works again");
        assert!(!after(
            [[Outcome::Gone; 20], [Outcome::Cancelled; 20]].concat()
        ));
    }
}
