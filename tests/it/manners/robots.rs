//! robots.txt: what each answer means for the pages of its host, between runs too.

use std::io::Write;
use std::time::{Duration, Instant};

use crawler_node::settings::{CrawlDelay, SiteSettings};
use crawler_node::{Report, RunOutcome};

use super::server::{Heard, Raw, Say, page, say};
use super::{crawl, fast};
use crate::support::{DEADLINE, binary, run};

const RULES: &str = "User-agent: *\nDisallow: /private\n";

fn site(robots: impl Fn(&Heard) -> Say + Send + Sync + 'static) -> Raw {
    Raw::start(move |heard| match heard.path.as_str() {
        "/robots.txt" => robots(heard),
        "/" => page(&[], &["/private", "/a", "/b"]),
        _ => page(&[], &[]),
    })
}

fn task_count(report: &Report, state: &str) -> u64 {
    report.sites["web"].tasks[state]
}

fn sorted(mut paths: Vec<String>) -> Vec<String> {
    paths.sort();
    paths
}

#[actix_rt::test]
async fn l42_what_tells_no_rules_allows_all() {
    type Answer = fn(&Heard) -> Say;
    let missing: [(&str, Answer); 7] = [
        ("401", |_| say(401, &[("WWW-Authenticate", "Basic")], RULES)),
        ("403", |_| say(403, &[], RULES)),
        ("404", |_| say(404, &[], RULES)),
        ("410", |_| say(410, &[], RULES)),
        ("451", |_| say(451, &[], RULES)),
        ("204", |_| say(204, &[], "")),
        ("an HTML page", |_| {
            say(200, &[], "<html>Disallow: /private</html>")
        }),
    ];
    for (name, answer) in missing {
        let server = site(answer);
        let dir = tempfile::tempdir().unwrap();
        let report = crawl(fast(dir.path(), 2), dir.path(), "data", &[&server.url("/")]).await;
        assert_eq!(report.outcome, RunOutcome::Complete, "{name}");
        assert_eq!(
            sorted(server.paths()),
            ["/", "/a", "/b", "/private"],
            "{name}"
        );
        assert_eq!(server.counts().0, 1, "{name}");
    }
}

#[actix_rt::test]
async fn l42_what_leaves_the_rules_unknown_lets_nothing_be_fetched_and_costs_no_task_an_attempt() {
    type Answer = fn(&Heard) -> Say;
    let unknown: [(&str, Answer); 7] = [
        ("500 with a page", |_| say(500, &[], "<html>Oops</html>")),
        ("503", |_| say(503, &[], "")),
        ("429", |_| say(429, &[], "")),
        ("408", |_| say(408, &[], "")),
        ("reset", |_| Say::Reset),
        ("hang", |_| Say::Hang),
        ("cut short", |_| {
            Say::Bytes(b"HTTP/1.1 200 OK\r\nContent-Le".to_vec())
        }),
    ];
    for (name, answer) in unknown {
        let server = site(answer);
        let dir = tempfile::tempdir().unwrap();
        let mut settings = fast(dir.path(), 2);
        settings.test_time_scale = 0.01;
        settings.max_wait = Duration::from_secs(60);
        settings.exchange.head_timeout = Duration::from_millis(50);
        settings.exchange.total_timeout = Duration::from_millis(200);
        let urls = [&*server.url("/"), &server.url("/a")];
        let report = crawl(settings, dir.path(), "data", &urls).await;
        assert_eq!(report.outcome, RunOutcome::Blocked, "{name}: {report:?}");
        let (robots, pages) = server.counts();
        assert_eq!(pages, 0, "{name}");
        assert!(robots >= 2, "{name}: asked {robots} times");
        assert_eq!(task_count(&report, "failed"), 0, "{name}");
        let waiting = task_count(&report, "parked") + task_count(&report, "pending");
        assert_eq!(waiting, 2, "{name}");
        for trouble in &report.sites["web"].troubles {
            assert_eq!(trouble.attempts, 0, "{name}: {trouble:?}");
        }
    }
}

#[actix_rt::test]
async fn l42_a_host_that_recovers_is_crawled_as_if_nothing_had_been() {
    let server = site(|heard| match heard.nth {
        0..6 => say(503, &[], ""),
        _ => say(200, &[], RULES),
    });
    let dir = tempfile::tempdir().unwrap();
    let mut settings = fast(dir.path(), 2);
    settings.retry.max_attempts = 1;
    let report = crawl(settings, dir.path(), "data", &[&server.url("/")]).await;
    assert_eq!(report.outcome, RunOutcome::Complete, "{report:?}");
    assert_eq!(sorted(server.paths()), ["/", "/a", "/b"]);
    assert_eq!(report.sites["web"].endpoints["page"].retries, 0);
    assert_eq!(server.counts().0, 7);
}

#[actix_rt::test]
async fn l42_a_host_in_trouble_holds_up_no_other() {
    let bad = site(|_| say(500, &[], ""));
    let good = site(|_| say(200, &[], RULES));
    let dir = tempfile::tempdir().unwrap();
    let mut settings = fast(dir.path(), 2);
    settings.test_time_scale = 0.01;
    settings.max_wait = Duration::from_secs(30);
    let urls = [&*bad.url("/"), &good.url("/")];
    let report = crawl(settings, dir.path(), "data", &urls).await;
    assert_eq!(report.outcome, RunOutcome::Blocked);
    assert_eq!(sorted(good.paths()), ["/", "/a", "/b"]);
    assert_eq!(bad.counts().1, 0);
}

#[actix_rt::test]
async fn l42_after_the_configured_time_an_unreachable_file_counts_as_missing() {
    let server = site(|_| say(500, &[], ""));
    let dir = tempfile::tempdir().unwrap();
    let mut settings = fast(dir.path(), 2);
    settings.test_time_scale = 0.01;
    settings.robots.unreachable_for = Some(Duration::from_secs(20));
    let report = crawl(settings, dir.path(), "data", &[&server.url("/")]).await;
    assert_eq!(report.outcome, RunOutcome::Complete, "{report:?}");
    assert_eq!(sorted(server.paths()), ["/", "/a", "/b", "/private"]);
    assert!(server.counts().0 > 2);
}

#[actix_rt::test]
async fn l38_a_host_that_takes_no_connection_ends_its_tasks() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", nobody.local_addr().unwrap());
    drop(nobody);
    let dir = tempfile::tempdir().unwrap();
    let report = crawl(fast(dir.path(), 1), dir.path(), "data", &[&url]).await;
    assert_eq!(report.outcome, RunOutcome::Partial, "{report:?}");
    assert_eq!(task_count(&report, "failed"), 1);
}

/// `hops` redirects of robots.txt on one host, and the rules at their end.
fn moved(hops: usize) -> Raw {
    let to = move |number: usize| say(302, &[("Location", &format!("/r{number}"))], "");
    Raw::start(move |heard| match heard.path.as_str() {
        "/robots.txt" => to(1),
        "/" => page(&[], &["/private"]),
        path => match path.strip_prefix("/r").map(str::parse::<usize>) {
            Some(Ok(number)) if number < hops => to(number + 1),
            Some(Ok(_)) => say(200, &[], RULES),
            _ => page(&[], &[]),
        },
    })
}

#[actix_rt::test]
async fn l42_five_redirects_lead_to_the_rules_and_six_to_nothing() {
    for (hops, private) in [(5, false), (6, true)] {
        let server = moved(hops);
        let dir = tempfile::tempdir().unwrap();
        let report = crawl(fast(dir.path(), 1), dir.path(), "data", &[&server.url("/")]).await;
        assert_eq!(report.outcome, RunOutcome::Complete);
        let paths = server.paths();
        assert_eq!(
            paths.contains(&"/private".to_owned()),
            private,
            "{hops}: {paths:?}"
        );
        assert!(!paths.contains(&"/r6".to_owned()), "{hops}: {paths:?}");
    }
}

#[actix_rt::test]
async fn l42_rules_found_on_another_host_are_those_of_the_first() {
    let other = Raw::start(|heard| match heard.path.as_str() {
        "/robots.txt" => say(200, &[], "User-agent: *\nDisallow: /a\n"),
        "/shared-rules" => say(200, &[], RULES),
        _ => page(&[], &[]),
    });
    let to = other.url("/shared-rules");
    let server = site(move |_| say(301, &[("Location", &to)], ""));
    let dir = tempfile::tempdir().unwrap();
    let urls = [&*server.url("/"), &other.url("/a"), &other.url("/private")];
    let report = crawl(fast(dir.path(), 2), dir.path(), "data", &urls).await;
    assert_eq!(report.outcome, RunOutcome::Complete);
    assert_eq!(sorted(server.paths()), ["/", "/a", "/b"]);
    assert_eq!(sorted(other.paths()), ["/private", "/shared-rules"]);
}

#[actix_rt::test]
async fn l43_every_form_of_a_file_is_understood() {
    let utf16 = |bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        "\u{feff}User-agent: *\nDisallow: /private"
            .encode_utf16()
            .flat_map(bytes)
            .collect()
    };
    let gzip = {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(RULES.as_bytes()).unwrap();
        packed.finish().unwrap()
    };
    let filler = format!("# {}\n", "x".repeat(1021)).repeat(600);
    type Form = (&'static str, Vec<(&'static str, &'static str)>, Vec<u8>);
    let forms: Vec<Form> = vec![
        ("a mark", vec![], format!("\u{feff}{RULES}").into_bytes()),
        ("UTF-16 LE", vec![], utf16(u16::to_le_bytes)),
        ("UTF-16 BE", vec![], utf16(u16::to_be_bytes)),
        ("CR only", vec![], RULES.replace('\n', "\r").into_bytes()),
        ("packed", vec![("Content-Encoding", "gzip")], gzip.clone()),
        (
            "packed, not labelled",
            vec![("Content-Type", "application/gzip")],
            gzip,
        ),
        (
            "600 KB",
            vec![],
            format!("{RULES}{filler}Disallow: /a\n").into_bytes(),
        ),
    ];
    for (name, fields, body) in forms {
        let server = site(move |_| say(200, &fields, &body));
        let dir = tempfile::tempdir().unwrap();
        let report = crawl(fast(dir.path(), 2), dir.path(), "data", &[&server.url("/")]).await;
        assert_eq!(report.outcome, RunOutcome::Complete, "{name}");
        assert_eq!(sorted(server.paths()), ["/", "/a", "/b"], "{name}");
    }
}

#[actix_rt::test]
async fn l43_of_a_file_larger_than_any_body_may_be_the_first_part_is_asked_for() {
    let text = format!("{RULES}{}", "# filler\n".repeat(20_000));
    let server = site(move |heard| match heard.field("range") {
        Some(range) => {
            let last: usize = range.trim_start_matches("bytes=0-").parse().unwrap();
            say(206, &[], &text[..=last])
        }
        None => say(200, &[], &text),
    });
    let dir = tempfile::tempdir().unwrap();
    let mut settings = fast(dir.path(), 2);
    settings.exchange.max_body_bytes = 64 * 1024;
    let report = crawl(settings, dir.path(), "data", &[&server.url("/")]).await;
    assert_eq!(report.outcome, RunOutcome::Complete, "{report:?}");
    assert_eq!(sorted(server.paths()), ["/", "/a", "/b"]);
    assert_eq!(server.counts().0, 2);
}

#[actix_rt::test]
async fn the_next_run_asks_again_only_when_the_file_has_expired() {
    let server = site(|_| say(200, &[("Cache-Control", "max-age=0")], RULES));
    let dir = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let mut settings = fast(dir.path(), 2);
    // Five minutes, the least that a file is kept, are three seconds.
    settings.test_time_scale = 0.01;
    crawl(settings.clone(), dir.path(), "0", &[&server.url("/")]).await;
    let mut runs = 1;
    while server.counts().0 == 1 {
        assert!(began.elapsed() < DEADLINE, "never asked again");
        crawl(
            settings.clone(),
            dir.path(),
            &runs.to_string(),
            &[&server.url("/")],
        )
        .await;
        runs += 1;
    }
    assert!(began.elapsed() >= Duration::from_secs(3), "asked too early");
    assert!(runs > 1);
    assert!(!server.paths().contains(&"/private".to_owned()));
}

#[actix_rt::test]
async fn a_copy_of_an_earlier_run_holds_while_the_file_is_unreachable() {
    let server = site(|heard| match heard.nth {
        0 => say(200, &[], RULES),
        _ => say(500, &[], ""),
    });
    let dir = tempfile::tempdir().unwrap();
    let mut settings = fast(dir.path(), 2);
    // A day is less than a tenth of a second.
    settings.test_time_scale = 0.000_001;
    let began = Instant::now();
    let mut runs = 0;
    while server.counts().0 < 2 {
        assert!(began.elapsed() < DEADLINE, "never asked again");
        let out = runs.to_string();
        let report = crawl(settings.clone(), dir.path(), &out, &[&server.url("/")]).await;
        assert_eq!(report.outcome, RunOutcome::Complete);
        runs += 1;
    }
    assert!(!server.paths().contains(&"/private".to_owned()));
}

/// Checks that request number n of a run, robots.txt among them, came no earlier than n delays after the run began. A
/// request may be late on its way, so two in a row can arrive closer together than they left.
fn spaced(requests: &[Heard], began: Instant, delay: Duration) {
    for (heard, n) in requests.iter().zip(0..) {
        let after = heard.at - began;
        assert!(after >= delay * n, "request {n} came after {after:?}");
    }
}

const DELAYED: &str = "User-agent: *\nCrawl-delay: 0.4\nSitemap: /map.xml\n";

#[actix_rt::test]
async fn a_crawl_delay_spaces_the_requests_of_its_host_and_of_no_other_in_every_run() {
    let slow = site(|_| say(200, &[], DELAYED));
    let quick = site(|_| say(200, &[], RULES));
    let dir = tempfile::tempdir().unwrap();
    let urls = [&*slow.url("/"), &quick.url("/")];
    for (out, before) in [("first", 0), ("second", 5)] {
        let began = Instant::now();
        let report = crawl(fast(dir.path(), 4), dir.path(), out, &urls).await;
        assert_eq!(report.outcome, RunOutcome::Complete);
        spaced(&slow.log()[before..], began, Duration::from_millis(400));
    }
    assert_eq!(slow.counts(), (1, 8));
    let arrived = |server: &Raw, nth: usize| server.log()[nth].at;
    assert!(
        arrived(&quick, 3) < arrived(&slow, 3),
        "the other host waits for nobody"
    );
}

#[actix_rt::test]
async fn a_crawl_delay_can_be_bounded_and_passed_over() {
    let server = site(|_| say(200, &[], "User-agent: *\nCrawl-delay: 86400\n"));
    for ignored in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = fast(dir.path(), 4);
        settings.robots.max_crawl_delay = Duration::from_millis(200);
        if ignored {
            settings.robots.max_crawl_delay = Duration::from_secs(3600);
            let web = SiteSettings {
                crawl_delay: Some(CrawlDelay::Ignore),
                ..SiteSettings::default()
            };
            settings.sites.insert("web".to_owned(), web);
        }
        let (before, began) = (server.log().len(), Instant::now());
        let report = crawl(settings, dir.path(), "data", &[&server.url("/")]).await;
        // Where it were kept in full, the run would take hours.
        assert_eq!(report.outcome, RunOutcome::Complete);
        if !ignored {
            spaced(&server.log()[before..], began, Duration::from_millis(200));
        }
    }
}

#[test]
fn a_run_that_does_not_consult_robots_txt_says_so_and_one_that_does_tells_what_it_found() {
    let server = site(|_| say(200, &[], DELAYED.replace("0.4", "7200")));
    let dir = tempfile::tempdir().unwrap();
    let crawl = |robots: &str| {
        run(binary(dir.path())
            .args(["crawl", "--urls", &server.url("/private")])
            .args(["--robots", robots, "--out", robots])
            .args(["--set", "robots.max_crawl_delay=1s"]))
    };
    let off = crawl("off");
    assert_eq!(off.code, Some(0), "{}", off.stderr);
    assert!(
        off.stderr.contains("robots.txt is not consulted"),
        "{}",
        off.stderr
    );
    assert_eq!(server.counts(), (0, 1));
    let obeyed = crawl("obey");
    assert_eq!(obeyed.code, Some(0), "{}", obeyed.stderr);
    assert!(
        !obeyed.stderr.contains("not consulted"),
        "{}",
        obeyed.stderr
    );
    for told in [
        "names sitemaps",
        "/map.xml",
        "longer than robots.max_crawl_delay",
        "7200",
    ] {
        assert!(obeyed.stderr.contains(told), "{told}: {}", obeyed.stderr);
    }
}
