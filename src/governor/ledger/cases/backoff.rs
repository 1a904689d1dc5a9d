//! What answers teach a lane.

use std::time::Duration;

use super::Case;
use crate::governor::ledger::Msg;
use crate::governor::messages::{Hints, Refused, WaitReason};
use crate::model::Outcome;
use crate::settings::LimitSettings;

#[test]
fn t31_pauses_saturate_at_the_longest() {
    let mut case = Case::new(1, LimitSettings::default());
    let mut pauses = Vec::new();
    for _ in 0..200 {
        let ticket = case.ask();
        if case.of_ticket(ticket).is_none() {
            let wake = case.ledger.next_wake().expect("a wake-up");
            pauses.push(wake.since(case.now).as_secs());
            case.now = wake;
            case.say(Msg::Tick);
        }
        let permit = case.of_ticket(ticket).expect("granted after the pause");
        case.end(permit, Outcome::Limited, None);
    }
    assert_eq!(pauses[..9], [2, 4, 8, 16, 32, 64, 128, 256, 300]);
    assert!(pauses[9..].iter().all(|pause| *pause == 300));
}

#[test]
fn t32_eight_refusals_of_one_event_are_one_cut() {
    let mut case = Case::new(8, LimitSettings::default());
    let permits: Vec<_> = (0..8).map(|_| case.permit()).collect();
    for permit in permits {
        case.wait(0.005);
        case.end(permit, Outcome::Limited, None);
    }
    assert_eq!(case.state(), ("pause", 1));
}

#[test]
fn t35_a_retry_after_of_zero_leaves_the_own_pause() {
    let mut case = Case::new(1, LimitSettings::default());
    let permit = case.permit();
    case.end(permit, Outcome::Limited, Some(0));
    let ticket = case.ask();
    case.wait(1.9);
    assert_eq!(case.of_ticket(ticket), None);
    case.wait(0.1);
    assert!(case.of_ticket(ticket).is_some());
}

#[test]
fn t41_retry_after_stops_those_already_queued() {
    let mut case = Case::new(1, LimitSettings::default());
    let permit = case.permit();
    let queued: Vec<_> = (0..4).map(|_| case.ask()).collect();
    let impatient = case.ask_in(case.lane, 0, Duration::from_secs(59));
    // A refusal is reported before its slot is freed, or the next one in the queue would leave in between.
    let hints = Hints {
        retry_after: Some(Duration::from_secs(60)),
        ..Hints::default()
    };
    case.say(Msg::Report {
        permit,
        outcome: Outcome::Limited,
        hints,
    });
    case.release(permit);
    let (ticket, why) = case.refused[0].clone();
    assert_eq!(ticket, impatient);
    assert!(matches!(why, Refused::Later { wait, .. } if wait >= Duration::from_secs(60)));
    case.wait(59.999);
    assert!(
        queued
            .iter()
            .all(|ticket| case.of_ticket(*ticket).is_none())
    );
    case.wait(3.0);
    let through = queued
        .iter()
        .filter(|ticket| case.of_ticket(**ticket).is_some());
    assert_eq!(through.count(), 1, "a probe, and no more");
}

#[test]
fn t47_an_hour_and_ten_days_are_obeyed() {
    for seconds in [3600, 864_000, u64::MAX / 4] {
        let mut case = Case::new(1, LimitSettings::default());
        let permit = case.permit();
        case.end(permit, Outcome::Limited, Some(seconds));
        let ticket = case.ask_in(case.lane, 0, Duration::from_secs(900));
        let why = &case
            .refused
            .iter()
            .find(|(other, _)| *other == ticket)
            .expect("refused")
            .1;
        let Refused::Later { wait, why } = why else {
            panic!("{why:?}");
        };
        assert!(wait.as_secs() >= seconds.min(500_000_000 * 30));
        assert!(matches!(why, WaitReason::Backoff | WaitReason::NotBefore));
    }
}

#[test]
fn retry_after_of_a_stale_answer_still_counts() {
    let mut case = Case::new(2, LimitSettings::default());
    let (a, b) = (case.permit(), case.permit());
    case.end(a, Outcome::Limited, None);
    case.end(b, Outcome::Limited, Some(100));
    assert_eq!(case.state().1, 1);
    let ticket = case.ask();
    case.wait(99.9);
    assert_eq!(case.of_ticket(ticket), None);
    case.wait(0.1);
    assert!(case.of_ticket(ticket).is_some());
}

#[test]
fn t49_a_lost_probe_is_followed_by_exactly_one_and_a_404_opens() {
    for lost in ["reaped", "cancelled", "unused", "no report"] {
        let mut case = Case::new(9, LimitSettings::default());
        let permit = case.permit();
        case.end(permit, Outcome::Limited, None);
        let tickets: Vec<_> = (0..5).map(|_| case.ask()).collect();
        case.wait(2.0);
        let granted = |case: &Case| case.granted.len() - 1;
        assert_eq!(granted(&case), 1, "{lost}");
        let probe = case.granted[1].1;
        match lost {
            "reaped" => case.wait(65.0),
            "cancelled" => case.end(probe, Outcome::Cancelled, None),
            "unused" => case.say(Msg::Release {
                permit: probe,
                used: false,
            }),
            _ => {
                case.release(probe);
                case.wait(29.9);
                assert_eq!(granted(&case), 1, "{lost}: the report may still come");
                case.wait(0.1);
            }
        }
        assert_eq!(granted(&case), 2, "{lost}");
        case.end(probe, Outcome::Ok, None);
        assert_eq!(granted(&case), 2, "{lost}: late news of a lost probe");
        let second = case.granted[2].1;
        case.end(second, Outcome::Gone, None);
        assert_eq!(granted(&case), tickets.len(), "{lost}");
    }
}

#[test]
fn t51_one_of_five_hundred_leaves_half_open() {
    let mut case = Case::new(1000, LimitSettings::default());
    let permit = case.permit();
    case.end(permit, Outcome::Blocked, None);
    for _ in 0..500 {
        case.ask();
    }
    case.wait(7.9);
    assert_eq!(
        case.granted.len(),
        1,
        "a block is paused for four times as long"
    );
    case.wait(0.1);
    assert_eq!(case.granted.len(), 2);
    let probe = case.granted[1].1;
    case.end(probe, Outcome::Limited, None);
    assert_eq!(case.state(), ("pause", 2));
}

#[test]
fn failures_are_forgiven_after_a_quiet_time() {
    let mut case = Case::new(1, LimitSettings::default());
    let permit = case.permit();
    case.end(permit, Outcome::Limited, None);
    case.wait(2.0);
    let probe = case.permit();
    case.end(probe, Outcome::Ok, None);
    assert_eq!(case.state(), ("open", 1));
    case.wait(8.1);
    assert_eq!(case.state(), ("open", 0));
}

#[test]
fn most_failures_open_the_breaker_and_a_few_do_not() {
    let mut case = Case::new(1, LimitSettings::default());
    for n in 0..60 {
        let permit = case.permit();
        let outcome = if n % 3 == 0 {
            Outcome::ServerError
        } else {
            Outcome::Ok
        };
        case.end(permit, outcome, None);
    }
    assert_eq!(case.state(), ("open", 0));
    let mut case = Case::new(1, LimitSettings::default());
    for _ in 0..11 {
        let permit = case.permit();
        case.end(permit, Outcome::Timeout, None);
    }
    assert_eq!(case.state(), ("open", 0), "too few to tell");
    let permit = case.permit();
    case.end(permit, Outcome::Network, None);
    assert_eq!(case.state(), ("pause", 1));
}

#[test]
fn what_teaches_nothing_teaches_nothing() {
    let mut case = Case::new(1, LimitSettings::default());
    for outcome in [
        Outcome::Gone,
        Outcome::ClientError,
        Outcome::Malformed,
        Outcome::Denied,
        Outcome::Cancelled,
    ] {
        for _ in 0..50 {
            let permit = case.permit();
            case.end(permit, outcome, None);
        }
    }
    assert_eq!(case.state(), ("open", 0));
}

#[test]
fn a_report_before_the_release_is_heard_and_the_one_after_is_not() {
    let mut case = Case::new(2, LimitSettings::default());
    let (permit, other) = (case.permit(), case.permit());
    let report = |outcome, seconds| Msg::Report {
        permit,
        outcome,
        hints: Hints {
            retry_after: Some(Duration::from_secs(seconds)),
            ..Hints::default()
        },
    };
    case.say(report(Outcome::Limited, 10));
    assert_eq!(case.ledger.in_flight(), 2, "the exchange still runs");
    let ticket = case.ask();
    case.wait(5.0);
    // Neither before its release nor after does it count again, or last longer.
    case.say(report(Outcome::Limited, 100));
    case.say(Msg::Release {
        permit,
        used: false,
    });
    case.say(report(Outcome::Ok, 100));
    case.release(other);
    assert_eq!(case.ledger.in_flight(), 0);
    let snapshot = case.ledger.snapshot(case.now);
    assert_eq!(snapshot.lanes[0].outcomes, [(Outcome::Limited, 1)].into());
    assert_eq!(case.state(), ("pause", 1));
    case.wait(4.999);
    assert_eq!(case.of_ticket(ticket), None);
    case.wait(0.25);
    assert!(case.of_ticket(ticket).is_some());
}
