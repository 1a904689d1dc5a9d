//! The hidden limits that a job is run against, and how fast each could be met.

use std::time::Duration;

use crawler_node::sim::{
    Ban, EndpointKnobs, Knobs, Latency, Limit, Refusal, RetryAfter, Step, When,
};

use super::job::{REQUESTS, SEARCHES};

/// Answers take 80 to 120 ms.
const LATENCY: Duration = Duration::from_millis(100);

/// One hidden limit.
pub(super) struct Hidden {
    pub(super) name: &'static str,
    pub(super) knobs: Knobs,
    /// The shortest time that a job can take: for each part, its requests ÷ the rate that the limit lets through in the
    /// long run (for a limit on those in flight: that number ÷ the mean latency), and the answers that must follow one
    /// another at the end. Bursts are not taken off.
    pub(super) ideal: Duration,
    /// The rate, where there is one and it stays.
    pub(super) rate: Option<f64>,
    /// Settings that tell a limit which stays; they leave a little room for requests that come closer together on
    /// their way.
    pub(super) told: &'static [&'static str],
    /// Run by the bounded set too.
    pub(super) bounded: bool,
}

const TOLD_RATE: &[&str] = &["sites.job.rate=48/s"];

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn one(name: &'static str, limit: Limit, rate: f64, refusal: Refusal) -> Hidden {
    Hidden {
        name,
        knobs: Knobs {
            seed: 5,
            latency: Latency::Between(LATENCY.mul_f64(0.8), LATENCY.mul_f64(1.2)),
            limits: vec![limit],
            refusal,
            ..Knobs::default()
        },
        ideal: seconds(f64::from(REQUESTS) / rate) + LATENCY,
        rate: Some(rate),
        told: TOLD_RATE,
        bounded: false,
    }
}

fn bucket(per_second: f64, burst: u32) -> Limit {
    Limit::Bucket { per_second, burst }
}

fn fixed(max: u32) -> Limit {
    Limit::Fixed {
        max,
        window: Duration::from_secs(1),
        phase: Duration::from_millis(fastrand::u64(0..1000)),
    }
}

/// `before` until a third of the job is admitted, `after` from then on.
fn change(name: &'static str, before: f64, after: f64) -> Hidden {
    let third = REQUESTS / 3;
    let mut hidden = one(name, bucket(before, 10), before, Refusal::default());
    hidden.knobs.steps = vec![Step {
        when: When::Admitted(third.into()),
        limits: vec![bucket(after, 10)],
    }];
    let rest = f64::from(REQUESTS - third);
    hidden.ideal = seconds(f64::from(third) / before + rest / after) + LATENCY;
    (hidden.rate, hidden.told) = (None, &[]);
    hidden
}

fn search_only() -> Hidden {
    let name = "1/s on search only";
    let own = EndpointKnobs {
        limits: vec![bucket(1.0, 1)],
        ..EndpointKnobs::default()
    };
    let mut hidden = one(name, bucket(1.0, 1), 1.0, Refusal::default());
    hidden.knobs.limits.clear();
    hidden.knobs.endpoints.insert("search".to_owned(), own);
    // After the last page: its items, and two pages of comments of each.
    hidden.ideal = seconds(f64::from(SEARCHES - 1)) + LATENCY * 4;
    (hidden.rate, hidden.told) = (None, &["sites.job.endpoints.search.rate=58/min"]);
    hidden
}

/// All hidden limits.
pub(super) fn hidden() -> Vec<Hidden> {
    let in_flight = Hidden {
        told: &["sites.job.max_concurrency_num=8"],
        bounded: true,
        ..one(
            "8 in flight",
            Limit::Concurrency { max: 8 },
            8.0 / LATENCY.as_secs_f64(),
            Refusal::default(),
        )
    };
    let window = Hidden {
        bounded: true,
        ..one("50 per fixed second", fixed(50), 50.0, Refusal::default())
    };
    let sliding = Limit::Sliding {
        max: 50,
        window: Duration::from_secs(1),
        count_refused: true,
    };
    let mut ban = one(
        "ban: 8 refusals in 1 s",
        bucket(50.0, 10),
        50.0,
        Refusal::default(),
    );
    ban.knobs.ban = Some(Ban {
        refusals: 8,
        within: Duration::from_secs(1),
        lasts: Duration::from_secs(30),
    });
    ban.bounded = true;
    let seconds = Refusal::default().retry_after(RetryAfter::Seconds);
    let date = Refusal::status(503).retry_after(RetryAfter::Date);
    vec![
        in_flight,
        window,
        one(
            "bucket 50/s + 10, Retry-After",
            bucket(50.0, 10),
            50.0,
            seconds,
        ),
        one("sliding 50/s", sliding, 50.0, Refusal::default()),
        change("fall 60/s to 20/s", 60.0, 20.0),
        change("rise 20/s to 80/s", 20.0, 80.0),
        search_only(),
        ban,
        one("503 with a date, 50/s", fixed(50), 50.0, date),
        one(
            "200 that says no, 50/s",
            bucket(50.0, 10),
            50.0,
            Refusal::in_body(300_013),
        ),
    ]
}
