//! What becomes of a task whose exchange brought no result. Pure.

use std::time::Duration;

use crate::model::{Outcome, TaskEnd, UnixMillis};
use crate::settings::RetrySettings;

/// A limit or a block is the lane's trouble before it is the task's: such attempts have this many times the budget.
const LANE_TROUBLE_BUDGET: u32 = 4;

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

/// How the lease of a task ends whose attempt came to `outcome`.
///
/// `attempts` are those before this one. Limits and blocks wait for their lane, which the governor
/// pauses, and so carry no delay of their own; the rest waits in the frontier.
#[must_use]
pub fn after(
    outcome: Outcome,
    reason: String,
    attempts: u32,
    retry: &RetrySettings,
    now: UnixMillis,
    jitter: f64,
) -> TaskEnd {
    let made = attempts.saturating_add(1);
    let budget = match outcome {
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
    if made >= budget {
        return TaskEnd::Failed { outcome, reason };
    }
    let due = match outcome {
        Outcome::Limited | Outcome::Blocked => now,
        _ => now.after(delay(retry, attempts, jitter)),
    };
    TaskEnd::Retry { due, outcome }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: RetrySettings = RetrySettings {
        max_attempts: 3,
        base: Duration::from_secs(1),
        max: Duration::from_secs(8),
    };

    fn end(outcome: Outcome, attempts: u32) -> TaskEnd {
        after(
            outcome,
            "why".to_owned(),
            attempts,
            &RETRY,
            UnixMillis(1000),
            0.0,
        )
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
