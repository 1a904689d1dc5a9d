//! Limits as the server saw them: counts per window by its own log.

use std::process::Stdio;
use std::time::Duration;

use crawler_node::sim::{
    ApiSite, HtmlSite, Knobs, Latency, Limit, LogEntry, Refusal, RetryAfter, Server, SimConfig,
    SiteSpec,
};

use crate::support::{DEADLINE, binary, records, run};

fn server(knobs: Knobs, site: HtmlSite) -> (Server, String) {
    let server = Server::start(SimConfig {
        sites: vec![SiteSpec::new("web", site).knobs(knobs)],
        log_limit: 10_000,
    })
    .expect("the built-in site");
    let url = format!("{}/", server.base_url("web").expect("the site"));
    (server, url)
}

/// The log without robots.txt, once everything has ended.
fn log(server: &Server) -> Vec<LogEntry> {
    assert!(server.wait_for(DEADLINE, |counts| counts.in_flight == 0));
    let mut log = server.log();
    log.retain(|entry| entry.class != "robots");
    log
}

/// The most requests that arrived within any window of this length.
fn most_within(log: &[LogEntry], window: Duration) -> usize {
    log.iter()
        .map(|first| {
            log.iter()
                .filter(|entry| entry.at >= first.at && entry.at < first.at + window)
                .count()
        })
        .max()
        .unwrap_or(0)
}

#[test]
fn a_rate_holds_in_every_window_whatever_the_cap_and_the_latency() {
    for latency in [Duration::from_millis(1), Duration::from_millis(300)] {
        let knobs = Knobs {
            latency: Latency::Fixed(latency),
            ..Knobs::default()
        };
        let (server, url) = server(knobs, HtmlSite::new(8, 20));
        let dir = tempfile::tempdir().expect("a directory");
        let ran = run(binary(dir.path())
            .args(["crawl", "--urls", &url, "--max_concurrency_num", "8"])
            .args(["--rate", "20/s"]));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let log = log(&server);
        assert!(log.len() > 40, "{} requests", log.len());
        // Requests leave evenly; on their way two may come a little closer together.
        let most = most_within(&log, Duration::from_secs(1));
        assert!(most <= 22, "{most} requests within a second at {latency:?}");
        let length = log[log.len() - 1].at - log[0].at;
        let slowest = Duration::from_secs(log.len() as u64 / 20 + 2);
        assert!(length <= slowest, "{} requests took {length:?}", log.len());
    }
}

#[test]
fn retry_after_holds_back_everything_that_waits_in_the_lane() {
    let knobs = Knobs {
        latency: Latency::Fixed(Duration::from_millis(20)),
        limits: vec![Limit::Fixed {
            max: 12,
            window: Duration::from_secs(1),
            phase: Duration::ZERO,
        }],
        refusal: Refusal::status(429).retry_after(RetryAfter::Text("2".to_owned())),
        ..Knobs::default()
    };
    let site = HtmlSite::new(8, 20);
    let (server, url) = server(knobs, site.clone());
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(binary(dir.path())
        .args(["crawl", "--urls", &url, "--max_concurrency_num", "4"])
        // What the server asks for is a floor that no scale shortens.
        .args(["--set", "test_time_scale=0.01"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(
        records(&dir.path().join("data")).len(),
        site.expected().len()
    );
    let log = log(&server);
    let refused: Vec<&LogEntry> = log.iter().filter(|entry| entry.refused).collect();
    assert!(!refused.is_empty(), "the limit was never met");
    for refusal in refused {
        let told = refusal.ended.expect("it ended");
        let within = |from: Duration, to: Duration| {
            log.iter()
                .filter(|entry| entry.at > told + from && entry.at < told + to)
                .count()
        };
        // What had left before the answer was read is on its way still.
        let quiet = within(Duration::from_millis(200), Duration::from_millis(1950));
        assert_eq!(quiet, 0, "asked again before Retry-After had passed");
    }
}

#[test]
fn a_quota_is_exact_across_a_kill_and_the_server_refuses_nothing() {
    let window = Duration::from_secs(2);
    let api = ApiSite::new(2);
    let knobs = Knobs {
        // A little shorter than the quota's: requests may come closer together on their way.
        limits: vec![Limit::Sliding {
            max: 10,
            window: window - Duration::from_millis(100),
            count_refused: true,
        }],
        ..Knobs::default()
    };
    let server = Server::start(SimConfig {
        sites: vec![SiteSpec::new("api", api.clone()).knobs(knobs)],
        log_limit: 1000,
    })
    .expect("the built-in site");
    let base = server.base_url("api").expect("the site");
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("sites")).expect("a directory");
    std::fs::write(
        dir.path().join("sites/api.toml"),
        ApiSite::definition(&base),
    )
    .expect("a file");
    let ids: Vec<String> = api
        .found("rust")
        .into_iter()
        .take(8)
        .map(|id| api.item_url(&base, id))
        .collect();
    let command = || {
        let mut command = binary(dir.path());
        command
            .args([
                "crawl", "--sites", "sites", "--site", "demo-api", "--mode", "detail",
            ])
            .args(["--ids", &ids.join(","), "--max_concurrency_num", "4"])
            .env("CRAWLER__SITES__DEMO_API__QUOTA", "10/2s")
            // The quota alone: a search for the pace might use less of it.
            .env("CRAWLER__LIMITS__MODE", "fixed");
        command
    };
    for killed_at in [7, 13] {
        let mut child = command()
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        assert!(server.wait_for(DEADLINE, |counts| counts.requests() >= killed_at));
        child.kill().expect("killed");
        child.wait().expect("ended");
    }
    let ran = run(&mut command());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let log = log(&server);
    assert!(log.len() >= 20, "{} requests", log.len());
    assert_eq!(
        most_within(&log, window - Duration::from_millis(100)),
        10,
        "the quota is used, not exceeded"
    );
    assert_eq!(server.stop().refused(), 0);
}

#[test]
fn t15_a_limit_that_lets_nothing_through_is_an_error_at_start() {
    let dir = tempfile::tempdir().expect("a directory");
    for (key, value) in [
        ("limits.rate", "0/s"),
        ("limits.burst", "0"),
        ("limits.max_concurrency_num", "0"),
        ("limits.quota", "[\"0/h\"]"),
        ("sites.s.endpoints.e.rate", "0/min"),
    ] {
        let set = format!("{key}={value}");
        let ran = run(binary(dir.path())
            .args(["crawl", "--urls", "http://127.0.0.1:9/"])
            .args(["--set", &set]));
        assert_eq!(ran.code, Some(2), "{set}: {}", ran.stderr);
        assert!(ran.stderr.contains(key), "{set}: {}", ran.stderr);
    }
}
