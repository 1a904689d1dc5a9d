//! Whose turn it is, and who is sent away.

use std::time::Duration;

use super::{Case, config, key, limits};
use crate::governor::ledger::{LedgerConfig, Msg, SiteTable};
use crate::governor::messages::{PermitId, Refused, Target, Ticket};
use crate::model::Timestamp;
use crate::settings::LimitSettings;

#[test]
fn t30_a_paused_site_takes_no_slots_from_others() {
    let mut case = Case::new(5, LimitSettings::default());
    let other = case.ledger.lane(&key("other", "e"));
    let length = Some(Duration::from_secs(10));
    let target = Target::Site("s".into());
    case.say(Msg::Pause { target, length });
    for _ in 0..5 {
        case.ask();
    }
    for _ in 0..5 {
        case.ask_in(other, 0, Duration::MAX);
    }
    assert_eq!(case.granted.len(), 5);
    case.wait(10.0);
    assert_eq!(case.granted.len(), 5, "the cap holds when the pause ends");
    case.release(case.granted[0].1);
    assert!(case.of_ticket(Ticket(1)).is_some());
}

#[test]
fn a_pause_without_an_end_is_waited_out_only_by_endless_patience() {
    let mut case = Case::new(1, LimitSettings::default());
    let target = Target::Endpoint("s".into(), "e".into());
    let length = None;
    case.say(Msg::Pause {
        target: target.clone(),
        length,
    });
    let waits = case.ask();
    case.ask_in(case.lane, 0, Duration::from_secs(1_000_000));
    assert_eq!(case.refused[0].1, Refused::Paused);
    assert_eq!(case.state().0, "paused");
    case.say(Msg::Resume { target });
    assert!(case.of_ticket(waits).is_some());
}

#[test]
fn a_drained_ledger_refuses_who_waits_and_who_comes() {
    let mut case = Case::new(1, LimitSettings::default());
    let held = case.permit();
    case.ask();
    case.say(Msg::Drain);
    case.ask();
    assert!(
        case.refused
            .iter()
            .all(|(_, why)| *why == Refused::Stopping)
    );
    assert_eq!(case.refused.len(), 2);
    case.release(held);
    assert_eq!(case.ledger.in_flight(), 0);
}

#[test]
fn a_full_queue_says_so() {
    let mut case = Case::of(LedgerConfig {
        max_waiters: 2,
        ..config(1, LimitSettings::default())
    });
    case.permit();
    for _ in 0..3 {
        case.ask();
    }
    assert_eq!(case.refused, [(Ticket(4), Refused::QueueFull)]);
}

#[test]
fn a_waiter_gains_a_class_in_ten_seconds() {
    let mut case = Case::new(1, LimitSettings::default());
    let held = case.permit();
    let low = case.ask_in(case.lane, 1, Duration::MAX);
    case.wait(11.0);
    case.ask_in(case.lane, 0, Duration::MAX);
    case.release(held);
    assert!(case.of_ticket(low).is_some());
}

#[test]
fn endpoints_of_a_site_take_turns() {
    let mut case = Case::new(1, LimitSettings::default());
    let other = case.ledger.lane(&key("s", "other"));
    let held = case.permit();
    for _ in 0..3 {
        case.ask();
    }
    let late = case.ask_in(other, 0, Duration::MAX);
    case.release(held);
    case.release(case.granted[1].1);
    assert!(case.of_ticket(late).is_some());
}

/// Sites of very different latency, always busy, share the time of the slots and not the count of requests.
fn slot_time(cap: u32, weights: [u32; 2]) -> [f64; 2] {
    let mut config = config(cap, LimitSettings::default());
    let table = |weight| SiteTable {
        weight,
        limits: limits(None, None, 1, &[]),
        ..SiteTable::default()
    };
    config.sites = [
        ("s".into(), table(weights[0])),
        ("t".into(), table(weights[1])),
    ]
    .into();
    let mut case = Case::of(config);
    let lanes = [case.lane, case.ledger.lane(&key("t", "e"))];
    let mut owner = std::collections::HashMap::new();
    for n in 0..40 {
        owner.insert(case.ask_in(lanes[n % 2], 0, Duration::MAX), n % 2);
    }
    let mut running: Vec<(Timestamp, PermitId, usize)> = Vec::new();
    let (mut time, mut seen) = ([0.0; 2], 0);
    for _ in 0..4000 {
        for (ticket, permit) in &case.granted[seen..] {
            let site = owner[ticket];
            let length = Duration::from_millis([10, 400][site]);
            running.push((case.now + length, *permit, site));
            time[site] += length.as_secs_f64();
        }
        seen = case.granted.len();
        running.sort_by_key(|entry| std::cmp::Reverse(entry.0));
        let (at, permit, site) = running.pop().expect("always busy");
        case.now = at;
        owner.insert(case.ask_in(lanes[site], 0, Duration::MAX), site);
        case.release(permit);
    }
    time
}

#[test]
fn sites_share_slot_time_by_weight() {
    for (cap, weights, expected) in [
        (1, [1, 1], 1.0),
        (1, [3, 1], 3.0),
        (2, [1, 1], 1.0),
        (8, [3, 1], 3.0),
    ] {
        let [fast, slow] = slot_time(cap, weights);
        let ratio = fast / slow / expected;
        assert!(
            (0.85..1.18).contains(&ratio),
            "cap {cap}, {weights:?}: {fast} and {slow}"
        );
    }
}
