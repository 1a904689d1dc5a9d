//! The engine by cases that can be worked out by hand, and the laws by figures that are known of them.

use std::time::Duration;

use super::*;
use crate::governor::Hints;
use crate::model::{Outcome, Timestamp};
use crate::sim::Limit;

const S: fn(u64) -> Duration = Duration::from_secs;
const MS: fn(u64) -> Duration = Duration::from_millis;

/// Sends one request every `every`, whatever comes back.
struct Clockwork {
    every: Duration,
    next: Timestamp,
    sent: u64,
}

impl Clockwork {
    fn boxed(every: Duration) -> Box<dyn Control> {
        Box::new(Self {
            every,
            next: Timestamp::ZERO,
            sent: 0,
        })
    }
}

impl Control for Clockwork {
    fn poll(&mut self, now: Timestamp) -> Poll {
        if now < self.next {
            return Poll::Wait(Some(self.next));
        }
        self.sent += 1;
        self.next = now + self.every;
        Poll::Send {
            endpoint: 0,
            permit: self.sent,
        }
    }

    fn end(&mut self, _: Timestamp, _: u64, _: Outcome, _: &Hints, _: Duration) {}

    fn drop_permit(&mut self, _: Timestamp, _: u64) {}

    fn view(&self, _: Timestamp, _: usize) -> View {
        View {
            pace: 1.0 / self.every.as_secs_f64(),
            cap: None,
            state: "",
        }
    }
}

/// An origin with this limit, no wire, and work of exactly 100 ms.
fn plain(limit: Option<Limit>, seconds: u64) -> Scenario {
    let mut scenario = Scenario {
        lasts: S(seconds),
        wire: Duration::ZERO,
        warm_up: Duration::ZERO,
        ..Scenario::default()
    };
    scenario.origin.service.time = Draw::ms(100, 0);
    scenario.origin.endpoints[0].extend(limit);
    scenario
}

fn clockwork(scenario: &Scenario, every: Duration) -> Report {
    run(scenario, 1, &mut |_| Clockwork::boxed(every))
}

#[test]
fn a_bucket_admits_its_burst_and_then_its_rate() {
    let limit = Limit::Bucket {
        per_second: 10.0,
        burst: 5,
    };
    // 20 a second for 10 s: 5 + 100 are admitted, and the last two are not answered in time.
    let report = clockwork(&plain(Some(limit), 10), MS(50));
    assert!((103..=105).contains(&report.good), "{report:?}");
    assert!((94..=97).contains(&report.refused), "{report:?}");
    assert!((report.worst_second - 2.0).abs() < 0.11, "{report:?}");
}

#[test]
fn a_limit_on_requests_at_once_counts_the_work_alone() {
    // Work of 100 ms every 50 ms is two at once.
    let two = plain(Some(Limit::Concurrency { max: 2 }), 10);
    assert_eq!(clockwork(&two, MS(50)).refused, 0);
    let one = plain(Some(Limit::Concurrency { max: 1 }), 10);
    let share = clockwork(&one, MS(50)).refused_share;
    assert!((share - 0.5).abs() < 0.02, "{share}");
}

#[test]
fn workers_queue_and_refuse_nothing() {
    let mut scenario = plain(None, 10);
    scenario.origin.service.workers = Some(1);
    // Half of what is asked can be done, so the queue grows by half a request each 50 ms.
    let report = clockwork(&scenario, MS(50));
    assert_eq!(report.refused, 0);
    assert!((98..=100).contains(&report.good), "{report:?}");
    assert!(report.latency > 20.0, "{report:?}");
    assert!((report.goodput - 1.0).abs() < 0.02, "{report:?}");
}

#[test]
fn a_ban_refuses_everything_while_it_lasts() {
    let limit = Limit::Fixed {
        max: 5,
        window: S(1),
        phase: Duration::ZERO,
    };
    let mut scenario = plain(Some(limit), 10);
    scenario.origin.ban = Some(crate::sim::Ban {
        refusals: 3,
        within: S(1),
        lasts: S(100),
    });
    let report = clockwork(&scenario, MS(50));
    assert_eq!(report.bans, 1);
    assert!(report.good <= 10, "{report:?}");
}

#[test]
fn a_change_counts_from_its_instant() {
    let limit = |per_second| Limit::Bucket {
        per_second,
        burst: 1,
    };
    let mut scenario = plain(Some(limit(20.0)), 20);
    scenario.changes.push(Change {
        at: S(10),
        limits: Vec::new(),
        endpoints: vec![vec![limit(5.0)]],
    });
    let report = clockwork(&scenario, MS(50));
    assert_eq!(report.phases.len(), 2);
    assert!((report.phases[0] - 1.0).abs() < 0.03, "{report:?}");
    assert!((report.phases[1] - 1.0).abs() < 0.08, "{report:?}");
    assert_eq!(report.recovery, [Some(0.0)]);
}

#[test]
fn bounded_demand_ends_the_run_when_all_is_done() {
    let mut scenario = plain(None, 1000);
    scenario.demand = Demand::Total(40);
    let law = Law::Peer(Peer::Fixed);
    let report = run(&scenario, 1, &mut |seed| law.control(&scenario, seed));
    // 16 workers: three rounds of 100 ms.
    let finished = report.finished.expect("all done");
    assert!((0.3..0.302).contains(&finished), "{finished}");
    assert_eq!((report.good, report.sent, report.peak), (40, 40, 16));
}

#[test]
fn a_task_that_failed_is_asked_again() {
    let mut scenario = plain(None, 1000);
    scenario.demand = Demand::Total(200);
    scenario.origin.troubles.push(Trouble {
        share: 0.5,
        what: Mishap::Error,
    });
    let law = Law::Peer(Peer::Fixed);
    let report = run(&scenario, 1, &mut |seed| law.control(&scenario, seed));
    assert_eq!(report.good, 200);
    assert!((300..600).contains(&report.sent), "{report:?}");
}

#[test]
fn the_same_seed_gives_the_same_numbers_traced_or_not() {
    for law in [Law::Ours, Law::Peer(Peer::Aws), Law::Peer(Peer::Vegas)] {
        let scenario = named("b14").expect("built in");
        let once = |steps, seed| {
            run_traced(
                &scenario,
                seed,
                &mut |seed| law.control(&scenario, seed),
                steps,
            )
        };
        let (first, samples) = once(64, 3);
        assert_eq!(first, once(0, 3).0, "{law}");
        assert_eq!(samples, once(64, 3).1, "{law}");
        assert_ne!(first, once(0, 4).0, "{law}");
        assert_eq!(samples.len(), 64);
    }
}

#[test]
fn ideals_are_worked_out_from_the_limits() {
    let rate = |name: &str, phase: usize| ideal::phases(&named(name).expect(name))[phase].rate;
    let is = |name, phase, expected: f64| {
        let rate = rate(name, phase);
        assert!((rate - expected).abs() < 0.01, "{name}: {rate}");
    };
    is("b1", 0, 20.0 / 0.12);
    is("b3", 0, 10.0);
    is("b6", 0, 100.0);
    is("b7", 0, 55.0);
    is("b7-site", 0, 30.0);
    is("b8", 1, 20.0);
    is("b8", 2, 150.0);
    is("b12-errors", 0, 196.0);
    is("b14", 0, 50.0 * 0.9 / 0.95);
}

#[test]
fn names_of_scenarios_are_unique_and_all_have_an_ideal() {
    let all = built_in();
    for (nth, scenario) in all.iter().enumerate() {
        assert!(all[..nth].iter().all(|other| other.name != scenario.name));
        let phases = ideal::phases(scenario);
        assert!(
            phases.iter().all(|phase| phase.rate.is_finite()),
            "{}",
            scenario.name
        );
    }
    assert_eq!(all.len(), 34);
}

#[test]
fn drawn_scenarios_can_run_and_differ() {
    for seed in 0..200 {
        let scenario = drawn(seed);
        assert_eq!(scenario, drawn(seed));
        let rate = ideal::phases(&scenario)[0].rate;
        assert!(rate.is_finite() && rate > 0.3, "{}", scenario.about);
        let requests = rate * scenario.lasts.as_secs_f64();
        assert!(requests < 1e6, "{}", scenario.about);
    }
    assert_ne!(drawn(1), drawn(2));
}

/// Goodput after the warm-up and refused share, of three runs.
fn figures(law: Law, name: &str) -> (f64, f64) {
    let scenario = named(name).expect(name);
    let all = measure(law, &[scenario], 0, 3);
    (all[0].goodput(), all[0].refused())
}

#[test]
fn other_laws_do_as_is_known_of_them() {
    for (peer, name, goodput, refused) in [
        (Peer::Fixed, "b1", 0.80, 0.0),
        (Peer::Fixed, "b2", 1.0, 0.57),
        (Peer::Fixed, "b4", 1.0, 0.87),
        (Peer::Fixed, "b5", 0.0, 0.999),
        (Peer::Fixed, "b12-bimodal", 0.57, 0.0),
        (Peer::Jitter, "b2", 0.89, 0.09),
        (Peer::Jitter, "b4", 1.0, 0.21),
        (Peer::Aimd, "b1", 1.0, 0.30),
        (Peer::Aimd, "b4", 1.0, 0.49),
        (Peer::Vegas, "b1", 0.40, 0.05),
        (Peer::Vegas, "b4", 0.94, 0.11),
        (Peer::Arc, "b1", 0.96, 0.008),
        (Peer::Arc, "b4", 0.99, 0.13),
        (Peer::Aws, "b2", 0.35, 0.028),
        (Peer::Aws, "b4", 1.0, 0.011),
        (Peer::Aws, "b8", 0.92, 0.004),
        (Peer::AutoThrottle, "b1", 0.33, 0.0),
        (Peer::Crawlee, "b1", 0.40, 0.0),
        (Peer::Crawlee, "b6", 0.66, 0.0),
        (Peer::Sre, "b2", 1.0, 0.50),
    ] {
        let (had, lost) = figures(Law::Peer(peer), name);
        assert!(
            (had - goodput).abs() < 0.06,
            "{peer:?} {name}: goodput {had}"
        );
        assert!(
            (lost - refused).abs() < 0.06,
            "{peer:?} {name}: refused {lost}"
        );
    }
}

#[test]
fn a_law_without_a_classifier_does_not_see_soft_refusals() {
    let (_, seen) = figures(Law::Ours, "b11");
    let (_, unseen) = figures(Law::Peer(Peer::Aimd), "b11");
    assert!(seen < 0.01 && unseen > 0.9, "{seen} {unseen}");
}

#[test]
fn the_governor_finds_the_limit_with_few_refusals() {
    for name in ["b1", "b2", "b4", "b5", "b7", "b12-errors"] {
        let (goodput, refused) = figures(Law::Ours, name);
        assert!(goodput > 0.85, "{name}: goodput {goodput}");
        assert!(refused < 0.01, "{name}: refused {refused}");
    }
}

#[test]
fn configured_limits_hold_whatever_the_server_would_take() {
    let mut scenario = named("b4-fast").expect("built in");
    scenario.lasts = S(30);
    scenario.configured.site.max_concurrency_num = Some(3);
    let one = |scenario: &Scenario| run(scenario, 1, &mut |s| Law::Ours.control(scenario, s));
    assert_eq!(one(&scenario).peak, 3);
    scenario.configured.site.max_concurrency_num = None;
    scenario.configured.max_concurrency_num = 2;
    assert_eq!(one(&scenario).peak, 2);
    scenario.configured = Configured::default();
    scenario.configured.site.rate = "5/s".parse().ok();
    let report = one(&scenario);
    assert!((140..=151).contains(&report.sent), "{report:?}");
}

#[test]
fn a_restart_keeps_what_is_out_in_mind() {
    let mut scenario = named("b4-fast").expect("built in");
    scenario.lasts = S(20);
    scenario.configured.site.max_concurrency_num = Some(4);
    scenario.chaos.restarts = (1..20).map(S).collect();
    let report = run(&scenario, 1, &mut |s| Law::Ours.control(&scenario, s));
    assert_eq!(report.peak, 4);
    assert!(report.good > 400, "{report:?}");
}
