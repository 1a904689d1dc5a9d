//! Pace and quotas.

use std::time::Duration;

use super::{Case, limits};
use crate::governor::ledger::Msg;
use crate::governor::messages::{Refused, Target, WaitReason};
use crate::model::{Outcome, Timestamp};
use crate::settings::LimitSettings;

#[test]
fn t01_granted_at_the_reported_instant_and_not_one_unit_later() {
    let mut case = Case::new(9, limits(None, Some("1/s"), 1, &[]));
    case.permit();
    let ticket = case.ask();
    let wake = case.ledger.next_wake().expect("a wake-up");
    case.now = wake - Duration::from_nanos(1);
    case.say(Msg::Tick);
    assert_eq!(case.of_ticket(ticket), None);
    case.now = wake;
    case.say(Msg::Tick);
    assert!(case.of_ticket(ticket).is_some());
}

#[test]
fn t02_t06_burst_and_rate_in_a_minute_after_an_hour_of_silence() {
    let mut case = Case::new(10_000, limits(None, Some("60/min"), 60, &[]));
    case.wait(3600.0);
    for _ in 0..500 {
        case.ask();
    }
    for _ in 0..600 {
        case.wait(0.1);
    }
    assert_eq!(case.granted.len(), 120);
}

#[test]
fn t03_a_retune_gives_no_fresh_burst() {
    let mut case = Case::new(9, limits(None, Some("1/s"), 2, &[]));
    case.permit();
    case.permit();
    case.say(Msg::Retune {
        target: Target::Site("s".into()),
        limits: limits(None, Some("1/s"), 2, &[]),
    });
    let ticket = case.ask();
    assert_eq!(case.of_ticket(ticket), None);
    case.wait(1.0);
    assert!(case.of_ticket(ticket).is_some());
}

#[test]
fn t08_an_unused_permit_gives_its_place_back_exactly_once() {
    let mut case = Case::new(9, limits(None, Some("1/s"), 1, &[]));
    let permit = case.permit();
    for _ in 0..2 {
        case.say(Msg::Release {
            permit,
            used: false,
        });
    }
    case.permit();
    let ticket = case.ask();
    assert_eq!(case.of_ticket(ticket), None);
}

#[test]
fn t11_a_million_a_second() {
    let mut case = Case::new(10_000, limits(None, Some("1000000/s"), 1, &[]));
    for _ in 0..1000 {
        case.ask();
    }
    for _ in 0..998 {
        case.wait(1e-6);
    }
    assert_eq!(case.granted.len(), 999);
}

#[test]
fn t56_a_late_tick_changes_nothing_that_time_decides() {
    let mut case = Case::new(1, limits(None, Some("2/s"), 1, &[]));
    let a = case.permit();
    let b = case.ask();
    case.now = case.now + Duration::from_secs(5);
    case.release(a);
    assert!(case.of_ticket(b).is_some());
}

#[test]
fn a_quota_slides_and_tells_how_long() {
    let mut case = Case::new(99, limits(None, None, 1, &["3/min"]));
    for _ in 0..3 {
        case.permit();
        case.wait(10.0);
    }
    case.ask_in(case.lane, 0, Duration::from_secs(29));
    let later = Refused::Later {
        wait: Duration::from_secs(30),
        why: WaitReason::Quota,
    };
    assert_eq!(case.refused[0].1, later);
    let ticket = case.ask();
    case.wait(30.0);
    assert!(case.of_ticket(ticket).is_some());
}

#[test]
fn t10_a_clock_that_runs_backwards_stands_still() {
    let mut case = Case::new(9, limits(None, Some("1/s"), 1, &[]));
    case.permit();
    let ticket = case.ask();
    case.now = case.now - Duration::from_secs(3600);
    case.say(Msg::Tick);
    assert_eq!(case.of_ticket(ticket), None);
    case.now = case.now + Duration::from_secs(3601);
    case.say(Msg::Tick);
    assert!(case.of_ticket(ticket).is_some());
}

#[test]
fn the_end_of_time_is_no_panic() {
    let mut case = Case::new(1, limits(None, Some("1/365d"), 1000, &["5/d"]));
    case.now = Timestamp::from_nanos(u64::MAX - 5);
    let ticket = case.ask();
    if let Some(permit) = case.of_ticket(ticket) {
        case.end(permit, Outcome::Limited, Some(u64::MAX));
    }
    case.ask();
    case.now = Timestamp::MAX;
    case.say(Msg::Tick);
    case.say(Msg::Drain);
}

/// There are no requests of a weight; what asks for more at once than there can be is a burst.
#[test]
fn l13_a_burst_beyond_the_quota_is_the_quota() {
    let mut case = Case::new(1000, limits(None, Some("1000/s"), 50, &["5/min"]));
    for _ in 0..20 {
        case.ask_in(case.lane, 0, Duration::from_secs(90));
    }
    case.wait(1.0);
    assert_eq!((case.granted.len(), case.refused.len()), (5, 0));
    for permit in case.granted.clone() {
        case.end(permit.1, Outcome::Ok, None);
    }
    case.wait(58.9);
    assert_eq!(case.granted.len(), 5);
    case.wait(0.2);
    assert_eq!(case.granted.len(), 6, "the first of them is a minute old");
    case.wait(1.0);
    assert_eq!(case.granted.len(), 10, "so are the others");
}

/// Ten are out and ten wait when the cap falls to three: none more until fewer than three are out, and nobody is
/// forgotten.
#[test]
fn l13_a_cap_that_falls_below_what_is_out_lets_nobody_through_and_forgets_nobody() {
    let mut case = Case::new(10, limits(None, None, 1, &[]));
    for _ in 0..20 {
        case.ask();
    }
    assert_eq!(case.granted.len(), 10);
    case.say(Msg::Retune {
        target: Target::Global,
        limits: LimitSettings {
            max_concurrency_num: Some(3),
            ..LimitSettings::default()
        },
    });
    for back in 0..20 {
        let out = 10_usize.saturating_sub(back).max(3);
        assert_eq!(
            case.granted.len() - back,
            out.min(20 - back),
            "after {back}"
        );
        case.release(case.granted[back].1);
    }
    assert_eq!(case.granted.len(), 20);
}
