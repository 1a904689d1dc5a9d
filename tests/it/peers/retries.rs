//! Retries: bounded by task and by site, and an outage is not the tasks' fault.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crawler_node::sim::{Fault, FaultKind, Knobs, LogEntry, Pick};

use super::site::{Pages, Plain, base, fixed, latency, log, run, serve, stored, tasks};

fn always(status: u16) -> Knobs {
    Knobs {
        faults: vec![Fault {
            kind: FaultKind::Status(status),
            pick: Pick::Attempts { share: 1.0 },
        }],
        ..latency(2)
    }
}

fn by_target(log: &[LogEntry]) -> BTreeMap<&str, usize> {
    log.iter().fold(BTreeMap::new(), |mut counts, entry| {
        *counts.entry(entry.target.as_str()).or_default() += 1;
        counts
    })
}

#[actix_rt::test]
async fn l25_no_url_is_asked_oftener_than_its_attempts_and_a_storm_far_less() {
    for (urls, failed, parked) in [(1, 1, 0), (3, 0, 3), (100, 0, 0)] {
        let server = serve([("a", Plain::default(), always(503))]);
        let dir = tempfile::tempdir().expect("a directory");
        let mut settings = fixed(dir.path(), 4);
        settings.test_time_scale = 0.01;
        settings.retry.max_attempts = 4;
        settings.max_wait = Duration::from_secs(120);
        let report = run(
            settings,
            Pages::of(&base(&server, "a"), "a", urls),
            dir.path(),
        )
        .await;
        let log = log(&server, "a");
        let counts = by_target(&log);
        assert!(counts.values().all(|count| *count <= 4), "{counts:?}");
        assert_eq!(
            (stored(&report), tasks(&report, "failed")),
            (0, failed),
            "{urls} URLs"
        );
        if urls == 100 {
            assert_eq!(report.exit_code, 4);
            assert_eq!(tasks(&report, "pending"), 100, "nothing was given up");
            assert!(log.len() < 30, "{} requests", log.len());
        } else {
            assert_eq!(tasks(&report, "parked"), parked, "{urls} URLs");
            assert_eq!(log.len(), 4 * urls);
        }
    }
}

#[actix_rt::test]
async fn l25_retries_are_a_share_of_first_requests() {
    const URLS: usize = 500;
    let knobs = Knobs {
        faults: vec![Fault {
            kind: FaultKind::Status(500),
            pick: Pick::Resources {
                share: 0.4,
                attempts: 1,
            },
        }],
        ..latency(2)
    };
    let server = serve([("a", Plain::default(), knobs)]);
    let dir = tempfile::tempdir().expect("a directory");
    let mut settings = fixed(dir.path(), 4);
    settings.test_time_scale = 0.05;
    settings.retry.base = Duration::from_millis(10);
    let ratio = settings.retry.ratio;
    let report = run(
        settings,
        Pages::of(&base(&server, "a"), "a", URLS),
        dir.path(),
    )
    .await;
    assert_eq!(
        (report.exit_code, stored(&report)),
        (0, URLS as u64),
        "{report:?}"
    );
    let log = log(&server, "a");
    let mut seen = BTreeSet::new();
    let (mut firsts, mut retries) = (0, 0);
    for entry in &log {
        match seen.insert(&entry.target) {
            true => firsts += 1,
            false => retries += 1,
        }
        // The reserve, the earned share, and one more each second of the scaled time.
        let floor = 20.0 * (entry.at - log[0].at).as_secs_f64();
        let most = 10.0 + ratio * f64::from(firsts) + floor + 1.0;
        assert!(
            f64::from(retries) <= most,
            "{retries} retries of {firsts} requests"
        );
    }
    assert!(retries > 150, "{retries} retries");
}

#[actix_rt::test]
async fn l26_an_outage_fails_nothing_and_is_probed_a_few_times() {
    const URLS: usize = 1000;
    let dir = tempfile::tempdir().expect("a directory");
    // One minute at this scale.
    let outage = Duration::from_secs(3);
    let until = Instant::now() + outage;
    let content = Plain {
        out_until: Some(until),
        ..Plain::default()
    };
    let server = serve([("a", content, Knobs::default())]);
    let report = run(
        fixed(dir.path(), 8),
        Pages::of(&base(&server, "a"), "a", URLS),
        dir.path(),
    )
    .await;
    assert_eq!(
        (report.exit_code, stored(&report)),
        (0, URLS as u64),
        "{report:?}"
    );
    assert_eq!((tasks(&report, "failed"), tasks(&report, "parked")), (0, 0));
    let during = log(&server, "a")
        .iter()
        .filter(|entry| entry.status == Some(503))
        .count();
    assert!(during < 30, "{during} requests during the outage");
}

/// Answers the first request of each connection as if it were kept, and closes it at the second.
fn one_answer_each(requests: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let requests = requests.clone();
            std::thread::spawn(move || {
                for answer in [true, false] {
                    let (mut head, mut byte) = (Vec::new(), [0]);
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read(&mut byte) {
                            Ok(1) => head.push(byte[0]),
                            _ => return,
                        }
                    }
                    requests.fetch_add(1, Ordering::SeqCst);
                    if answer {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                    }
                }
            });
        }
    });
    base
}

#[actix_rt::test]
async fn l28_a_kept_connection_that_was_closed_costs_a_permit_and_no_attempt() {
    let requests = Arc::new(AtomicUsize::new(0));
    let base = one_answer_each(requests.clone());
    let dir = tempfile::tempdir().expect("a directory");
    let mut settings = fixed(dir.path(), 1);
    settings.retry.max_attempts = 1;
    let mut site = Pages::of(&base, "a", 20);
    site.limits.site.rate = Some("50/s".parse().expect("a rate"));
    let started = Instant::now();
    let report = run(settings, site, dir.path()).await;
    assert_eq!((report.exit_code, stored(&report)), (0, 20), "{report:?}");
    let endpoint = &report.sites["pages"].endpoints["a"];
    assert_eq!(endpoint.requests, 30, "every second one is asked again");
    assert_eq!(requests.load(Ordering::SeqCst), 30);
    let paced = Duration::from_millis(29 * 20);
    assert!(
        started.elapsed() >= paced,
        "asked again without a permit of its own"
    );
}
