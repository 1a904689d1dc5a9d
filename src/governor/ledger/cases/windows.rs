//! Windows as the server counts them, and what many who ask at once get.

use std::time::Duration;

use super::{Case, limits};
use crate::governor::ledger::Msg;
use crate::model::Timestamp;
use crate::settings::LimitSettings;

const SECOND: Duration = Duration::from_secs(1);

/// Lets time pass from wake-up to wake-up; gives when each permit was granted.
fn granted_until(case: &mut Case, end: Timestamp) -> Vec<Timestamp> {
    let mut at = vec![case.now; case.granted.len()];
    while let Some(wake) = case.ledger.next_wake().filter(|wake| *wake <= end) {
        case.now = case.now.max(wake);
        case.say(Msg::Tick);
        at.resize(case.granted.len(), case.now);
    }
    at
}

/// The most in any half-open window of this length.
fn most_within(sorted: &[Timestamp], window: Duration) -> usize {
    let after = |start: Timestamp| sorted.partition_point(|at| *at < start + window);
    let counts = sorted.iter().enumerate();
    counts.map(|(nth, at)| after(*at) - nth).max().unwrap_or(0)
}

#[test]
fn t04_no_second_holds_more_than_the_limit_wherever_it_begins() {
    for (limit, most) in [
        (limits(None, None, 1, &["10/s"]), 10),
        (limits(None, Some("10/s"), 1, &[]), 10),
        (limits(None, Some("10/s"), 3, &[]), 10 + 2),
    ] {
        let mut case = Case::new(99, limit);
        // Just before and just after the edge of a second.
        case.wait(0.99);
        for _ in 0..10 {
            case.ask();
        }
        let end = case.now + Duration::from_millis(20);
        let mut at = granted_until(&mut case, end);
        for _ in 0..10 {
            case.ask();
        }
        let end = case.now + SECOND * 3;
        at.extend(granted_until(&mut case, end).into_iter().skip(at.len()));
        assert_eq!(at.len(), 20);
        assert!(most_within(&at, SECOND) <= most, "{at:?}");
    }
}

#[test]
fn t07_five_thousand_at_once_are_not_granted_on_credit() {
    let mut case = Case::new(10_000, limits(None, Some("5/s"), 1, &[]));
    let start = case.now;
    for _ in 0..5000 {
        case.ask();
    }
    assert_eq!(case.granted.len(), 1);
    let at = granted_until(&mut case, start + Duration::from_secs(2000));
    assert_eq!(at.len(), 5000);
    assert_eq!(at[4999].since(start), Duration::from_millis(4999 * 200));
}

#[test]
fn t08_those_who_leave_the_queue_leave_no_gap_and_no_debt() {
    let mut case = Case::new(9, limits(None, Some("1/s"), 1, &[]));
    case.permit();
    let (b, c) = (case.ask(), case.ask());
    case.say(Msg::Cancel { ticket: b });
    case.say(Msg::Cancel { ticket: c });
    case.say(Msg::Cancel { ticket: c });
    let (d, e) = (case.ask(), case.ask());
    case.wait(0.999);
    assert_eq!(case.of_ticket(d), None);
    case.wait(0.001);
    assert!(case.of_ticket(d).is_some());
    case.wait(0.999);
    assert_eq!(case.of_ticket(e), None);
}

/// A call that walked the whole window would make this take minutes.
#[test]
fn t12_a_window_with_many_uses_costs_no_more_per_call() {
    let mut case = Case::new(10_000, limits(None, None, 1, &["100000/h"]));
    for n in 0..100_000 {
        let permit = case.permit();
        case.end(permit, crate::model::Outcome::Ok, None);
        case.granted.clear();
        if n % 100 == 0 {
            case.wait(0.001);
        }
    }
    let ticket = case.ask();
    assert_eq!(case.of_ticket(ticket), None);
    case.wait(3599.0);
    assert!(case.of_ticket(ticket).is_some());
}

/// Requests that leave within 1.12 s may arrive within one second, 60 ms late or early each.
#[test]
fn t13_a_longer_window_keeps_the_limit_in_spite_of_jitter_on_the_way() {
    const JITTER: u64 = 60_000_000;
    let most = |quota: &str| {
        let mut case = Case::new(10_000, limits(None, None, 1, &[quota]));
        for _ in 0..2000 {
            case.ask();
        }
        let end = case.now + Duration::from_secs(60);
        let sent = granted_until(&mut case, end);
        assert_eq!(sent.len(), 2000);
        let mut dice = 7_u64;
        let mut arrived: Vec<Timestamp> = sent
            .iter()
            .map(|at| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *at + Duration::from_nanos((dice >> 33) % (2 * JITTER))
            })
            .collect();
        arrived.sort_unstable();
        most_within(&arrived, SECOND)
    };
    assert!(most("50/1s") > 50, "the jitter is felt");
    assert_eq!(most("50/1120ms"), 50);
}

#[test]
fn t21_twenty_that_wake_together_get_what_the_pace_allows() {
    let mut case = Case::new(99, limits(None, Some("10/s"), 2, &[]));
    case.wait(10.0);
    for _ in 0..20 {
        case.ask();
    }
    assert_eq!(case.granted.len(), 2);
    // All sleep over many intervals, and wake in one instant.
    case.wait(1.0);
    let together = case.granted.len();
    assert!(
        together <= 2 + 2,
        "a pause saves up no more than the burst: {together}"
    );
    for _ in 0..20 {
        case.say(Msg::Tick);
    }
    assert_eq!(case.granted.len(), together, "asking again changes nothing");
}

#[test]
fn t22_one_token_lets_one_through_and_the_next_token_the_other() {
    let mut case = Case::new(99, limits(None, Some("1/s"), 1, &[]));
    case.permit();
    let (a, b) = (case.ask(), case.ask());
    case.wait(1.0);
    assert!(case.of_ticket(a).is_some());
    assert_eq!(case.of_ticket(b), None);
    case.wait(1.0);
    assert!(case.of_ticket(b).is_some());
}

#[test]
fn t23_a_release_and_an_ask_in_one_instant_start_the_next_in_either_order() {
    for release_first in [true, false] {
        let mut case = Case::new(1, LimitSettings::default());
        let held = case.permit();
        let ticket = if release_first {
            case.release(held);
            case.ask()
        } else {
            let ticket = case.ask();
            case.release(held);
            ticket
        };
        assert!(case.of_ticket(ticket).is_some(), "{release_first}");
        assert_eq!(case.ledger.in_flight(), 1);
    }
}

/// Each holder waits for one more of the same lane: only the deadline can end it, and it is told.
#[test]
fn t26_holders_that_wait_for_their_own_lane_are_ended_by_their_deadline() {
    let mut case = Case::new(10, LimitSettings::default());
    for _ in 0..10 {
        case.permit();
    }
    let waiting: Vec<_> = (0..10).map(|_| case.ask()).collect();
    case.wait(64.9);
    assert_eq!(case.granted.len(), 10);
    case.wait(0.1);
    assert!(
        waiting
            .iter()
            .all(|ticket| case.of_ticket(*ticket).is_some())
    );
    let snapshot = case.ledger.snapshot(case.now);
    assert_eq!((snapshot.reaped, snapshot.in_flight), (10, 10));
}
