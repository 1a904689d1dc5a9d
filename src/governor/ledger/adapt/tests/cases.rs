//! Cases from public bug reports, each a few steps by hand.

use std::time::Duration;

use super::{Hand, at, retry_after};
use crate::governor::ledger::level::Gate;
use crate::governor::messages::{Hints, WaitReason};
use crate::model::Outcome;

const NONE: Hints = Hints {
    retry_after: None,
    exhausted: None,
    rate: None,
    cap: None,
    bucket: None,
    rate_for: None,
    whole_site: false,
};

/// A lane that has been served well for ten seconds.
fn served(seed: u64) -> Hand {
    let mut hand = Hand::new(seed);
    for nth in 0..40 {
        let now = at(f64::from(nth) * 0.25);
        let sent = hand.send(now, 0);
        hand.answer(sent, Outcome::Ok, &NONE, now + Duration::from_millis(100));
    }
    hand
}

#[test]
fn t31_a_million_failures_in_a_row_saturate() {
    let mut hand = Hand::new(1);
    let mut now = at(0.0);
    for _ in 0..1_000_000 {
        let sent = hand.send(now, 0);
        hand.answer(sent, Outcome::Limited, &NONE, now);
        let pause = match hand.gate(now, 0) {
            Gate::At(when, _) => when.since(now),
            other => panic!("open after a refusal: {other:?}"),
        };
        assert!(pause > Duration::ZERO && pause <= Duration::from_secs(78));
        now = hand.opens(now, 0, 100.0).expect("the pause ends");
    }
    assert!(hand.lane.view(now).pace.is_finite());
}

#[test]
fn t32_l22_one_burst_is_one_step() {
    let mut hand = served(2);
    let sent: Vec<_> = (0..8).map(|nth| hand.send(at(10.0), nth)).collect();
    for (nth, sent) in sent.into_iter().enumerate() {
        let now = at(10.01) + Duration::from_millis(5 * nth as u64);
        hand.answer(sent, Outcome::Limited, &NONE, now);
    }
    let view = hand.lane.view(at(10.1));
    assert_eq!((view.failures, view.events), (1, 1));
}

#[test]
fn t33_a_spent_budget_does_not_spare_the_pause() {
    let mut hand = served(3);
    for _ in 0..5 {
        let sent: Vec<_> = (0..20).map(|nth| hand.send(at(10.0), nth)).collect();
        for sent in sent {
            hand.answer(sent, Outcome::Limited, &NONE, at(10.0));
        }
    }
    let now = hand.opens(at(10.0), 0, 100.0).expect("the pause ends");
    assert!(hand.lane.view(now).credit <= 0.0);
    let sent = hand.send(now, 0);
    hand.answer(sent, Outcome::Limited, &NONE, now);
    assert!(matches!(
        hand.gate(now, 0),
        Gate::At(_, WaitReason::Backoff)
    ));
}

#[test]
fn t35_l21_retry_after_zero_still_backs_off_exponentially() {
    let mut hand = Hand::new(4);
    let mut now = at(0.0);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let sent = hand.send(now, 0);
        hand.answer(sent, Outcome::Limited, &retry_after(0.0), now);
        let opens = hand.opens(now, 0, 100.0).expect("the pause ends");
        pauses.push(opens.since(now).as_secs_f64());
        now = opens;
    }
    // The first wait is that of the pace, which is longer than a first pause.
    assert!(
        pauses[1..].windows(2).all(|pair| pair[1] > 1.5 * pair[0]),
        "{pauses:?}"
    );
}

#[test]
fn t41_retry_after_holds_back_what_is_queued() {
    let mut hand = served(5);
    let sent = hand.send(at(10.0), 0);
    hand.answer(sent, Outcome::Limited, &retry_after(60.0), at(10.0));
    let opens = hand.opens(at(10.0), 0, 100.0).expect("the wait ends");
    assert!((60.0..=61.3).contains(&opens.since(at(10.0)).as_secs_f64()));
}

#[test]
fn retry_after_of_a_stale_refusal_still_holds_back() {
    let mut hand = served(6);
    let (first, second) = (hand.send(at(10.0), 0), hand.send(at(10.0), 1));
    hand.answer(first, Outcome::Limited, &NONE, at(10.0));
    hand.answer(second, Outcome::Limited, &retry_after(30.0), at(10.1));
    let opens = hand.opens(at(10.1), 0, 100.0).expect("the wait ends");
    assert!(opens >= at(40.1));
    assert_eq!(hand.lane.view(opens).failures, 1);
}

#[test]
fn t47_t48_long_waits_are_not_cut_short() {
    for seconds in [3600.0, 864_000.0] {
        let mut hand = served(7);
        let sent = hand.send(at(10.0), 0);
        hand.answer(sent, Outcome::Limited, &retry_after(seconds), at(10.0));
        let (until, _) = hand.lane.time_gate(at(10.0)).expect("a wait");
        assert!(until >= at(10.0 + seconds));
        assert!(until <= at(15.0 + 1.02 * seconds));
    }
}

#[test]
fn t48_thirty_quiet_minutes_forgive() {
    let mut hand = served(8);
    let mut now = at(10.0);
    for _ in 0..5 {
        let sent = hand.send(now, 0);
        hand.answer(sent, Outcome::Limited, &NONE, now);
        now = hand.opens(now, 0, 100.0).expect("the pause ends");
    }
    assert_eq!(hand.lane.view(now).failures, 5);
    let sent = hand.send(now, 0);
    hand.answer(sent, Outcome::Ok, &NONE, now);
    now = now + Duration::from_secs(1860);
    let sent = hand.send(now, 0);
    hand.answer(sent, Outcome::Limited, &NONE, now);
    assert_eq!(hand.lane.view(now).failures, 1);
}

/// A half-open lane and the instant.
fn half_open(seed: u64) -> (Hand, crate::model::Timestamp) {
    let mut hand = served(seed);
    let sent = hand.send(at(10.0), 0);
    hand.answer(sent, Outcome::Blocked, &NONE, at(10.0));
    let now = hand.opens(at(10.0), 0, 100.0).expect("the pause ends");
    (hand, now)
}

#[test]
fn t49_a_lost_probe_is_followed_by_exactly_one() {
    let (mut hand, now) = half_open(9);
    let (permit, sent) = hand.send(now, 0);
    assert_eq!(hand.lane.probe(), Some(permit));
    hand.lane.lost(permit, &sent, now);
    assert_eq!(hand.gate(now, 0), Gate::Open);
    let other = hand.send(now, 0);
    assert!(matches!(hand.gate(now, 1), Gate::At(_, WaitReason::Probe)));
    assert_eq!(hand.lane.probe(), Some(other.0));
}

#[test]
fn t49_a_silent_probe_is_given_up_and_its_late_refusal_ignored() {
    let (mut hand, now) = half_open(10);
    let silent = hand.send(now, 0);
    let later = hand.opens(now, 1, 60.0).expect("the lease ends");
    assert!(later.since(now) >= Duration::from_secs(3));
    let other = hand.send(later, 1);
    let before = format!("{:?}", hand.lane.view(later));
    hand.answer(silent, Outcome::Limited, &NONE, later);
    assert_eq!(
        format!("{:?}", hand.lane.view(later)).contains("half_open"),
        before.contains("half_open")
    );
    assert_eq!(hand.lane.probe(), Some(other.0));
    hand.answer(other, Outcome::Ok, &NONE, later);
    assert!(hand.opens(later, 1, 1.0).is_some());
}

#[test]
fn t49_not_found_is_an_answer() {
    let (mut hand, now) = half_open(11);
    let probe = hand.send(now, 0);
    hand.answer(probe, Outcome::Gone, &NONE, now);
    assert_ne!(hand.lane.view(now).state, "half_open");
    assert_eq!(hand.lane.probe(), None);
}

#[test]
fn t51_of_many_waiters_one_leaves() {
    let (mut hand, now) = half_open(12);
    let mut left = 0;
    while hand.gate(now, left) == Gate::Open {
        hand.send(now, left);
        left += 1;
    }
    assert_eq!(left, 1);
}

#[test]
fn t54_answers_of_an_old_epoch_do_not_move_the_latency() {
    let mut hand = served(13);
    let old: Vec<_> = (0..21).map(|nth| hand.send(at(10.0), nth)).collect();
    let mut old = old.into_iter();
    hand.answer(old.next().expect("21"), Outcome::Limited, &NONE, at(10.02));
    let before = hand.lane.learned().latency;
    for sent in old {
        hand.answer(sent, Outcome::Ok, &NONE, at(14.0));
    }
    assert_eq!(hand.lane.learned().latency, before);
}

#[test]
fn a_rate_that_is_told_bounds_and_never_hastens() {
    let mut hand = served(14);
    let hint = |rate: f64| Hints {
        rate: Some(rate),
        ..NONE
    };
    let pace = hand.lane.view(at(10.0)).pace;
    let sent = hand.send(at(10.0), 0);
    hand.answer(sent, Outcome::Ok, &hint(1e9), at(10.0));
    assert!(hand.lane.view(at(10.0)).pace <= pace);
    let sent = hand.send(at(10.0), 0);
    hand.answer(sent, Outcome::Ok, &hint(0.5), at(10.0));
    assert!(hand.lane.view(at(10.0)).pace <= 0.5);
}

#[test]
fn the_header_can_close_the_lane_after_a_good_answer() {
    let mut hand = served(15);
    let sent = hand.send(at(10.0), 0);
    let hints = Hints {
        exhausted: Some(Duration::from_secs(7)),
        ..NONE
    };
    hand.answer(sent, Outcome::Ok, &hints, at(10.0));
    assert_eq!(hand.opens(at(10.0), 0, 20.0), Some(at(17.0)));
}
