//! What becomes of a task whose exchange brought no result. Pure.

use std::time::Duration;

use super::budget::RetryBudget;
use crate::model::{Outcome, TaskEnd, UnixMillis};
use crate::settings::RetrySettings;

/// A limit or a block is the lane's trouble before it is the task's: such attempts have this many times the budget.
const LANE_TROUBLE_BUDGET: u32 = 4;

/// An attempt without a result.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What it came to.
    pub outcome: Outcome,
    /// For people; no secrets.
    pub reason: String,
    /// Attempts before this one.
    pub attempts: u32,
    /// How long the server asked to wait; zero: it did not ask.
    pub asked: Duration,
    /// Whether most of the lane's latest answers failed: then this one says nothing about its task.
    pub lane_in_trouble: bool,
}

/// The delay before attempt `attempts + 1`: exponential, capped, and lengthened by up to a quarter.
/// `jitter` is a random number in [0, 1).
#[must_use]
pub fn delay(retry: &RetrySettings, attempts: u32, jitter: f64) -> Duration {
    let doubled = retry
        .base
        .checked_mul(1u32.checked_shl(attempts.min(31)).unwrap_or(u32::MAX))
        .unwrap_or(retry.max);
    let capped = doubled.min(retry.max);
    capped + capped.mul_f64(0.25 * jitter.clamp(0.0, 1.0))
}

/// How the lease of a task ends whose attempt failed.
///
/// Limits and blocks wait for their lane, which the governor pauses, and so carry no delay of their own but what the
/// server asked for. The rest waits in the frontier, and for `budget`: what finds it empty waits longer, and is not
/// failed for that. A task whose attempts are used up while its lane is in trouble is not failed either: it is parked
/// for `patience`, and then begins anew.
#[must_use]
pub fn after(
    failure: Failure,
    retry: &RetrySettings,
    budget: &mut RetryBudget,
    patience: Duration,
    now: UnixMillis,
    jitter: f64,
) -> TaskEnd {
    let Failure {
        outcome,
        reason,
        attempts,
        asked,
        lane_in_trouble,
    } = failure;
    let most = match outcome {
        Outcome::Limited | Outcome::Blocked => {
            retry.max_attempts.saturating_mul(LANE_TROUBLE_BUDGET)
        }
        Outcome::ServerError | Outcome::Timeout | Outcome::Network | Outcome::Truncated => {
            retry.max_attempts
        }
        // Asked once more: a page that was cut or a body that was withheld may be whole next time.
        Outcome::Malformed | Outcome::Withheld | Outcome::Signature => retry.max_attempts.min(2),
        Outcome::Captcha | Outcome::Login => {
            return TaskEnd::Parked {
                outcome,
                until: None,
                reason,
            };
        }
        // Our own giving up is nobody's fault and costs nothing.
        Outcome::Cancelled => return TaskEnd::Unused { due: None },
        Outcome::Gone => return TaskEnd::Done { outcome },
        Outcome::Denied => return TaskEnd::Dropped { reason },
        Outcome::ClientError | Outcome::Oversize => return TaskEnd::Failed { outcome, reason },
        Outcome::Ok | Outcome::NotModified | Outcome::Empty => return TaskEnd::Done { outcome },
    };
    if attempts.saturating_add(1) >= most {
        return match lane_in_trouble && is_lanes(outcome) {
            true => TaskEnd::Parked {
                outcome,
                until: Some(now.after(patience.max(asked))),
                reason,
            },
            false => TaskEnd::Failed { outcome, reason },
        };
    }
    let wait = match outcome {
        Outcome::Limited | Outcome::Blocked => Duration::ZERO,
        _ if is_charged(outcome) => delay(retry, attempts, jitter).max(budget.spend(now)),
        _ => delay(retry, attempts, jitter),
    };
    TaskEnd::Retry {
        due: now.after(wait.max(asked)),
        outcome,
    }
}

/// Whether it can be the lane that fails, and not the task.
const fn is_lanes(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Limited
            | Outcome::Blocked
            | Outcome::ServerError
            | Outcome::Timeout
            | Outcome::Network
            | Outcome::Truncated
    )
}

/// Whether asking again is load on a server that may be in trouble.
const fn is_charged(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::ServerError
            | Outcome::Timeout
            | Outcome::Network
            | Outcome::Truncated
            | Outcome::Malformed
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RETRY: RetrySettings = RetrySettings {
        max_attempts: 3,
        ratio: 0.2,
        base: Duration::from_secs(1),
        max: Duration::from_secs(8),
    };
    const PATIENCE: Duration = Duration::from_secs(900);

    fn failure(outcome: Outcome, attempts: u32) -> Failure {
        Failure {
            outcome,
            reason: "why".to_owned(),
            attempts,
            asked: Duration::ZERO,
            lane_in_trouble: false,
        }
    }

    fn ends(failure: Failure) -> TaskEnd {
        let now = UnixMillis(1000);
        after(
            failure,
            &RETRY,
            &mut RetryBudget::new(now, 1.0),
            PATIENCE,
            now,
            0.0,
        )
    }

    fn end(outcome: Outcome, attempts: u32) -> TaskEnd {
        ends(failure(outcome, attempts))
    }

    #[test]
    fn what_the_server_asked_for_is_a_floor() {
        let asked = Duration::from_secs(3600);
        for outcome in [Outcome::Limited, Outcome::ServerError] {
            let end = ends(Failure {
                asked,
                ..failure(outcome, 0)
            });
            let due = UnixMillis(3_601_000);
            assert_eq!(end, TaskEnd::Retry { due, outcome });
        }
    }

    #[test]
    fn a_lane_in_trouble_fails_no_task() {
        let trouble = |outcome| {
            ends(Failure {
                lane_in_trouble: true,
                ..failure(outcome, 99)
            })
        };
        for outcome in Outcome::ALL {
            match outcome {
                Outcome::ServerError
                | Outcome::Timeout
                | Outcome::Network
                | Outcome::Truncated
                | Outcome::Limited
                | Outcome::Blocked => {
                    let until = Some(UnixMillis(901_000));
                    let end = trouble(outcome);
                    assert!(
                        matches!(end, TaskEnd::Parked { until: u, .. } if u == until),
                        "{end:?}"
                    );
                }
                // What the answer says of the task itself is not excused.
                Outcome::Malformed | Outcome::ClientError | Outcome::Oversize => {
                    assert!(
                        matches!(trouble(outcome), TaskEnd::Failed { .. }),
                        "{outcome}"
                    );
                }
                _ => {}
            }
        }
    }

    #[test]
    fn an_empty_budget_puts_off_and_never_shortens_the_back_off() {
        let now = UnixMillis(0);
        let mut budget = RetryBudget::new(now, 1.0);
        let mut due = |attempts| match after(
            failure(Outcome::ServerError, attempts),
            &RETRY,
            &mut budget,
            PATIENCE,
            now,
            0.0,
        ) {
            TaskEnd::Retry { due, .. } => due.0,
            other => panic!("{other:?}"),
        };
        assert!((0..10).all(|_| due(1) == 2000));
        assert_eq!(
            (0..5).map(|_| due(1)).collect::<Vec<_>>(),
            [2000, 2000, 3000, 4000, 5000]
        );
    }

    #[test]
    fn limits_do_not_spend_the_budget() {
        let now = UnixMillis(0);
        let mut budget = RetryBudget::new(now, 1.0);
        for outcome in [Outcome::Limited, Outcome::Blocked, Outcome::Withheld] {
            let _ = after(failure(outcome, 0), &RETRY, &mut budget, PATIENCE, now, 0.0);
        }
        assert_eq!(budget, RetryBudget::new(now, 1.0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        /// However a task fails, in whatever lane: it is asked no oftener than its attempts allow, no retry comes
        /// before its back-off, and each way ends.
        #[test]
        fn attempts_are_bounded(
            outcomes in prop::collection::vec(0..Outcome::ALL.len(), 500),
            trouble in prop::collection::vec(any::<bool>(), 500),
            max_attempts in 1u32..100,
            jitter in 0.0..1.0f64,
        ) {
            let retry = RetrySettings { max_attempts, ..RETRY };
            let mut now = UnixMillis(0);
            let mut budget = RetryBudget::new(now, 1.0);
            let mut attempts = 0;
            for (outcome, lane_in_trouble) in outcomes.into_iter().zip(trouble) {
                let outcome = Outcome::ALL[outcome];
                let failure = Failure { lane_in_trouble, ..failure(outcome, attempts) };
                match after(failure, &retry, &mut budget, PATIENCE, now, jitter) {
                    TaskEnd::Retry { due, .. } => {
                        attempts += 1;
                        let lanes = matches!(outcome, Outcome::Limited | Outcome::Blocked);
                        let most = if lanes { max_attempts * LANE_TROUBLE_BUDGET } else { max_attempts };
                        prop_assert!(attempts < most);
                        if !lanes {
                            prop_assert!(due >= now.after(delay(&retry, attempts - 1, 0.0)));
                        }
                        now = due;
                    }
                    TaskEnd::Unused { .. } => {}
                    _ => return Ok(()),
                }
                prop_assert!(attempts < max_attempts * LANE_TROUBLE_BUDGET);
            }
        }
    }

    #[test]
    fn the_delay_doubles_up_to_its_maximum_and_never_overflows() {
        let seconds: Vec<_> = [0, 1, 2, 3, 4, 31, 32, u32::MAX]
            .map(|attempts| delay(&RETRY, attempts, 0.0).as_secs())
            .into();
        assert_eq!(seconds, [1, 2, 4, 8, 8, 8, 8, 8]);
        assert_eq!(delay(&RETRY, 0, 1.0), Duration::from_millis(1250));
    }

    #[test]
    fn a_server_error_is_asked_again_until_the_budget_is_used_up() {
        assert_eq!(
            end(Outcome::ServerError, 0),
            TaskEnd::Retry {
                due: UnixMillis(2000),
                outcome: Outcome::ServerError
            }
        );
        assert!(matches!(
            end(Outcome::ServerError, 1),
            TaskEnd::Retry { .. }
        ));
        assert!(matches!(
            end(Outcome::ServerError, 2),
            TaskEnd::Failed { .. }
        ));
    }

    #[test]
    fn a_limit_does_not_use_up_the_task_and_leaves_the_delay_to_the_lane() {
        assert_eq!(
            end(Outcome::Limited, 5),
            TaskEnd::Retry {
                due: UnixMillis(1000),
                outcome: Outcome::Limited
            }
        );
        assert!(matches!(end(Outcome::Limited, 11), TaskEnd::Failed { .. }));
    }

    #[test]
    fn malformed_is_asked_once_more_and_no_oftener() {
        assert!(matches!(end(Outcome::Malformed, 0), TaskEnd::Retry { .. }));
        assert!(matches!(end(Outcome::Malformed, 1), TaskEnd::Failed { .. }));
    }

    #[test]
    fn every_class_has_its_end() {
        for outcome in Outcome::ALL {
            let got = end(outcome, 0);
            match outcome {
                Outcome::Captcha | Outcome::Login => {
                    assert!(
                        matches!(got, TaskEnd::Parked { until: None, .. }),
                        "{outcome}"
                    );
                }
                Outcome::Cancelled => assert_eq!(got, TaskEnd::Unused { due: None }),
                Outcome::Gone | Outcome::Ok | Outcome::NotModified | Outcome::Empty => {
                    assert_eq!(got, TaskEnd::Done { outcome })
                }
                Outcome::Denied => assert!(matches!(got, TaskEnd::Dropped { .. })),
                Outcome::ClientError | Outcome::Oversize => {
                    assert!(matches!(got, TaskEnd::Failed { .. }));
                }
                _ => assert!(matches!(got, TaskEnd::Retry { .. }), "{outcome}"),
            }
        }
    }
}
