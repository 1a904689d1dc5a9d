//! Permits out, and what is left of them after a death.

use std::time::Duration;

use super::{Case, START, config, key, limits};
use crate::governor::ledger::{Action, Carried, Ledger, LedgerConfig, Msg, SiteTable};
use crate::governor::messages::{Hints, PermitId, Target, Ticket};
use crate::model::{Outcome, Timestamp};
use crate::settings::LimitSettings;

#[test]
fn t17_a_release_and_a_cancel_in_one_instant_wake_the_third() {
    let mut case = Case::new(1, LimitSettings::default());
    let a = case.permit();
    let b = case.ask();
    let c = case.ask();
    case.say(Msg::Cancel { ticket: b });
    case.release(a);
    assert!(case.of_ticket(c).is_some());
    assert_eq!(case.ledger.in_flight(), 1);
}

#[test]
fn t24_releases_without_a_permit_and_twice_change_nothing() {
    let mut case = Case::new(1, LimitSettings::default());
    case.release(PermitId(77));
    let a = case.permit();
    case.release(a);
    case.release(a);
    assert_eq!(case.ledger.in_flight(), 0);
    case.permit();
    case.ask();
    assert_eq!(case.ledger.in_flight(), 1);
}

#[test]
fn t26_a_permit_past_its_deadline_is_taken_back_and_late_news_ignored() {
    let mut case = Case::new(1, LimitSettings::default());
    let a = case.permit();
    let b = case.ask();
    case.wait(64.9);
    assert_eq!(case.of_ticket(b), None);
    case.wait(0.1);
    assert!(case.of_ticket(b).is_some());
    case.end(a, Outcome::Limited, Some(60));
    assert_eq!(case.state(), ("open", 0));
    assert_eq!(case.ledger.in_flight(), 1);
    assert_eq!(case.ledger.snapshot(case.now).reaped, 1);
}

#[test]
fn a_process_that_starts_owes_one_interval_and_a_stored_rate_is_remembered() {
    let mut config = config(9, limits(None, Some("2/s"), 3, &[]));
    config.store_uses = true;
    let start = Timestamp::from_nanos(START);
    let ask = |ledger: &mut Ledger, now, ticket| {
        let lane = ledger.lane(&key("s", "e"));
        let mut actions = Vec::new();
        let msg = Msg::Acquire {
            ticket: Ticket(ticket),
            lane,
            priority: 0,
            patience: Duration::MAX,
        };
        ledger.handle(now, msg, &mut actions);
        actions
    };
    let mut ledger = Ledger::new(config.clone(), 1, start);
    ledger.handle(start, Msg::LearnedLoaded(Vec::new()), &mut Vec::new());
    assert!(
        ask(&mut ledger, start, 1).is_empty(),
        "no second burst after a kill"
    );
    let half = start + Duration::from_millis(500);
    assert_eq!(ledger.next_wake(), Some(half));
    let mut actions = Vec::new();
    ledger.handle(half, Msg::Tick, &mut actions);
    assert_eq!(actions.len(), 1);

    config.default_limits = limits(None, Some("1/min"), 1, &[]);
    let mut ledger = Ledger::new(config, 1, start);
    ledger.handle(start, Msg::LearnedLoaded(Vec::new()), &mut Vec::new());
    assert_eq!(
        ask(&mut ledger, start, 1),
        [Action::Load],
        "nothing before the store has answered"
    );
    let used = vec![("s".to_owned(), start - Duration::from_secs(20))];
    let mut actions = Vec::new();
    ledger.handle(start, Msg::UsesLoaded(used), &mut actions);
    assert!(actions.is_empty());
    assert_eq!(ledger.next_wake(), Some(start + Duration::from_secs(40)));
}

#[test]
fn a_restored_ledger_remembers_pause_pace_and_permits() {
    let mut case = Case::new(2, limits(None, Some("2/s"), 1, &[]));
    case.ledger.track();
    case.permit();
    let mut carried = Carried::default();
    case.ledger.save(&mut carried);
    case.ledger = Ledger::restore(LedgerConfig::default(), 1, case.now, &carried);
    assert_eq!(case.ledger.in_flight(), 1);
    let ticket = case.ask();
    assert_eq!(case.of_ticket(ticket), None, "the pace goes on");
    case.wait(0.5);
    assert!(case.of_ticket(ticket).is_some());
    case.ask();
    case.wait(10.0);
    assert_eq!(
        case.ledger.in_flight(),
        2,
        "the cap counts the permit of the dead ledger"
    );
}

#[test]
fn a_restored_ledger_remembers_what_was_reported_before_the_release() {
    let mut case = Case::new(2, LimitSettings::default());
    case.ledger.track();
    let (still_out, given_back) = (case.permit(), case.permit());
    for permit in [still_out, given_back] {
        case.say(Msg::Report {
            permit,
            outcome: Outcome::Ok,
            hints: Hints::default(),
        });
    }
    let mut carried = Carried::default();
    case.ledger.save(&mut carried);
    carried.returned(given_back);
    case.ledger = Ledger::restore(LedgerConfig::default(), 1, case.now, &carried);
    assert_eq!(case.ledger.in_flight(), 1);
    for permit in [still_out, given_back] {
        case.end(permit, Outcome::Limited, None);
    }
    let snapshot = case.ledger.snapshot(case.now);
    assert_eq!((snapshot.in_flight, snapshot.released), (0, 2));
    assert_eq!(snapshot.lanes[0].outcomes, [(Outcome::Ok, 2)].into());
}

#[test]
fn a_use_decided_before_a_retune_is_stored_for_what_the_retune_limits() {
    let mut config = config(9, LimitSettings::default());
    config.store_uses = true;
    let site = SiteTable {
        endpoints: [("e".into(), limits(None, Some("1/s"), 3, &[]))].into(),
        ..SiteTable::default()
    };
    config.sites.insert("s".into(), site);
    let now = Timestamp::from_nanos(START);
    let mut ledger = Ledger::new(config, 1, now);
    let lane = ledger.lane(&key("s", "e"));
    let mut say = |msg| {
        let mut actions = Vec::new();
        ledger.handle(now, msg, &mut actions);
        actions
    };
    say(Msg::LearnedLoaded(Vec::new()));
    say(Msg::UsesLoaded(Vec::new()));
    let ask = Msg::Acquire {
        ticket: Ticket(1),
        lane,
        priority: 0,
        patience: Duration::MAX,
    };
    let scopes = |actions: &[Action]| match actions {
        [Action::Store { permit, uses }] => {
            let scopes: Vec<_> = uses.iter().map(|used| used.scope.clone()).collect();
            (*permit, scopes)
        }
        other => panic!("{other:?}"),
    };
    let (first, stored) = scopes(&say(ask));
    assert_eq!(stored, ["s/e"]);
    say(Msg::Retune {
        target: Target::Site("s".into()),
        limits: limits(None, None, 1, &["1/h"]),
    });
    let (second, stored) = scopes(&say(Msg::UseStored(first)));
    assert_eq!(stored, ["s", "s/e"]);
    let actions = say(Msg::UseStored(second));
    assert!(matches!(actions[..], [Action::Grant { .. }]), "{actions:?}");
}

#[test]
fn a_ledger_that_dies_before_the_store_has_answered_is_followed_by_one_that_waits_for_it() {
    let mut config = config(9, limits(None, Some("1/min"), 1, &[]));
    config.store_uses = true;
    let now = Timestamp::from_nanos(START);
    let mut carried = Carried::default();
    // The first dies unanswered; the second hears of the use; the third must not count it twice.
    for (life, wait) in [(0, None), (1, Some(40)), (2, Some(40))] {
        let mut ledger = Ledger::restore(config.clone(), 1, now, &carried);
        ledger.track();
        ledger.handle(now, Msg::LearnedLoaded(Vec::new()), &mut Vec::new());
        let lane = ledger.lane(&key("s", "e"));
        let ask = Msg::Acquire {
            ticket: Ticket(life),
            lane,
            priority: 0,
            patience: Duration::MAX,
        };
        let mut actions = Vec::new();
        ledger.handle(now, ask, &mut actions);
        assert_eq!(actions, [Action::Load]);
        if let Some(wait) = wait {
            let used = vec![("s".to_owned(), now - Duration::from_secs(20))];
            ledger.handle(now, Msg::UsesLoaded(used), &mut actions);
            let due = now + Duration::from_secs(wait);
            assert_eq!(ledger.next_wake(), Some(due), "life {life}");
        }
        ledger.save(&mut carried);
    }
}

#[test]
fn a_permit_lasts_as_long_as_the_exchanges_of_its_endpoint_may_take() {
    let mut case = Case::new(2, LimitSettings::default());
    let a = case.permit();
    let longer = LimitSettings {
        total_timeout: Some(Duration::from_secs(3600)),
        ..LimitSettings::default()
    };
    let target = Target::Endpoint("s".into(), "e".into());
    let limits = longer;
    case.say(Msg::Retune { target, limits });
    let b = case.permit();
    case.wait(66.0);
    assert_eq!(
        case.ledger.in_flight(),
        1,
        "the one before has its old lease"
    );
    case.release(a);
    case.wait(3600.0 - 66.0 + 4.9);
    assert_eq!(case.ledger.in_flight(), 1);
    case.wait(0.2);
    assert_eq!(case.ledger.in_flight(), 0);
    case.release(b);
    assert_eq!(case.ledger.snapshot(case.now).reaped, 2);
}
