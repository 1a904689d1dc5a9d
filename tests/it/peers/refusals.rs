//! One refusal is one decision, and the lane recovers from it.

use std::time::Duration;

use crawler_node::sim::{Fault, FaultKind, Knobs, Limit, Pick, Refusal, RetryAfter};

use super::site::{Pages, Plain, base, fixed, latency, log, run, serve, stored, tasks};

fn arrivals(kind: FaultKind, which: std::ops::Range<u64>) -> Knobs {
    Knobs {
        faults: vec![Fault {
            kind,
            pick: Pick::Arrivals(which),
        }],
        ..latency(30)
    }
}

#[actix_rt::test]
async fn l22_a_burst_of_refusals_is_one_step_of_the_back_off() {
    let server = serve([(
        "a",
        Plain::default(),
        arrivals(FaultKind::Status(429), 1..9),
    )]);
    let dir = tempfile::tempdir().expect("a directory");
    let settings = fixed(dir.path(), 8);
    let pause = settings.backoff.base.mul_f64(settings.test_time_scale);
    let report = run(
        settings,
        Pages::of(&base(&server, "a"), "a", 60),
        dir.path(),
    )
    .await;
    assert_eq!((report.exit_code, stored(&report)), (0, 60));
    let log = log(&server, "a");
    assert_eq!(
        log.iter().filter(|entry| entry.status == Some(429)).count(),
        8
    );
    let refused = log[..8]
        .iter()
        .filter_map(|entry| entry.ended)
        .min()
        .expect("ended");
    let waited = log[8].at - refused;
    // The first step with its jitter; the second one alone would be twice as long.
    assert!(
        waited >= pause && waited < pause * 2,
        "waited {waited:?} for a pause of {pause:?}"
    );
}

#[actix_rt::test]
async fn l23_a_lane_that_was_refused_is_as_fast_as_before() {
    let server = serve([(
        "a",
        Plain::default(),
        arrivals(FaultKind::Status(429), 20..30),
    )]);
    let dir = tempfile::tempdir().expect("a directory");
    let report = run(
        fixed(dir.path(), 4),
        Pages::of(&base(&server, "a"), "a", 200),
        dir.path(),
    )
    .await;
    assert_eq!((report.exit_code, stored(&report)), (0, 200));
    let log = log(&server, "a");
    let span =
        |from: usize, to: usize| (log[to].at - log[from].at).as_secs_f64() / (to - from) as f64;
    let (before, after) = (span(4, 18), span(100, 200));
    assert!(
        after < before * 1.5,
        "{before} s each before, {after} s after"
    );
}

#[actix_rt::test]
async fn a_refusal_in_the_body_is_known_before_the_next_request_leaves() {
    let told = FaultKind::Replace {
        content_type: "text/plain".to_owned(),
        body: "slow down\n".to_owned(),
    };
    let server = serve([("a", Plain::default(), arrivals(told, 10..11))]);
    let dir = tempfile::tempdir().expect("a directory");
    let mut settings = fixed(dir.path(), 1);
    settings.test_time_scale = 0.1;
    let pause = Duration::from_millis(200);
    let report = run(
        settings,
        Pages::of(&base(&server, "a"), "a", 30),
        dir.path(),
    )
    .await;
    assert_eq!((report.exit_code, stored(&report)), (0, 30));
    let log = log(&server, "a");
    let waited = log[10].at - log[9].ended.expect("ended");
    assert!(waited >= pause, "the next request came after {waited:?}");
}

#[actix_rt::test]
async fn l06_a_long_demand_parks_the_host_and_the_run_says_when_to_come_back() {
    let refusing = Knobs {
        limits: vec![Limit::Sliding {
            max: 1,
            window: Duration::from_secs(3600),
            count_refused: true,
        }],
        refusal: Refusal::status(429).retry_after(RetryAfter::Text("3600".to_owned())),
        ..Knobs::default()
    };
    let server = serve([
        ("a", Plain::default(), refusing),
        ("b", Plain::default(), latency(5)),
    ]);
    let dir = tempfile::tempdir().expect("a directory");
    let urls = super::site::pages(&base(&server, "a"), "a", 10)
        .chain(super::site::pages(&base(&server, "b"), "b", 30))
        .collect::<Vec<_>>();
    let mut settings = fixed(dir.path(), 2);
    settings.max_wait = Duration::from_secs(120);
    let report = run(settings, Pages::new(urls).by_host(), dir.path()).await;
    assert_eq!(report.exit_code, 4);
    assert_eq!(stored(&report), 31);
    assert_eq!(
        (tasks(&report, "pending"), tasks(&report, "failed")),
        (9, 0)
    );
    assert!(report.sites["pages"].blocked_until.is_some(), "{report:?}");
    assert!(log(&server, "a").len() <= 3);
}
