//! One gate for every request, and each host has its own.

use std::time::Duration;

use crawler_node::Engine;
use crawler_node::Job;
use crawler_node::settings::LimitSettings;
use crawler_node::sim::{
    Fault, FaultKind, HtmlSite, Knobs, Limit, Pick, Refusal, RetryAfter, Server, SimConfig,
    SiteSpec,
};

use super::site::{
    Pages, Plain, base, fixed, latency, log, most_within, pages, run, serve, stored,
};

fn at_once(cap: u32) -> LimitSettings {
    LimitSettings {
        max_concurrency_num: Some(cap),
        ..LimitSettings::default()
    }
}

#[actix_rt::test]
async fn l01_a_redirect_takes_the_slot_of_its_own_host() {
    let target = serve([("b", Plain::default(), latency(40))]);
    let away = Plain {
        away: Some(base(&target, "b")),
        ..Plain::default()
    };
    let names = ["a0", "a1", "a2", "a3", "a4"];
    let server = serve(names.map(|name| (name, away.clone(), Knobs::default())));
    let dir = tempfile::tempdir().expect("a directory");
    let urls = names.iter().enumerate().flat_map(|(host, name)| {
        let base = base(&server, name);
        (0..3).map(move |n| ("r", format!("{base}/r/{host}{n}")))
    });
    let site = Pages::new(urls).by_host().limited(at_once(1));
    let report = run(fixed(dir.path(), 64), site, dir.path()).await;
    assert_eq!((report.exit_code, stored(&report)), (0, 15));
    let hops = log(&target, "b");
    assert_eq!(hops.len(), 15);
    assert_eq!(
        target.stop().peak_in_flight,
        1,
        "the target is hit beyond its cap"
    );
    let last = names
        .iter()
        .flat_map(|name| log(&server, name))
        .map(|entry| entry.at)
        .max();
    let spent = last.expect("asked");
    // 15 hops of 40 ms one after another; those who wait for theirs hold no slot of the hosts they came from.
    assert!(
        spent < Duration::from_millis(400),
        "the last redirect was asked after {spent:?}"
    );
    assert!(server.stop().peak_in_flight <= 5);
}

#[actix_rt::test]
async fn l02_and_l15_one_gate_whatever_a_request_comes_from() {
    // Seeds, links, redirects, robots.txt and retries.
    let html = HtmlSite::new(5, 25);
    let knobs = Knobs {
        faults: vec![Fault {
            kind: FaultKind::Status(500),
            pick: Pick::Resources {
                share: 0.2,
                attempts: 1,
            },
        }],
        ..Knobs::default()
    };
    let server = Server::start(SimConfig {
        sites: vec![SiteSpec::new("web", html.clone()).knobs(knobs)],
        log_limit: 10_000,
    })
    .expect("the server");
    let dir = tempfile::tempdir().expect("a directory");
    let mut settings = fixed(dir.path(), 8);
    settings.limits.rate = Some("20/s".parse().expect("a rate"));
    let engine = Engine::builder(settings).start().expect("an engine");
    let base = base(&server, "web");
    let seeds = html
        .expected()
        .into_iter()
        .take(4)
        .map(|path| format!("{base}{path}"));
    let seeds = seeds.chain([format!("{base}/")]);
    let job = Job::crawl(seeds).out(dir.path().join("data"));
    let report = engine
        .submit(job)
        .await
        .expect("submitted")
        .wait()
        .await
        .expect("ended");
    assert_eq!(report.exit_code, 0, "{report:?}");
    engine.drain().await;
    let log = log(&server, "web");
    let of = |class: &str| log.iter().filter(|entry| entry.class == class).count();
    assert!(
        of("robots") == 1 && of("redirect") > 0 && of("page") > 25,
        "{}",
        log.len()
    );
    assert!(
        server.stop().sites["web"].repeats > 0,
        "something was retried"
    );
    let most = most_within(&log, Duration::from_secs(1));
    assert!(most <= 21, "{most} requests within a second");
    // On its way a request may catch up with the one before.
    let shortest = log.windows(2).map(|pair| pair[1].at - pair[0].at).min();
    assert!(
        shortest >= Some(Duration::from_millis(25)),
        "a gap of {shortest:?}"
    );
}

#[actix_rt::test]
async fn l05_a_refusal_holds_the_host_and_loses_no_url() {
    let window = Duration::from_secs(1);
    let knobs = Knobs {
        limits: vec![Limit::Fixed {
            max: 20,
            window,
            phase: Duration::ZERO,
        }],
        refusal: Refusal::status(429).retry_after(RetryAfter::Seconds),
        ..latency(3)
    };
    let server = serve([
        ("a", Plain::default(), knobs),
        ("b", Plain::default(), latency(3)),
    ]);
    let dir = tempfile::tempdir().expect("a directory");
    let urls = pages(&base(&server, "a"), "a", 50)
        .chain(pages(&base(&server, "b"), "b", 50))
        .collect::<Vec<_>>();
    let report = run(fixed(dir.path(), 4), Pages::new(urls).by_host(), dir.path()).await;
    assert_eq!((report.exit_code, stored(&report)), (0, 100), "{report:?}");
    let refusing = log(&server, "a");
    let refusals: Vec<_> = refusing.iter().filter(|entry| entry.refused).collect();
    let first = refusals
        .first()
        .expect("the limit is met")
        .ended
        .expect("ended");
    // What was in flight then may be refused as well; nothing of the host leaves after that, before its time.
    let early = |entry: &&crawler_node::sim::LogEntry| {
        entry.at > first + Duration::from_millis(30)
            && entry.at < first + Duration::from_millis(950)
    };
    assert_eq!(refusing.iter().filter(early).count(), 0);
    assert!(refusals.len() <= 4 * 4, "{} refusals", refusals.len());
    let free = log(&server, "b");
    let done = free
        .iter()
        .filter_map(|entry| entry.ended)
        .max()
        .expect("ended");
    assert!(
        done < first + Duration::from_millis(900),
        "the other host waited"
    );
}

#[actix_rt::test]
async fn l16_a_host_that_refuses_holds_no_worker_and_gets_one_probe() {
    let refusing = Knobs {
        faults: Vec::new(),
        limits: vec![Limit::Sliding {
            max: 1,
            window: Duration::from_secs(3600),
            count_refused: true,
        }],
        refusal: Refusal::status(429).retry_after(RetryAfter::Text("2".to_owned())),
        ..Knobs::default()
    };
    let server = serve([
        ("a", Plain::default(), refusing),
        ("b", Plain::default(), latency(20)),
    ]);
    let dir = tempfile::tempdir().expect("a directory");
    let urls = pages(&base(&server, "a"), "a", 20)
        .chain(pages(&base(&server, "b"), "b", 20))
        .collect::<Vec<_>>();
    let mut settings = fixed(dir.path(), 4);
    settings.test_time_scale = 1.0;
    settings.max_wait = Duration::from_secs(3);
    let report = run(settings, Pages::new(urls).by_host(), dir.path()).await;
    assert_eq!(report.exit_code, 4, "{report:?}");
    assert_eq!(
        stored(&report),
        21,
        "one page of the first host, all of the second"
    );
    let free = log(&server, "b");
    let span = free
        .iter()
        .filter_map(|entry| entry.ended)
        .max()
        .expect("ended")
        - free[0].at;
    assert!(
        span < Duration::from_millis(600),
        "20 pages of 20 ms, 4 at once, took {span:?}"
    );
    let held = log(&server, "a");
    let first = held.iter().find(|entry| entry.refused).expect("refused").at;
    let between = |from: u64, to: u64| {
        let (from, to) = (Duration::from_millis(from), Duration::from_millis(to));
        held.iter()
            .filter(|entry| entry.at > first + from && entry.at < first + to)
            .count()
    };
    assert_eq!(between(50, 1950), 0);
    assert_eq!(between(1950, 3950), 1, "one probe when the time has come");
}
