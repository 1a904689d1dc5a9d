//! Endpoints that share a limit, and endpoints that do not, in virtual time.

use std::time::Duration;

use crawler_node::sim::Limit;
use crawler_node::sim::simulator::{
    self, Configured, Demand, LedgerControl, OriginSpec, Report, Scenario,
};

const REQUESTS: u64 = 976;

fn run(scenario: &Scenario, seed: u64) -> Report {
    let configured = Configured::default();
    simulator::run(scenario, seed, &mut |seed| {
        Box::new(LedgerControl::new(scenario, &configured, seed))
    })
}

fn endpoints(count: usize, limit: &Limit) -> Scenario {
    Scenario {
        lasts: Duration::from_secs(300),
        origin: OriginSpec {
            limits: vec![limit.clone()],
            endpoints: vec![Vec::new(); count],
            ..OriginSpec::default()
        },
        demand: Demand::Total(REQUESTS),
        ..Scenario::default()
    }
}

/// Three endpoints under one limit need no more time and hardly more refusals than one.
#[test]
fn a_shared_limit_is_found_once() {
    let second = Duration::from_secs(1);
    let limits = [
        Limit::Concurrency { max: 8 },
        Limit::Bucket {
            per_second: 50.0,
            burst: 10,
        },
        Limit::Fixed {
            max: 50,
            window: second,
            phase: second / 3,
        },
        Limit::Sliding {
            max: 50,
            window: second,
            count_refused: true,
        },
    ];
    let (mut ratios, mut more) = (0.0, 0);
    for limit in &limits {
        for seed in 0..10 {
            let (one, three) = (
                run(&endpoints(1, limit), seed),
                run(&endpoints(3, limit), seed),
            );
            let time = |report: &Report| report.finished.expect("it ends");
            assert!(
                time(&three) <= 1.2 * time(&one),
                "{limit:?}, seed {seed}: {:.1} s, one alone {:.1} s",
                time(&three),
                time(&one)
            );
            assert!(
                three.refused <= one.refused + 6,
                "{limit:?}, seed {seed}: {three:?}"
            );
            ratios += time(&three) / time(&one);
            more += three.refused.saturating_sub(one.refused);
        }
    }
    // A single run has its luck: one in forty meets the limit once more. On the whole it costs nothing.
    assert!(ratios / 40.0 <= 1.02, "{:.3}", ratios / 40.0);
    assert!(more <= 10, "{more} more refusals in 40 runs");
}

/// 50/s and 5/s: the slow one does not hold the fast one for long.
#[test]
fn limits_that_differ_are_kept_apart() {
    let scenario = simulator::named("b7").expect("a built-in scenario");
    for seed in 0..10 {
        let report = run(&scenario, seed);
        assert!(report.steady >= 0.9, "seed {seed}: {report:?}");
        assert!(report.refused_share <= 0.01, "seed {seed}: {report:?}");
    }
}
