//! Times that servers name, by the arrival of the requests at the server: in every form, none comes too early.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Ran, binary, records, run};
use crate::told::{Asked, Teller, Told, http_date, since_1970};

fn crawl(dir: &Path, cap: u32, urls: &[&str]) -> Command {
    let mut command = binary(dir);
    command
        .args(["crawl", "--robots", "off", "--urls"])
        .args(urls)
        .args(["--max_concurrency_num", &cap.to_string()])
        .args(["--report", "report.json"]);
    command
}

fn report(dir: &Path) -> Value {
    let text = std::fs::read_to_string(dir.join("report.json")).expect("a report");
    serde_json::from_str(&text).expect("JSON")
}

const PAGES: [&str; 8] = ["/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8"];

/// A page with links; `told` makes the answer to the third request of all.
fn third(told: impl Fn(Told) -> Told + Send + Sync + 'static) -> Teller {
    Teller::start(move |path, nth| {
        let page = match path {
            "/" => Told::page(&PAGES),
            _ => Told::page(&[]),
        };
        match nth {
            2 => told(page),
            _ => page,
        }
    })
}

/// The server of a crawl with a cap of 1 that came to its end, and the crawl's directory.
fn crawled(
    name: &str,
    told: impl Fn(Told) -> Told + Send + Sync + 'static,
) -> (Teller, tempfile::TempDir) {
    let server = third(told);
    let dir = tempfile::tempdir().expect("a directory");
    let start = format!("{}/", server.base);
    // What the server asks for is a floor that no scale shortens.
    let ran = run(crawl(dir.path(), 1, &[&start]).args(["--set", "test_time_scale=0.01"]));
    assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
    (server, dir)
}

/// Crawls with a cap of 1, so that nothing is on its way while the third answer is given. Checks that no more than
/// `slip` requests came within `wait` after it, and that all pages came at last.
fn nothing_before(
    name: &str,
    wait: Duration,
    slip: usize,
    told: impl Fn(Told) -> Told + Send + Sync + 'static,
) {
    let (server, dir) = crawled(name, told);
    assert_eq!(records(&dir.path().join("data")).len(), 9, "{name}");
    let log = server.log();
    let told = log[2].told.expect("answered");
    let early = |asked: &&Asked| asked.at > told && asked.at < told + wait;
    let early: Vec<&Asked> = log.iter().filter(early).collect();
    assert!(
        early.len() <= slip,
        "{name}: {early:?} before {wait:?} had passed since {told:?}"
    );
}

/// Runs each case on a thread of its own.
fn all_at_once(cases: Vec<Case>) {
    let running: Vec<_> = cases.into_iter().map(thread::spawn).collect();
    for case in running {
        if let Err(panic) = case.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

type Case = Box<dyn FnOnce() + Send>;

/// A case of [`nothing_before`]: a refusal is known before its slot is free, so nothing slips out.
fn refused(
    name: &'static str,
    millis: u64,
    told: impl Fn(Told) -> Told + Send + Sync + 'static,
) -> Case {
    Box::new(move || nothing_before(name, Duration::from_millis(millis), 0, told))
}

/// A case of [`nothing_before`]: what a success tells is known when it has been classified, after its slot was
/// given on to one request that was waiting.
fn served(
    name: &'static str,
    millis: u64,
    told: impl Fn(Told) -> Told + Send + Sync + 'static,
) -> Case {
    Box::new(move || nothing_before(name, Duration::from_millis(millis), 1, told))
}

/// A refusal.
fn no(status: u16) -> Told {
    Told::status(status)
}

/// The same date as RFC 850 has it, and as asctime has it.
fn other_dates(fixdate: &str) -> (String, String) {
    let at = jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(fixdate)
        .expect("a date");
    (
        at.strftime("%A, %d-%b-%y %H:%M:%S GMT").to_string(),
        at.strftime("%a %b %e %H:%M:%S %Y").to_string(),
    )
}

/// As [`nothing_before`], and the request that follows comes within `late` of the time.
fn at_its_time(
    name: &str,
    wait: Duration,
    late: Duration,
    told: impl Fn(Told) -> Told + Send + Sync + 'static,
) {
    let (server, _dir) = crawled(name, told);
    let log = server.log();
    let told = log[2].told.expect("answered");
    let next = log[3].at - told;
    assert!(
        (wait..wait + late).contains(&next),
        "{name}: asked again after {next:?}, told {wait:?}"
    );
}

#[test]
fn l20_a_date_in_any_form_is_kept_by_the_servers_own_clock() {
    const SECOND: Duration = Duration::from_secs(1);
    /// A date so many seconds from now by a clock that is `slow`, and what that clock shows.
    fn dates(slow: u64, from_now: i64) -> (String, String) {
        let now = since_1970(Duration::from_secs(slow));
        let from_now_abs = Duration::from_secs(from_now.unsigned_abs());
        let at = if from_now < 0 {
            now - from_now_abs
        } else {
            now + from_now_abs
        };
        (http_date(now), http_date(at))
    }
    let case = |name: &'static str, form: fn(String) -> String, slow: u64, dated: bool| -> Case {
        Box::new(move || {
            // A date has whole seconds: it may be up to one sooner than four from now.
            at_its_time(name, 3 * SECOND, 2 * SECOND, move |_| {
                let (date, at) = dates(slow, 4);
                let refusal = no(503).with("Retry-After", form(at));
                if dated {
                    refusal.with("Date", date)
                } else {
                    refusal
                }
            });
        })
    };
    all_at_once(vec![
        case("an IMF-fixdate", |at| at, 0, true),
        case("an RFC 850 date", |at| other_dates(&at).0, 0, true),
        case("an asctime date", |at| other_dates(&at).1, 0, true),
        case("a clock an hour slow", |at| at, 3600, true),
        case("no date of its own", |at| at, 0, false),
        Box::new(|| {
            // A minute ago: nothing is added to the own pause, which the scale makes short, and which is kept.
            at_its_time("past", Duration::from_millis(1), 2 * SECOND, |_| {
                let (date, at) = dates(0, -60);
                no(503).with("Date", date).with("Retry-After", at)
            });
        }),
    ]);
}

#[test]
fn t36_l18_l20_a_wait_is_kept_in_every_form() {
    /// Date and Retry-After of a server whose clock is `late` behind.
    fn dates(late: u64, wait: u64) -> (String, String) {
        let now = since_1970(Duration::from_secs(late));
        (http_date(now), http_date(now + Duration::from_secs(wait)))
    }
    let dated = |form: fn(String) -> String, late: u64| {
        move |_| {
            let (date, at) = dates(late, 2);
            no(503).with("Date", date).with("Retry-After", form(at))
        }
    };
    all_at_once(vec![
        refused("seconds", 1000, |_| no(429).with("Retry-After", "1")),
        refused("a fraction", 1200, |_| no(429).with("Retry-After", "1.2")),
        refused("503", 1000, |_| no(503).with("Retry-After", "1")),
        refused("an IMF-fixdate", 2000, dated(|at| at, 0)),
        refused("an RFC 850 date", 2000, dated(|at| other_dates(&at).0, 0)),
        refused("an asctime date", 2000, dated(|at| other_dates(&at).1, 0)),
        refused("a slow clock", 2000, dated(|at| at, 3600)),
        refused("retry-after-ms", 1300, |_| {
            no(429).with("Retry-After-Ms", "1300")
        }),
        refused("x-ms-retry-after-ms", 1300, |_| {
            no(429).with("x-ms-retry-after-ms", "1300")
        }),
        refused("two fields", 1000, |_| {
            no(429).with("Retry-After", "0").with("Retry-After", "1")
        }),
        served("on a success", 1000, |page| page.with("Retry-After", "1")),
    ]);
}

#[test]
fn a_quota_used_up_is_a_time_even_on_a_success() {
    fn reset(page: Told, reset: impl Into<String>, now: Duration) -> Told {
        page.with("Date", http_date(now))
            .with("X-RateLimit-Remaining", "0")
            .with("X-RateLimit-Reset", reset)
    }
    let late = Duration::from_secs(3600);
    let two = Duration::from_secs(2);
    all_at_once(vec![
        served("RateLimit", 2000, |page| {
            page.with("RateLimit-Policy", "\"p\";q=100;w=1")
                .with("RateLimit", "\"p\";r=0;t=2")
        }),
        served("seconds", 2000, move |page| {
            reset(page, "2", since_1970(late))
        }),
        served("seconds since 1970", 2000, move |page| {
            let now = since_1970(late);
            reset(page, (now + two).as_secs().to_string(), now)
        }),
        served("milliseconds since 1970", 2000, move |page| {
            let now = since_1970(late);
            // `Date` has no fraction, so that the times agree.
            reset(page, format!("{}000", (now + two).as_secs()), now)
        }),
        served("ISO 8601", 2000, move |page| {
            let now = since_1970(late);
            let at = i64::try_from((now + two).as_secs()).expect("in range");
            let at = jiff::Timestamp::from_second(at).expect("in range");
            reset(page, at.to_string(), now)
        }),
        served("X-RateLimit-Reset-After", 1300, |page| {
            page.with("X-RateLimit-Remaining", "0")
                .with("X-RateLimit-Reset-After", "1.3")
        }),
    ]);
}

#[test]
fn t37_t40_l18_what_says_nothing_leaves_the_lane_to_its_own_back_off() {
    let values = [
        "-5",
        "+3",
        "abc",
        "",
        "NaN",
        "1e9",
        "0",
        "Sun, 06 Nov 1994 08:49:37 GMT",
    ];
    let cases = values.map(|value| -> Case {
        Box::new(move || {
            let server = third(move |_| no(429).with("Retry-After", value));
            let dir = tempfile::tempdir().expect("a directory");
            let start = format!("{}/", server.base);
            let mut command = crawl(dir.path(), 4, &[&start]);
            // 200 ms, in place of ten seconds: neither none at all nor the years that a misread value would be.
            command.args(["--set", "test_time_scale=0.02", "--set", "backoff.base=10s"]);
            command.args(["--set", "limits.mode=fixed"]);
            let ran = run(&mut command);
            assert_eq!(ran.code, Some(0), "{value:?}: {}", ran.stderr);
            assert_eq!(records(&dir.path().join("data")).len(), 9, "{value:?}");
            let log = server.log();
            assert_eq!(log.len(), 10, "{value:?}: one was asked twice");
            let told = log[2].told.expect("answered");
            let last = log.iter().map(|asked| asked.at).max().expect("some");
            assert!(
                last >= told + Duration::from_millis(200),
                "{value:?}: no pause at all"
            );
        })
    });
    all_at_once(cases.into());
}

#[test]
fn l21_a_retry_after_of_zero_does_not_beat_the_own_back_off() {
    let server = Teller::start(|_, _| no(429).with("Retry-After", "0"));
    let dir = tempfile::tempdir().expect("a directory");
    let start = format!("{}/", server.base);
    // Pauses of 40 ms and twice as long each time, for 1.5 s.
    let ran = run(crawl(dir.path(), 4, &[&start])
        .args(["--set", "test_time_scale=0.02", "--set", "backoff.base=2s"])
        .args(["--set", "max_wait=75s", "--set", "limits.mode=fixed"]));
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    let log = server.log();
    assert!(log.len() <= 8, "{} requests: no back-off", log.len());
    for (nth, pair) in log.windows(2).enumerate() {
        let pause = pair[1].at - pair[0].told.expect("answered");
        let least = Duration::from_millis(40) * 2_u32.pow(nth as u32);
        assert!(pause >= least, "{pause:?} before request {}", nth + 2);
    }
}

/// A job of two hosts: one refuses all but its first page for `wait` seconds, the other does not.
struct TwoHosts {
    parked: Teller,
    open: Teller,
    dir: tempfile::TempDir,
}

impl TwoHosts {
    fn start(wait: u64) -> Self {
        Self {
            parked: Teller::start(move |path, _| match path {
                "/" => Told::page(&PAGES),
                _ => no(429).with("Retry-After", wait.to_string()),
            }),
            open: third(|page| page),
            dir: tempfile::tempdir().expect("a directory"),
        }
    }

    fn crawl(&self) -> Ran {
        let urls = [&self.parked, &self.open].map(|server| format!("{}/", server.base));
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        run(crawl(self.dir.path(), 4, &urls).args(["--set", "max_wait=1s"]))
    }
}

fn one_host_parked(wait: u64) {
    let hosts = TwoHosts::start(wait);
    let before = jiff::Timestamp::now();
    let ran = hosts.crawl();
    let after = jiff::Timestamp::now();
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    // At most what had left when the first refusal came.
    let asked = hosts.parked.log().len();
    assert!(asked <= 5, "{asked} requests");
    assert_eq!(hosts.open.log().len(), 9, "the other host goes on");
    let dir = hosts.dir.path();
    assert_eq!(records(&dir.join("data")).len(), 10);
    let until = told_until(dir, &ran).as_second();
    let wait = i64::try_from(wait).expect("in range");
    // Up to 5 s are added, so that lanes do not wake in one instant.
    let allowed = before.as_second() + wait..=after.as_second() + wait + 6;
    assert!(allowed.contains(&until), "{until} is not in {allowed:?}");
    let site = &report(dir)["sites"]["web"];
    assert_eq!(site["tasks"]["failed"], 0, "{site}");
    assert_eq!(site["tasks"]["pending"], 8, "{site}");
}

/// When to come back, by the report, which says the same as the text.
fn told_until(dir: &Path, ran: &Ran) -> jiff::Timestamp {
    let report = report(dir);
    assert_eq!(report["outcome"], "blocked");
    let until = report["sites"]["web"]["blocked_until"].clone();
    let until = until.as_str().expect("a time");
    let text = format!("{}{}", ran.stdout, ran.stderr);
    assert!(text.contains(until), "no {until} in {text}");
    until.parse().expect("a time")
}

#[test]
fn t47_l06_an_hour_is_not_cut_short_and_another_host_goes_on() {
    one_host_parked(3600);
}

#[test]
fn t48_l06_ten_days_are_not_cut_short() {
    one_host_parked(864_000);
}

#[test]
fn l06_a_time_that_a_server_named_holds_for_the_next_process() {
    let hosts = TwoHosts::start(3600);
    let first = hosts.crawl();
    let until = told_until(hosts.dir.path(), &first);
    let asked = hosts.parked.log().len();
    let second = hosts.crawl();
    assert_eq!(second.code, Some(4), "{}", second.stderr);
    let again = hosts.parked.log().len();
    assert_eq!(again, asked, "asked before the time: {}", second.stderr);
    let still = told_until(hosts.dir.path(), &second);
    assert!(
        (still.as_second() - until.as_second()).abs() <= 6,
        "{still} is not {until}"
    );
}

#[test]
fn l19_the_huge_parks_and_never_wraps() {
    let server = Teller::start(|_, _| no(429).with("Retry-After", "99999999999999999999"));
    let dir = tempfile::tempdir().expect("a directory");
    let start = format!("{}/", server.base);
    let ran = run(crawl(dir.path(), 4, &[&start]).args(["--set", "max_wait=1s"]));
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert_eq!(server.log().len(), 1);
}
