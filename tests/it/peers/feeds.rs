//! Wherever a request comes from, it waits at the one gate of its host.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crawler_node::model::RobotsPolicy;
use crawler_node::settings::LimitMode;
use crawler_node::{Engine, Job};

use crate::support::{DEADLINE, settings};
use crate::told::{Teller, Told};

type Log = Arc<Mutex<Vec<(String, Instant)>>>;

/// A server that notes what was asked when.
fn noting(answer: impl Fn(&str) -> Told + Send + Sync + 'static) -> (Teller, Log) {
    let log = Log::default();
    let kept = Arc::clone(&log);
    let server = Teller::start(move |path, _| {
        let asked = (path.to_owned(), Instant::now());
        kept.lock().expect("whole").push(asked);
        answer(path)
    });
    (server, log)
}

fn seen(log: &Log) -> Vec<(String, Instant)> {
    log.lock().expect("whole").clone()
}

/// The shortest time between two requests.
fn shortest(log: &[(String, Instant)]) -> Duration {
    let gaps = log.windows(2).map(|pair| pair[1].1 - pair[0].1);
    gaps.min().unwrap_or(Duration::MAX)
}

/// Always 429 with a Retry-After; asked for by a crawl that obeys robots.txt, by one that does not, by a third
/// that is handed in while they run, and by the retries of them all.
#[actix_rt::test]
async fn l02_a_host_that_always_refuses_is_asked_once_in_its_time_whatever_asks() {
    const WAIT: Duration = Duration::from_secs(2);
    let (server, log) = noting(|_| Told::status(429).with("Retry-After", "2"));
    let dir = tempfile::tempdir().expect("a directory");
    let mut settings = settings(dir.path(), 16);
    // Its own pauses are short; what the server asks for is a floor that no scale shortens.
    settings.test_time_scale = 0.02;
    // The scale shortens it too.
    settings.max_wait = Duration::from_secs(3600);
    settings.retry.max_attempts = 20;
    let engine = Engine::builder(settings).start().expect("an engine");
    let urls = |name: &str| -> Vec<String> {
        let urls = (0..10).map(|n| format!("{}/{name}/{n}", server.base));
        urls.collect()
    };
    let out = |name: &str| dir.path().join(name);
    let careless = |name: &str| {
        let mut job = Job::crawl(urls(name)).out(out(name));
        job.crawl.robots = RobotsPolicy::Off;
        job
    };
    let seeds = engine.submit(Job::crawl(urls("seed")).out(out("seed")));
    let _seeds = seeds.await.expect("submitted");
    let _list = engine.submit(careless("list")).await.expect("submitted");
    let asked = |least: usize| {
        let log = log.clone();
        async move {
            while seen(&log).len() < least {
                tokio::task::yield_now().await;
            }
        }
    };
    let reached = tokio::time::timeout(DEADLINE, asked(2)).await;
    reached.expect("asked again");
    let _api = engine.submit(careless("api")).await.expect("submitted");
    let reached = tokio::time::timeout(DEADLINE, asked(4)).await;
    reached.expect("asked again");
    engine.stop(Duration::ZERO);
    let log = seen(&log);
    let mut times = BTreeMap::new();
    for (path, _) in &log {
        *times.entry(path.as_str()).or_insert(0) += 1;
    }
    assert!(shortest(&log) >= WAIT, "{:?}: {times:?}", shortest(&log));
    engine.drain().await;
}

/// A rate of five a second; pages that are handed in, pages that are found, and robots.txt before them.
#[actix_rt::test]
async fn l15_a_rate_holds_for_seeds_for_links_and_for_robots() {
    const GAP: Duration = Duration::from_millis(200);
    let paths: Vec<String> = (0..8).map(|n| format!("/{n}")).collect();
    let links = paths.clone();
    let (server, log) = noting(move |path| match path {
        "/" => Told::page(&links.iter().map(String::as_str).collect::<Vec<_>>()),
        _ => Told::page(&[]),
    });
    let urls = paths.iter().map(|path| format!("{}{path}", server.base));
    let start = format!("{}/", server.base);
    for (name, seeds) in [("listed", urls.collect()), ("linked", vec![start])] {
        log.lock().expect("whole").clear();
        let dir = tempfile::tempdir().expect("a directory");
        let mut settings = settings(dir.path(), 8);
        settings.limits.mode = Some(LimitMode::Fixed);
        settings.limits.rate = Some("5/s".parse().expect("a rate"));
        let engine = Engine::builder(settings).start().expect("an engine");
        let job = Job::crawl(seeds).out(dir.path().join("data"));
        let job = engine.submit(job).await.expect("submitted");
        let ended = tokio::time::timeout(DEADLINE, job.wait());
        let report = ended.await.expect("in time").expect("a report");
        assert_eq!(report.exit_code, 0, "{name}: {report:?}");
        engine.drain().await;
        let log = seen(&log);
        assert!(log.len() > 8, "{name}: {log:?}");
        assert!(log.iter().any(|(path, _)| path == "/robots.txt"), "{name}");
        // Granted on time, a request may reach the server a little sooner after the one before.
        let slack = Duration::from_millis(30);
        assert!(
            shortest(&log) + slack >= GAP,
            "{name}: {:?}",
            shortest(&log)
        );
        // No two catch up for long: all of them take their time.
        let whole = log[log.len() - 1].1 - log[0].1 + slack;
        assert!(whole >= GAP * (log.len() as u32 - 1), "{name}: {whole:?}");
    }
}
