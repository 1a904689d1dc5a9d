//! The least time between two requests on a host, beside its limits.

use proptest::prelude::*;

use super::*;

fn ceiling(case: &mut Case, seconds: f64) {
    let interval = (seconds > 0.0).then(|| Duration::from_secs_f64(seconds));
    let lane = case.lane;
    case.say(Msg::Ceiling { lane, interval });
}

#[test]
fn a_ceiling_spaces_all_lanes_of_a_host_and_counts_what_left_before_it() {
    let mut case = Case::new(99, LimitSettings::default());
    let other = case.ledger.lane(&key("s", "robots"));
    let elsewhere = case.ledger.lane(&key("t", "e"));
    let first = case.ask_in(other, 0, Duration::MAX);
    assert!(case.of_ticket(first).is_some());
    ceiling(&mut case, 10.0);
    let (a, b) = (case.ask(), case.ask_in(other, 0, Duration::MAX));
    let free = case.ask_in(elsewhere, 0, Duration::MAX);
    assert!(case.of_ticket(free).is_some(), "another site");
    case.wait(9.9);
    assert_eq!(case.granted.len(), 2, "nothing before ten seconds");
    case.wait(0.1);
    assert_eq!(case.granted.len(), 3);
    case.wait(9.9);
    assert_eq!(case.granted.len(), 3);
    case.wait(0.1);
    assert!(case.of_ticket(a).is_some() && case.of_ticket(b).is_some());
}

#[test]
fn the_slower_of_ceiling_and_rate_holds_and_both_survive_the_other() {
    let mut case = Case::new(99, limits(None, Some("1/2s"), 3, &[]));
    ceiling(&mut case, 1.0);
    case.wait(60.0);
    for _ in 0..3 {
        case.permit();
    }
    ceiling(&mut case, 5.0);
    let next = case.ask();
    case.wait(4.9);
    assert_eq!(
        case.of_ticket(next),
        None,
        "the ceiling is slower, without a burst"
    );
    case.say(Msg::Retune {
        target: crate::governor::Target::Site("s".into()),
        limits: limits(None, Some("100/s"), 100, &[]),
    });
    assert_eq!(case.of_ticket(next), None, "a new rate does not lift it");
    // Three left at once under the old rate: what they owe is owed at the new pace.
    case.wait(10.1);
    assert!(case.of_ticket(next).is_some());
    ceiling(&mut case, 0.0);
    case.wait(1.0);
    for _ in 0..50 {
        case.permit();
    }
}

#[test]
fn a_ceiling_is_remembered_by_the_next_ledger() {
    let mut case = Case::new(99, LimitSettings::default());
    case.ledger.track();
    ceiling(&mut case, 10.0);
    case.permit();
    let mut carried = super::super::Carried::default();
    case.ledger.save(&mut carried);
    case.ledger = Ledger::restore(config(99, LimitSettings::default()), 2, case.now, &carried);
    let next = case.ask();
    case.wait(9.9);
    assert_eq!(case.of_ticket(next), None);
    case.wait(0.1);
    assert!(case.of_ticket(next).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever is asked, given back and said again meanwhile: no two requests are closer than the interval.
    #[test]
    fn no_two_requests_are_closer_than_the_ceiling(
        steps in prop::collection::vec((0u8..5, 0u32..3_000), 1..120),
    ) {
        let interval = 1.5;
        let mut case = Case::new(7, LimitSettings::default());
        let other = case.ledger.lane(&key("s", "other"));
        ceiling(&mut case, interval);
        let mut at: Vec<Timestamp> = Vec::new();
        for (step, millis) in steps {
            match step {
                0 => drop(case.ask()),
                1 => drop(case.ask_in(other, 3, Duration::MAX)),
                2 => ceiling(&mut case, interval),
                3 => {
                    let held = case.granted.get(millis as usize % 8).map(|(_, permit)| *permit);
                    if let Some(permit) = held {
                        case.release(permit);
                    }
                }
                _ => case.wait(f64::from(millis) / 1000.0),
            }
            while at.len() < case.granted.len() {
                at.push(case.now);
            }
        }
        for pair in at.windows(2) {
            prop_assert!(pair[1].since(pair[0]) >= Duration::from_secs_f64(interval));
        }
    }
}
