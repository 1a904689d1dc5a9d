//! The built-in scenarios.
//!
//! Where nothing else is said: 10 ms of wire each way, work of 80 ms and an exponential 20 ms, a refusal takes 10 ms and
//! tells nothing, there is always another task, one client, one endpoint.

use std::time::Duration;

use super::origin::{Mishap, OriginSpec, Refusal, Trouble};
use super::scenario::{Change, Chaos, Scenario};
use super::service::{Draw, Service};
use super::told::{Fields, Reset, RetryTold};
use crate::sim::{Ban, Limit};

/// All of them, in order.
#[must_use]
pub fn built_in() -> Vec<Scenario> {
    let parts = [
        gates(),
        queues(),
        endpoints(),
        others(),
        faults(),
        told(),
        chaos(),
    ];
    parts.into_iter().flatten().collect()
}

/// The one of this name.
#[must_use]
pub fn named(name: &str) -> Option<Scenario> {
    built_in().into_iter().find(|one| one.name == name)
}

/// B1 to B5: one gate.
fn gates() -> Vec<Scenario> {
    let mut small = one(
        "b1-small",
        "3 in flight, work of 500 ms",
        120,
        Some(at_once(3)),
    );
    small.origin.service.time = Draw::ms(400, 100);
    let mut minute = one(
        "b3",
        "600 per fixed minute, Retry-After",
        300,
        Some(fixed(600, 60)),
    );
    minute.origin.refusal.retry_after = RetryTold::Seconds;
    minute.warm_up = Duration::ZERO;
    let mut bare = one(
        "b3-bare",
        "120 per fixed 20 s, nothing told",
        300,
        Some(fixed(120, 20)),
    );
    bare.warm_up = Duration::ZERO;
    let mut sliding = one(
        "b5",
        "30 in any second, refusals count, Retry-After",
        120,
        None,
    );
    sliding.origin.endpoints[0].push(Limit::Sliding {
        max: 30,
        window: S(1),
        count_refused: true,
    });
    sliding.origin.refusal.retry_after = RetryTold::Seconds;
    vec![
        one("b1", "20 in flight", 120, Some(at_once(20))),
        small,
        one("b1-large", "100 in flight", 120, Some(at_once(100))),
        one("b2", "100 per fixed second", 120, Some(fixed(100, 1))),
        minute,
        bare,
        one("b4", "bucket of 10, 50/s", 120, Some(bucket(50.0, 10))),
        one("b4-slow", "bucket of 2, 2/s", 300, Some(bucket(2.0, 2))),
        one(
            "b4-fast",
            "bucket of 80, 800/s",
            120,
            Some(bucket(800.0, 80)),
        ),
        sliding,
    ]
}

/// B6: a queue that refuses nothing.
fn queues() -> Vec<Scenario> {
    let workers = |name: &str, workers: u32| {
        let about = format!("{workers} workers and an endless queue");
        let mut scenario = one(name, &about, 120, None);
        scenario.origin.service.workers = Some(workers);
        scenario
    };
    vec![
        workers("b6", 10),
        workers("b6-few", 3),
        workers("b6-many", 60),
    ]
}

/// B7 and B8: several endpoints, and limits that change.
fn endpoints() -> Vec<Scenario> {
    let mut two = one(
        "b7",
        "endpoints of 50/s and 5/s",
        120,
        Some(bucket(50.0, 5)),
    );
    two.origin.endpoints.push(vec![bucket(5.0, 5)]);
    let mut site = two.clone();
    site.name = "b7-site".to_owned();
    site.about = "endpoints of 50/s and 5/s, 30/s for both together".to_owned();
    site.origin.limits.push(bucket(30.0, 5));
    let mut change = one("b8", "100/s, from 60 s 20/s, from 120 s 150/s", 240, None);
    change.origin.endpoints[0].push(bucket(100.0, 10));
    for (at, rate) in [(60, 20.0), (120, 150.0)] {
        change.changes.push(Change {
            at: S(at),
            limits: Vec::new(),
            endpoints: vec![vec![bucket(rate, 10)]],
        });
    }
    vec![two, site, change]
}

/// B9 to B11: other clients, bans, refusals that look like answers.
fn others() -> Vec<Scenario> {
    let mut three = one("b9", "3 clients share 90/s", 240, Some(bucket(90.0, 10)));
    three.clients = 3;
    let mut many = one(
        "b9-many",
        "8 clients share 40/s",
        240,
        Some(bucket(40.0, 10)),
    );
    many.clients = 8;
    let ban = |name: &str, seconds: u64, refusals: u32, within: u64, lasts: u64| {
        let about = format!("50/s; {refusals} refusals in {within} s ban for {lasts} s");
        let mut scenario = one(name, &about, seconds, Some(bucket(50.0, 5)));
        scenario.origin.ban = Some(Ban {
            refusals,
            within: S(within),
            lasts: S(lasts),
        });
        scenario
    };
    let soft = |name: &str, about: &str, limit: Limit| {
        let mut scenario = one(name, about, 120, Some(limit));
        scenario.origin.refusal.soft = true;
        scenario
    };
    vec![
        three,
        many,
        ban("b10", 300, 30, 60, 120),
        ban("b10-harsh", 900, 20, 300, 600),
        soft("b11", "bucket 50/s, a refusal is a 200", bucket(50.0, 10)),
        soft(
            "b11-window",
            "60 per fixed 2 s, a refusal is a 200",
            fixed(60, 2),
        ),
    ]
}

/// B12: noise.
fn faults() -> Vec<Scenario> {
    let mut bimodal = one("b12-bimodal", "100/s, half 20 ms, half 500 ms", 120, None);
    bimodal.origin.endpoints[0].push(bucket(100.0, 20));
    bimodal.origin.service.time = Draw::ms(15, 5);
    bimodal.origin.service.other = Some((0.5, Draw::ms(450, 50)));
    let mut errors = one("b12-errors", "200/s, 2 % random 503", 120, None);
    errors.origin.endpoints[0].push(bucket(200.0, 20));
    errors.origin.troubles.push(Trouble {
        share: 0.02,
        what: Mishap::Error,
    });
    let mut both = bimodal.clone();
    both.name = "b12".to_owned();
    both.about = "100/s, bimodal, 2 % random 503, 0.5 % time-outs".to_owned();
    both.origin.troubles = vec![
        Trouble {
            share: 0.02,
            what: Mishap::Error,
        },
        Trouble {
            share: 0.005,
            what: Mishap::Hang,
        },
    ];
    vec![both, bimodal, errors]
}

/// B13: what the header tells.
fn told() -> Vec<Scenario> {
    let with = |name: &str, about: &str, limit: Limit, fields: Fields| {
        let mut scenario = one(name, about, 120, Some(limit));
        scenario.origin.fields = fields;
        scenario
    };
    let mut forms = one(
        "b13",
        "100 per fixed 5 s, Retry-After in seven forms",
        300,
        None,
    );
    forms.origin.endpoints[0].push(fixed(100, 5));
    forms.origin.refusal.retry_after = RetryTold::Rotate;
    let legacy = |name: &str, about: &str, unit: Reset| {
        let about = format!("100 per fixed 5 s, X-RateLimit, reset in {about}");
        with(name, &about, fixed(100, 5), Fields::Legacy(unit))
    };
    vec![
        forms,
        with(
            "b13-ietf",
            "300 per fixed 10 s, RateLimit fields",
            fixed(300, 10),
            Fields::Ietf,
        ),
        with(
            "b13-at-once",
            "8 in flight, RateLimit-Policy says so",
            at_once(8),
            Fields::Ietf,
        ),
        with(
            "b13-trap",
            "bucket 10/s, r and t claim 1000/s",
            bucket(10.0, 10),
            Fields::IetfTrap,
        ),
        legacy("b13-seconds", "seconds", Reset::Seconds),
        legacy("b13-epoch", "epoch seconds", Reset::Epoch),
        legacy("b13-millis", "epoch milliseconds", Reset::Millis),
        legacy("b13-iso", "ISO 8601", Reset::Iso),
    ]
}

/// B14: permits that come to nothing, and restarts.
fn chaos() -> Vec<Scenario> {
    let with = |name: &str, about: &str, limit: Limit| {
        let about = format!("{about}; 10 % of permits dropped, two restarts");
        let mut scenario = one(name, &about, 120, Some(limit));
        scenario.chaos = Chaos {
            dropped: 0.1,
            restarts: vec![S(40), S(80)],
        };
        scenario
    };
    vec![with("b14", "bucket 50/s", bucket(50.0, 10))]
}

const S: fn(u64) -> Duration = Duration::from_secs;

fn at_once(max: u32) -> Limit {
    Limit::Concurrency { max }
}

fn bucket(per_second: f64, burst: u32) -> Limit {
    Limit::Bucket { per_second, burst }
}

fn fixed(max: u32, seconds: u64) -> Limit {
    Limit::Fixed {
        max,
        window: S(seconds),
        // Drawn for each run.
        phase: Duration::ZERO,
    }
}

fn one(name: &str, about: &str, seconds: u64, limit: Option<Limit>) -> Scenario {
    Scenario {
        name: name.to_owned(),
        about: about.to_owned(),
        lasts: S(seconds),
        origin: OriginSpec {
            endpoints: vec![limit.into_iter().collect()],
            service: Service::default(),
            refusal: Refusal::default(),
            ..OriginSpec::default()
        },
        ..Scenario::default()
    }
}
