//! What the law does with a whole server in virtual time.

use super::Hand;
use super::bench::{Bucket, good, refusal, run};
use crate::governor::messages::Hints;
use crate::model::Outcome;

/// A bucket of `burst` at `rate`, answers after 100 ms.
fn bucket_run(hand: &mut Hand, rate: f64, burst: f64, until: f64) -> super::bench::Outcomes {
    let mut bucket = Bucket::new(burst);
    run(hand, 0.0, until, |now, _, _| {
        if bucket.admits(now, rate) {
            good(0.1)
        } else {
            refusal()
        }
    })
}

#[test]
fn t44_a_server_that_only_refuses_is_asked_ever_less() {
    let outcomes = run(&mut Hand::new(1), 0.0, 600.0, |_, _, _| refusal());
    assert!(outcomes.sent < 40, "{}", outcomes.sent);
}

#[test]
fn t52_time_outs_do_not_speed_up() {
    let mut hand = Hand::new(2);
    let start = hand.lane.view(super::at(0.0)).pace;
    let silent = (Outcome::Timeout, Hints::default(), 5.0);
    let outcomes = run(&mut hand, 0.0, 300.0, |_, _, _| silent);
    assert!(hand.lane.view(super::at(300.0)).pace <= start);
    assert!(outcomes.peak <= 20, "{}", outcomes.peak);
}

#[test]
fn an_outage_of_a_minute_is_met_with_few_requests() {
    let mut hand = Hand::new(3);
    bucket_run(&mut hand, 50.0, 10.0, 60.0);
    let error = (Outcome::ServerError, Hints::default(), 0.05);
    let outcomes = run(&mut hand, 60.0, 120.0, |_, _, _| error);
    assert!(outcomes.sent < 30, "{}", outcomes.sent);
    let failures = hand.lane.view(super::at(120.0)).failures;
    assert!((3..12).contains(&failures), "{failures}");
}

#[test]
fn t53_a_queue_that_grows_is_bounded() {
    // Capacity 50/s; each answer waits for those before it.
    let mut free = 0.0_f64;
    let mut hand = Hand::new(4);
    let mut server = |now: f64, _: u32, _: &mut fastrand::Rng| {
        free = free.max(now) + 0.02;
        good(free - now + 0.08)
    };
    // The search may overshoot once.
    let search = run(&mut hand, 0.0, 30.0, &mut server);
    assert!(search.peak <= 40, "{}", search.peak);
    let outcomes = run(&mut hand, 30.0, 600.0, &mut server);
    // A probe goes a fifth beyond the capacity at most.
    assert!(
        f64::from(outcomes.peak) <= 1.2 * 2.0 * 50.0 * 0.1 + 4.0,
        "{}",
        outcomes.peak
    );
    assert!(
        outcomes.rate(30.0, 600.0) > 45.0,
        "{}",
        outcomes.rate(30.0, 600.0)
    );
}

#[test]
fn t57_a_hundred_a_second_is_found_within_21_seconds() {
    let outcomes = bucket_run(&mut Hand::new(5), 100.0, 10.0, 26.0);
    assert!(
        outcomes.rate(21.0, 26.0) >= 90.0,
        "{}",
        outcomes.rate(21.0, 26.0)
    );
}

#[test]
fn t59_refusals_stay_below_what_wakes_a_ban() {
    for seed in 0..20 {
        let outcomes = bucket_run(&mut Hand::new(seed), 50.0, 5.0, 600.0);
        assert!(outcomes.most_refused(60.0) < 30);
        assert!(
            outcomes.most_refused(300.0) < 20,
            "{}",
            outcomes.most_refused(300.0)
        );
    }
}

#[test]
fn t61_three_events_do_not_ruin_the_estimate() {
    for seed in 0..20 {
        let mut hand = Hand::new(seed);
        let mut bucket = Bucket::new(10.0);
        let mut faults = 3;
        let outcomes = run(&mut hand, 0.0, 95.0, |now, _, _| {
            if now > 60.0 && faults > 0 {
                faults -= 1;
                return refusal();
            }
            if bucket.admits(now, 50.0) {
                good(0.1)
            } else {
                refusal()
            }
        });
        assert!(
            outcomes.rate(90.0, 95.0) >= 15.0,
            "{}",
            outcomes.rate(90.0, 95.0)
        );
    }
}

#[test]
fn t62_exponential_service_is_no_queue() {
    let mut bucket = Bucket::new(20.0);
    let outcomes = run(&mut Hand::new(6), 0.0, 120.0, |now, _, dice| {
        let service = -(1.0 - dice.f64()).ln() * 0.1;
        if bucket.admits(now, 100.0) {
            good(0.02 + service)
        } else {
            refusal()
        }
    });
    assert!(
        outcomes.rate(20.0, 120.0) >= 90.0,
        "{}",
        outcomes.rate(20.0, 120.0)
    );
}

#[test]
fn l23_a_limit_that_rises_tenfold_is_followed() {
    for seed in 0..10 {
        let mut bucket = Bucket::new(2.0);
        let outcomes = run(&mut Hand::new(seed), 0.0, 240.0, |now, _, _| {
            let rate = if now < 60.0 { 2.0 } else { 20.0 };
            if bucket.admits(now, rate) {
                good(0.1)
            } else {
                refusal()
            }
        });
        assert!(
            outcomes.rate(180.0, 240.0) > 16.0,
            "{}",
            outcomes.rate(180.0, 240.0)
        );
        let refused = outcomes.refused.len() as f64 / outcomes.sent as f64;
        assert!(refused < 0.05, "{refused}");
    }
}

#[test]
fn invariant_13_a_constant_limit_is_reached_within_a_minute() {
    for (seed, rate) in [2.0, 7.0, 30.0, 120.0, 500.0].into_iter().enumerate() {
        let outcomes = bucket_run(
            &mut Hand::new(seed as u64),
            rate,
            (rate * 0.2).max(2.0),
            120.0,
        );
        assert!(
            outcomes.rate(60.0, 120.0) >= 0.85 * rate,
            "{rate}: {}",
            outcomes.rate(60.0, 120.0)
        );
    }
}

#[test]
fn invariant_14_the_gate_is_not_asked_in_vain() {
    let outcomes = bucket_run(&mut Hand::new(7), 50.0, 10.0, 300.0);
    // Every grant and every answer asks once, and each grant may have to wait once.
    assert!(
        outcomes.asked <= 4 * outcomes.sent,
        "{} for {}",
        outcomes.asked,
        outcomes.sent
    );
}

#[test]
fn invariant_19_random_errors_do_not_move_the_pace() {
    for seed in 0..10 {
        let mut bucket = Bucket::new(20.0);
        let outcomes = run(&mut Hand::new(seed), 0.0, 120.0, |now, _, dice| {
            if !bucket.admits(now, 200.0) {
                refusal()
            } else if dice.f64() < 0.02 {
                (Outcome::ServerError, Hints::default(), 0.1)
            } else {
                good(0.1)
            }
        });
        assert!(
            outcomes.rate(30.0, 120.0) >= 0.9 * 196.0,
            "{}",
            outcomes.rate(30.0, 120.0)
        );
    }
}

#[test]
fn invariant_24_refusals_are_bounded_by_the_budget() {
    for (seed, rate) in [5.0, 50.0, 200.0].into_iter().enumerate() {
        let outcomes = bucket_run(&mut Hand::new(seed as u64), rate, 10.0, 900.0);
        let per_event = 1.0 + (0.03 * rate).ceil();
        let allowed = 0.003 * outcomes.good.len() as f64 + (5.0 + 2.0 + 900.0 / 100.0) * per_event;
        assert!(
            (outcomes.refused.len() as f64) < allowed,
            "{rate}: {}",
            outcomes.refused.len()
        );
    }
}

#[test]
fn a_limit_of_requests_in_flight_is_found() {
    let mut free: Vec<f64> = Vec::new();
    let mut hand = Hand::new(8);
    let outcomes = run(&mut hand, 0.0, 120.0, |now, _, dice| {
        free.retain(|until| *until > now);
        if free.len() >= 20 {
            return refusal();
        }
        let held = 0.1 + 0.04 * dice.f64();
        free.push(now + held);
        good(held)
    });
    let ideal = 20.0 / 0.12;
    assert!(
        outcomes.rate(30.0, 120.0) > 0.9 * ideal,
        "{}",
        outcomes.rate(30.0, 120.0)
    );
    assert!(
        hand.lane
            .learned()
            .cap
            .is_some_and(|cap| (18..=22).contains(&cap))
    );
}

#[test]
fn what_was_learned_is_a_start() {
    let mut hand = Hand::new(9);
    bucket_run(&mut hand, 50.0, 10.0, 120.0);
    let learned = hand.lane.learned();
    let mut next = Hand::new(10);
    next.lane = super::Adapt::new(super::Profile::BanSafe, Some(&learned), super::at(0.0));
    let outcomes = bucket_run(&mut next, 50.0, 10.0, 30.0);
    assert!(
        outcomes.rate(2.0, 7.0) >= 45.0,
        "{}",
        outcomes.rate(2.0, 7.0)
    );
}

#[test]
fn a_told_bound_that_lapses_leaves_no_pace_that_was_never_proved() {
    let mut hand = Hand::new(11);
    // Told 20/s with every answer for two minutes, then nothing: the limit is there all the same.
    let mut bucket = Bucket::new(5.0);
    let outcomes = run(&mut hand, 0.0, 240.0, |now, _, _| {
        if !bucket.admits(now, 25.0) {
            return refusal();
        }
        let (outcome, mut hints, length) = good(0.1);
        if now < 120.0 {
            hints.rate = Some(20.0);
        }
        (outcome, hints, length)
    });
    let pace = hand.lane.view(super::at(240.0)).pace;
    assert!(pace < 40.0, "{pace}");
    let refused = outcomes.refused.len() as u64;
    assert!(
        refused * 100 <= outcomes.sent,
        "{refused} of {}",
        outcomes.sent
    );
}
