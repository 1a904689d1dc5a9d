//! Reports about laws that adapt, played to a lane that learns.

use std::time::Duration;

use super::closed_loop::{Bucket, Loop, Reply, Sent, adaptive};
use super::{Case, config};
use crate::governor::ledger::Msg;
use crate::governor::messages::PermitId;
use crate::model::{Outcome, Timestamp};

fn estimate(case: &Case) -> f64 {
    let lane = &case.ledger.snapshot(case.now).lanes[0];
    lane.learned_rate_per_second.expect("an adaptive lane")
}

fn most_refusals_within(sent: &[Sent], window: Duration) -> usize {
    let refused: Vec<Timestamp> = sent
        .iter()
        .filter(|sent| sent.outcome == Outcome::Limited)
        .map(|sent| sent.at)
        .collect();
    let until = |start: Timestamp| refused.partition_point(|at| *at < start + window);
    let counts = refused.iter().enumerate();
    counts.map(|(nth, at)| until(*at) - nth).max().unwrap_or(0)
}

#[test]
fn t32_the_order_of_the_answers_to_one_burst_changes_nothing() {
    let after = |turn: usize| {
        let mut looped = Loop::new(64);
        looped.run(10.0, |_, _| Reply::new(100, Outcome::Ok));
        // Answers that do not come for now: the pace lets some more out meanwhile.
        looped.run(0.5, |_, _| Reply::new(5_000, Outcome::Ok));
        let mut out = looped.still_out();
        assert!(out.len() >= 8, "{}", out.len());
        out.truncate(8);
        out.rotate_left(turn);
        let case = &mut looped.case;
        for permit in out {
            case.end(permit, Outcome::Limited, None);
        }
        let lane = case.ledger.snapshot(case.now).lanes[0].clone();
        (lane.failures, lane.learning_events)
    };
    for turn in 0..8 {
        assert_eq!(after(turn), after(0));
        assert_eq!(after(turn), (1, 1), "one event, one cut");
    }
}

#[test]
fn t44_refusals_alone_bring_the_pace_down() {
    let mut looped = Loop::new(64);
    looped.run(5.0, |_, _| Reply::new(100, Outcome::Ok));
    let before = looped.last(5).len();
    looped.run(120.0, |_, _| Reply::new(1, Outcome::Limited));
    let hammered = looped.last(120).len();
    assert!(hammered <= 20, "{hammered} refused, {before} before");
    assert!(looped.last(60).len() <= 3, "{:?}", looped.last(60));
}

#[test]
fn t45_answers_that_come_after_the_clients_patience_slow_it_down() {
    let mut looped = Loop::new(64);
    looped.run(10.0, |_, _| Reply::new(100, Outcome::Ok));
    looped.run(120.0, |_, _| Reply::new(5_000, Outcome::Timeout));
    let last = looped.last(60).len();
    // What a cut does shows only when time-outs come back, five seconds later: one in three seconds is left of
    // several a second.
    assert!(last <= 20, "{last} in the last minute");
}

#[test]
fn t48_half_an_hour_of_quiet_forgives_what_was_in_a_row() {
    let mut looped = Loop::new(2);
    looped.run(120.0, |_, _| Reply::new(1, Outcome::Limited));
    let failures = |looped: &Loop| looped.case.state().1;
    assert!(failures(&looped) >= 4, "{}", failures(&looped));
    looped.run(1800.0, |_, _| Reply::new(100, Outcome::Ok));
    assert_eq!(failures(&looped), 0);
}

#[test]
fn t49_a_probe_that_is_lost_is_followed_by_one_and_a_404_opens() {
    for lost in ["reaped", "cancelled", "unused", "no report"] {
        let mut case = Case::of(config(9, adaptive()));
        let permit = case.permit();
        case.end(permit, Outcome::Limited, Some(10));
        for _ in 0..5 {
            case.ask();
        }
        case.wait(9.99);
        assert_eq!(case.granted.len(), 1, "{lost}: Retry-After");
        // Up to a fiftieth more, so that many lanes do not wake together.
        case.wait(0.3);
        assert_eq!(case.granted.len(), 2, "{lost}: one probe");
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
                case.wait(30.0);
            }
        }
        assert_eq!(case.granted.len(), 3, "{lost}: exactly one follows");
        case.end(probe, Outcome::Ok, None);
        assert_eq!(case.granted.len(), 3, "{lost}: late news");
        let second = case.granted[2].1;
        case.end(second, Outcome::Gone, None);
        // A tick lets out what is due then, and not what would have been due before.
        for _ in 0..5 {
            case.wait(1.0);
        }
        assert!(case.granted.len() > 4, "{lost}: open");
    }
}

#[test]
fn t51_one_of_five_hundred_is_the_probe() {
    let mut case = Case::of(config(1000, adaptive()));
    let permit = case.permit();
    case.end(permit, Outcome::Blocked, Some(10));
    for _ in 0..500 {
        case.ask();
    }
    case.wait(40.0);
    assert_eq!(case.granted.len(), 2);
}

#[test]
fn t52_time_outs_do_not_raise_the_number_in_flight() {
    let mut looped = Loop::new(1000);
    looped.run(30.0, |_, _| Reply::new(5_000, Outcome::Timeout));
    let peak = |sent: &[Sent]| sent.iter().map(|sent| sent.in_flight).max().unwrap_or(0);
    let first = peak(&looped.last(30));
    looped.run(300.0, |_, _| Reply::new(5_000, Outcome::Timeout));
    let later = peak(&looped.last(300));
    assert!(later <= first, "{later} in flight, {first} at first");
}

/// Ten workers of 100 ms each: what is more waits in the server's queue.
#[test]
fn t53_a_queue_that_refuses_nothing_is_not_filled_without_bound() {
    let mut free = [Timestamp::ZERO; 10];
    let mut looped = Loop::new(1000);
    looped.run(600.0, |now, _| {
        free.sort_unstable();
        let begin = free[0].max(now);
        free[0] = begin + Duration::from_millis(100);
        Reply {
            after: free[0].since(now),
            ..Reply::new(0, Outcome::Ok)
        }
    });
    let most = looped.last(570).iter().map(|sent| sent.in_flight).max();
    // Twice what the capacity needs and four more, where a probe believes in a tenth more capacity.
    assert!(most <= Some(2 * 11 + 4), "{most:?} in flight");
    assert!(looped.goodput(570) >= 90.0, "{}", looped.goodput(570));
}

#[test]
fn t54_slow_answers_to_requests_of_before_a_cut_change_nothing() {
    let mut looped = Loop::new(64);
    // The last of them stay out.
    looped.run(20.0, |_, _| Reply::new(200, Outcome::Ok));
    let out: Vec<PermitId> = looped.still_out();
    assert!(out.len() >= 2, "{}", out.len());
    let case = &mut looped.case;
    case.end(out[0], Outcome::Limited, None);
    let before = case.ledger.snapshot(case.now).lanes[0].clone();
    case.wait(0.05);
    for permit in &out[1..] {
        case.end(*permit, Outcome::Ok, None);
    }
    let after = &case.ledger.snapshot(case.now).lanes[0];
    assert_eq!(
        after.learned_rate_per_second,
        before.learned_rate_per_second
    );
    assert_eq!(after.learned_cap, before.learned_cap);
}

#[test]
fn t56_a_tick_five_seconds_late_finds_the_state_that_time_decides() {
    let after = |ticks: u32| {
        let mut case = Case::of(config(9, adaptive()));
        let permit = case.permit();
        case.end(permit, Outcome::Limited, None);
        // Nobody waits meanwhile: only time goes on.
        for _ in 0..ticks {
            case.wait(5.0 / f64::from(ticks));
        }
        let ticket = case.ask();
        let granted = case.of_ticket(ticket).is_some();
        (
            case.state(),
            granted,
            estimate(&case),
            case.ledger.next_wake(),
        )
    };
    assert_eq!(after(1), after(500));
}

#[test]
fn t57_from_one_request_to_a_hundred_a_second_in_21_seconds() {
    let mut bucket = Bucket::new(100.0, 10.0);
    let mut looped = Loop::new(64);
    looped.run(26.0, |now, _| bucket.reply(now));
    assert!(looped.goodput(5) >= 90.0, "{}", looped.goodput(5));
}

#[test]
fn t59_never_thirty_refusals_in_a_minute() {
    let mut bucket = Bucket::new(50.0, 5.0);
    let mut looped = Loop::new(64);
    looped.run(600.0, |now, _| bucket.reply(now));
    let most = most_refusals_within(&looped.sent, Duration::from_secs(60));
    assert!(most < 30, "{most}");
}

#[test]
fn t61_pauses_in_a_row_do_not_ruin_the_estimate() {
    let mut bucket = Bucket::new(50.0, 5.0);
    let mut looped = Loop::new(64);
    looped.run(60.0, |now, _| bucket.reply(now));
    // Three events in a row, whatever is sent.
    let events =
        |looped: &Loop| looped.case.ledger.snapshot(looped.case.now).lanes[0].learning_events;
    let enough = events(&looped) + 3;
    for _ in 0..600 {
        if events(&looped) >= enough || looped.case.state().1 >= 3 {
            break;
        }
        looped.run(0.1, |_, _| Reply::new(30, Outcome::Limited));
    }
    assert!(looped.case.state().1 >= 3);
    looped.run(30.0, |now, _| bucket.reply(now));
    assert!(
        estimate(&looped.case) >= 0.3 * 50.0,
        "{}",
        estimate(&looped.case)
    );
}

#[test]
fn t62_service_times_that_vary_are_no_saturation() {
    let mut bucket = Bucket::new(100.0, 20.0);
    let mut rng = fastrand::Rng::with_seed(62);
    let mut looped = Loop::new(256);
    looped.run(120.0, |now, _| {
        let mut reply = bucket.reply(now);
        if reply.outcome == Outcome::Ok {
            reply.after = Duration::from_secs_f64(-0.1 * (1.0 - rng.f64()).ln());
        }
        reply
    });
    assert!(looped.goodput(90) >= 90.0, "{}", looped.goodput(90));
}
