//! Whole jobs over real sockets against limits that nobody tells.
//!
//! The runs of a test go on at the same time, each with a server and a process of its own: they wait mostly. A few of
//! them run always; `GOVERNOR_JOBS=full cargo test --release --test it governor_jobs -- --nocapture` runs all and prints
//! the table, and `GOVERNOR_JOBS=fixed` shows what back-off alone comes to, without learning.

mod job;
mod limits;
mod process;
mod table;
mod urls;

use std::thread;
use std::time::Duration;

use crawler_node::sim::{Knobs, Latency, Limit, LogEntry, Refusal, RetryAfter, Step, When};

use job::Told;
use table::{Row, judge};
use urls::Host;

/// Of all requests, these may be refused.
const REFUSED: f64 = 0.03;
/// Times the ideal that a job may take.
const RATIO: f64 = 1.5;

/// Which runs are wanted.
fn wanted(word: &str) -> bool {
    std::env::var("GOVERNOR_JOBS").is_ok_and(|value| value == word)
}

/// All runs at the same time; the rows come in the order of the runs.
fn at_once<T: Sync>(runs: &[T], run: impl Fn(&T) -> Row + Sync) -> Vec<Row> {
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = runs
            .iter()
            .map(|one| scope.spawn(move || run(one)))
            .collect();
        let rows = threads.into_iter().map(|thread| thread.join());
        rows.map(|row| row.expect("a run")).collect()
    })
}

#[test]
fn a_job_meets_every_hidden_limit() {
    let fixed = wanted("fixed");
    let all = fixed || wanted("full");
    let mut hidden = limits::hidden();
    hidden.retain(|hidden| all || hidden.bounded);
    let told = if fixed {
        Told::NothingAndFixed
    } else {
        Told::Nothing
    };
    let rows = at_once(&hidden, |hidden| job::run(hidden, told));
    judge(&rows, |row| match fixed {
        true => row.complete(),
        false => row.within(REFUSED, RATIO),
    });
}

/// What the bounds above are worth: a crawler that is told the limit takes the ideal time, or nearly.
#[test]
fn a_job_that_is_told_the_limit_takes_its_ideal_time() {
    let mut hidden = limits::hidden();
    hidden.retain(|hidden| !hidden.told.is_empty() && (wanted("full") || hidden.bounded));
    let rows = at_once(&hidden, |hidden| job::run(hidden, Told::Limit));
    judge(&rows, |row| row.within(0.005, 1.3) && row.ratio() > 0.95);
}

fn host(name: &'static str, pages: u32, limit: Limit, refusal: Refusal) -> Host {
    let knobs = Knobs {
        latency: Latency::Fixed(Duration::from_millis(20)),
        limits: vec![limit],
        refusal,
        ..Knobs::default()
    };
    Host { name, pages, knobs }
}

/// Above five requests in a fixed second: 429 with `Retry-After: 1`, at once. 400 URLs, or 100 in the bounded set.
#[test]
fn l04_five_a_second_cost_a_twentieth_of_the_urls_in_refusals() {
    let pages = if wanted("full") { 400 } else { 100 };
    let limit = Limit::Fixed {
        max: 5,
        window: Duration::from_secs(1),
        phase: Duration::from_millis(fastrand::u64(0..1000)),
    };
    let refusal = Refusal::default().retry_after(RetryAfter::Text("1".to_owned()));
    let host = host("5 in a fixed second", pages, limit, refusal);
    let ideal = Duration::from_secs(u64::from(pages) / 5);
    let (row, _) = urls::run(&[host], 32, ideal);
    // What it costs to find the limit does not shrink with the list.
    let (spare, ratio) = if pages == 400 { (20, 1.25) } else { (15, 1.6) };
    judge(&[row], |row| {
        row.complete() && row.requests <= u64::from(pages) + spare && row.ratio() <= ratio
    });
}

/// Twenty in a fixed window of 6 s, then 429 with the seconds to its end; another host beside it refuses nothing.
#[test]
fn l05_after_the_first_refusal_the_host_is_left_alone_until_it_said() {
    let window = Duration::from_secs(6);
    let limit = Limit::Fixed {
        max: 20,
        window,
        phase: Duration::ZERO,
    };
    let refusal = Refusal::default().retry_after(RetryAfter::Seconds);
    let refuses = host("20 in a fixed window", 68, limit, refusal);
    let other = host(
        "other",
        40,
        Limit::Concurrency { max: 99 },
        Refusal::default(),
    );
    let (row, log) = urls::run(&[refuses, other], 16, window * 3);
    judge(&[row], |row| row.complete() && row.ratio() <= 2.0);
    let of = |name: &'static str| log.iter().filter(move |entry| entry.site == name);
    for refusal in of("20 in a fixed window").filter(|entry| entry.refused) {
        let told = refusal.ended.expect("it ended");
        let end = window * (told.as_secs() / window.as_secs() + 1) as u32;
        // What had left before the answer was read is on its way still.
        let quiet = told + Duration::from_millis(150);
        let early = of("20 in a fixed window").find(|entry| entry.at > quiet && entry.at < end);
        assert_eq!(early, None, "asked again before {end:?}");
    }
    let last = of("other").map(|entry| entry.at).max().expect("requests");
    assert!(last < window * 2, "the other host waited too: {last:?}");
}

/// 2/s for a minute, then 20/s. The bounded set leaves it out: it takes two minutes.
#[test]
fn l23_a_pace_that_was_cut_recovers() {
    if !wanted("full") {
        return;
    }
    let change = Duration::from_secs(60);
    let slow = Limit::Bucket {
        per_second: 2.0,
        burst: 2,
    };
    let mut host = host("2/s, then 20/s", 1200, slow, Refusal::default());
    host.knobs.steps = vec![Step {
        when: When::Time(change),
        limits: vec![Limit::Bucket {
            per_second: 20.0,
            burst: 10,
        }],
    }];
    let (row, log) = urls::run(&[host], 32, change + Duration::from_secs(1080 / 20));
    judge(&[row], |row| row.complete() && row.refused_share() < 0.05);
    let change = log[0].at + change;
    let admitted: Vec<&LogEntry> = log
        .iter()
        .filter(|entry| !entry.refused && entry.at > change)
        .collect();
    // 80 % of 20/s, over ten seconds.
    let fast = admitted
        .windows(160)
        .find(|part| part[159].at - part[0].at < Duration::from_secs(10));
    let reached = fast
        .map(|part| part[0].at - change)
        .expect("it never got fast");
    eprintln!("80 % after {:.1} s", reached.as_secs_f64());
    assert!(reached < Duration::from_secs(120), "{reached:?}");
}
