//! Scenarios with parameters drawn at random, so that a law cannot be made for the built-in ones.
//!
//! Limits are log-uniform from 1 to 1000 a second, work log-uniform from 20 to 800 ms, a bucket holds 1 to 2 s of its
//! rate, a window is log-uniform from 1 to 900 s. A window's limit is bounded so that a run has at most 400 000
//! requests; a run lasts two minutes or four windows.

use std::time::Duration;

use fastrand::Rng;

use super::origin::{Mishap, Trouble};
use super::scenario::{Change, Scenario};
use super::service::Draw;
use super::told::RetryTold;
use crate::sim::{Ban, Limit};

const MOST_REQUESTS: f64 = 400_000.0;

/// The scenario of a seed.
#[must_use]
pub fn drawn(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed ^ 0x5EED_0F5C_E4A1_0D5E);
    let mut scenario = Scenario {
        name: format!("drawn-{seed}"),
        ..Scenario::default()
    };
    let work = log_uniform(&mut rng, 20.0, 800.0);
    scenario.origin.service.time = Draw::ms((work * 0.8) as u64, (work * 0.2) as u64);
    if rng.bool() {
        scenario.origin.refusal.retry_after = RetryTold::Seconds;
    }
    let rate = log_uniform(&mut rng, 1.0, 1000.0);
    let kind = KINDS[rng.usize(..KINDS.len())];
    let held = scenario.origin.service.mean() + 2.0 * scenario.wire.as_secs_f64();
    match kind {
        "at once" => put(
            &mut scenario,
            Limit::Concurrency {
                max: count(rate * held),
            },
        ),
        "fixed" | "sliding" => {
            let length = log_uniform(&mut rng, 1.0, 900.0);
            let lasts = (4.0 * length).max(120.0);
            let rate = rate.min(MOST_REQUESTS / lasts);
            let window = Duration::from_secs_f64(length);
            let max = count(rate * length);
            scenario.lasts = Duration::from_secs_f64(lasts);
            // The first window is where a long limit shows itself.
            scenario.warm_up = scenario.warm_up.max(window);
            put(
                &mut scenario,
                if kind == "fixed" {
                    Limit::Fixed {
                        max,
                        window,
                        phase: Duration::ZERO,
                    }
                } else {
                    Limit::Sliding {
                        max,
                        window,
                        count_refused: rng.bool(),
                    }
                },
            );
        }
        "workers" => {
            let workers = count(rate * scenario.origin.service.mean());
            scenario.origin.service.workers = Some(workers);
        }
        "endpoints" => {
            let limit = bucket(&mut rng, rate);
            put(&mut scenario, limit);
            let other = log_uniform(&mut rng, 1.0, 1000.0);
            let limit = bucket(&mut rng, other);
            scenario.origin.endpoints.push(vec![limit]);
        }
        "change" => {
            let limit = bucket(&mut rng, rate);
            put(&mut scenario, limit);
            let factor = log_uniform(&mut rng, 0.2, 5.0);
            let limit = bucket(&mut rng, (rate * factor).clamp(1.0, 1000.0));
            scenario.lasts = Duration::from_secs(240);
            scenario.changes.push(Change {
                at: Duration::from_secs(120),
                limits: Vec::new(),
                endpoints: vec![vec![limit]],
            });
        }
        "shared" => {
            let rate = rate.max(8.0);
            let limit = bucket(&mut rng, rate);
            put(&mut scenario, limit);
            scenario.clients = rng.usize(2..=4);
            scenario.lasts = Duration::from_secs(240);
        }
        _ => {
            let limit = bucket(&mut rng, rate);
            put(&mut scenario, limit);
            let origin = &mut scenario.origin;
            match kind {
                "ban" => {
                    origin.ban = Some(Ban {
                        refusals: rng.u32(15..=40),
                        within: Duration::from_secs(60),
                        lasts: Duration::from_secs(rng.u64(30..=120)),
                    });
                    scenario.lasts = Duration::from_secs(300);
                }
                "soft" => origin.refusal.soft = true,
                "noise" => {
                    origin.service.other = Some((0.3, Draw::ms((work * 3.0) as u64, work as u64)));
                    for (share, what) in [(0.02, Mishap::Error), (0.005, Mishap::Reset)] {
                        origin.troubles.push(Trouble { share, what });
                    }
                }
                _ => {}
            }
        }
    }
    scenario.about = format!("{kind}, {rate:.1}/s, work {work:.0} ms");
    scenario
}

/// A plain bucket is the commonest.
const KINDS: [&str; 12] = [
    "bucket",
    "bucket",
    "fixed",
    "sliding",
    "at once",
    "workers",
    "endpoints",
    "change",
    "shared",
    "ban",
    "noise",
    "soft",
];

fn put(scenario: &mut Scenario, limit: Limit) {
    scenario.origin.endpoints[0].push(limit);
}

fn bucket(rng: &mut Rng, per_second: f64) -> Limit {
    let burst = count(per_second * (1.0 + rng.f64()));
    Limit::Bucket { per_second, burst }
}

fn count(number: f64) -> u32 {
    // The ranges above keep it far below the largest u32.
    number.round().max(1.0) as u32
}

fn log_uniform(rng: &mut Rng, least: f64, most: f64) -> f64 {
    least * (most / least).powf(rng.f64())
}
