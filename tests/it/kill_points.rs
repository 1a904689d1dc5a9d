//! Killed at any moment, the same command goes on, and the output is as if nothing had happened.
//!
//! `KILL_POINTS=2000 cargo test --release --test it kill_points` runs more of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crawler_node::sim::{ApiSite, Counts, HtmlSite, Knobs, Latency, Server, SimConfig, SiteSpec};
use crawler_node::store::KillPoint;
use rusqlite::Connection;

use crate::support::{DEADLINE, Ran, binary, run, sinks};

/// Random kills per kind of job; the three make 201.
fn kills() -> u64 {
    std::env::var("KILL_POINTS").map_or(67, |n| n.parse::<u64>().expect("a number") / 3)
}

/// A job of about 300 requests, run by the binary against a server that counts for itself.
#[derive(Clone, Copy)]
enum Work {
    /// Several at once; the order of the lines is the order in which answers came.
    Search,
    /// Several at once: beside the order, the path by which a page is first found depends on which answer came first.
    Pages,
    /// One at a time: the order is a promise, and the bytes are compared as they are.
    PagesInOrder,
}

const KEYWORDS: &str = "rust,actors,store,pages,links,爬虫";

impl Work {
    fn server(self) -> Server {
        let knobs = Knobs {
            latency: Latency::Between(Duration::from_micros(200), Duration::from_millis(2)),
            ..Knobs::default()
        };
        let site = match self {
            Self::Search => SiteSpec::new("site", ApiSite::new(11)),
            Self::Pages | Self::PagesInOrder => SiteSpec::new("site", HtmlSite::new(11, 155)),
        };
        Server::start(SimConfig::one(site.knobs(knobs))).expect("the built-in site")
    }

    /// The command line; the ports of two servers differ, so the records are made to speak of one host.
    fn command(self, server: &Server, dir: &Path) -> Command {
        let base = server.base_url("site").expect("the site");
        let mut command = binary(dir);
        command.arg("crawl");
        match self {
            Self::Search => {
                let sites = dir.join("sites");
                std::fs::create_dir_all(&sites).expect("a directory");
                let definition = ApiSite::definition(&base);
                std::fs::write(sites.join("demo-api.toml"), definition).expect("a definition");
                command.args(["--sites", "sites", "--site", "demo-api", "--mode", "search"]);
                command.args(["--keywords", KEYWORDS]);
            }
            Self::Pages | Self::PagesInOrder => {
                command.args(["--urls", &format!("{base}/")]);
            }
        }
        // A task that follows redirects lets a prefetched one go between its hops: in order means without any.
        let (cap, prefetch) = match self {
            Self::Search | Self::Pages => ("4", "prefetch=3"),
            Self::PagesInOrder => ("1", "prefetch=0"),
        };
        command.args([
            "--max-concurrency-num",
            cap,
            "--out",
            "out",
            "--log-level",
            "warning",
        ]);
        // What is tried here is what a kill leaves: a search for the pace would only take time.
        command.args(["--set", prefetch, "--set", "limits.mode=fixed"]);
        command
    }

    /// The lines of the sinks, without what differs from run to run: the time, the server's port, and what
    /// depends on which of several answers came first.
    fn output(self, dir: &Path, server: &Server) -> BTreeMap<String, Vec<String>> {
        let host = server.addr().to_string();
        sinks(&dir.join("out"))
            .into_iter()
            .map(|(name, text)| {
                assert!(
                    text.is_empty() || text.ends_with('\n'),
                    "{name} has a torn line"
                );
                let lines = text.lines().map(|line| {
                    let line = without(&line.replace(&host, "HOST"), "_at");
                    match self {
                        Self::Pages => without(&without(&line, "requested_url"), "depth"),
                        Self::Search | Self::PagesInOrder => line,
                    }
                });
                let mut lines: Vec<String> = lines.collect();
                if !matches!(self, Self::PagesInOrder) {
                    lines.sort_unstable();
                }
                (name, lines)
            })
            .collect()
    }

    /// What must come out, however often it was killed.
    fn uninterrupted(self) -> (u64, BTreeMap<String, Vec<String>>) {
        let server = self.server();
        let dir = tempfile::tempdir().expect("a directory");
        let ran = run(&mut self.command(&server, dir.path()));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let out = self.output(dir.path(), &server);
        let counts = server.stop();
        assert_eq!(
            repeats(&counts),
            0,
            "an uninterrupted run asks nothing twice"
        );
        (counts.requests(), out)
    }
}

/// A line with the value of a field blanked out.
fn without(line: &str, field: &str) -> String {
    let mark = format!("\"{field}\":");
    let at = line
        .find(&mark)
        .unwrap_or_else(|| panic!("no {field} in {line}"))
        + mark.len();
    let end = at + line[at..].find([',', '}']).expect("an end");
    format!("{}{}", &line[..at], &line[end..])
}

fn repeats(counts: &Counts) -> u64 {
    counts.sites["site"].repeats
}

/// Leases that the store holds, by its own file.
fn leases(dir: &Path) -> u64 {
    let file = dir.join("out/.crawler-node/store.db");
    let Ok(db) = Connection::open(&file) else {
        return 0;
    };
    // Killed before the tables were there: nothing was leased.
    let count: i64 = db
        .query_row("select count(*) from tasks where state = 1", [], |row| {
            row.get(0)
        })
        .unwrap_or(0);
    count.unsigned_abs()
}

fn assert_same(
    got: &BTreeMap<String, Vec<String>>,
    expected: &BTreeMap<String, Vec<String>>,
    what: &str,
) {
    assert_eq!(
        got.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>(),
        "{what}: other files"
    );
    for (name, lines) in expected {
        for (got, expected) in got[name].iter().zip(lines) {
            assert_eq!(got, expected, "{what}: {name} differs");
        }
        assert_eq!(got[name].len(), lines.len(), "{what}: lines of {name}");
    }
}

/// Run again until it is complete, and compare.
fn resume(
    work: Work,
    server: Server,
    dir: &Path,
    expected: &BTreeMap<String, Vec<String>>,
    what: &str,
) {
    let leases = leases(dir);
    let Ran { code, stderr, .. } = run(&mut work.command(&server, dir));
    assert_eq!(code, Some(0), "{what}: {stderr}");
    let got = work.output(dir, &server);
    assert_same(&got, expected, what);
    let repeats = repeats(&server.stop());
    assert!(
        repeats <= leases,
        "{what}: {repeats} requests again, {leases} leases at the kill"
    );
}

fn spawn(command: &mut Command) -> Child {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts")
}

fn random_kills(work: Work, seed: u64) {
    let (total, expected) = work.uninterrupted();
    assert!((250..400).contains(&total), "{total} requests");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut inside = 0;
    let kills = kills();
    for nth in 0..kills {
        let server = work.server();
        let dir = tempfile::tempdir().expect("a directory");
        let mut child = spawn(&mut work.command(&server, dir.path()));
        let at = random.u64(1..total);
        assert!(server.wait_for(DEADLINE, |counts| counts.requests() >= at));
        child.kill().expect("killed");
        child.wait().expect("ended");
        let seen = server.counts().requests();
        inside += u64::from((1..total).contains(&seen));
        resume(
            work,
            server,
            dir.path(),
            &expected,
            &format!("kill {nth} at request {at}"),
        );
    }
    assert!(
        inside * 10 >= kills * 9,
        "{inside} of {kills} kills between the first and the last request"
    );
}

#[test]
fn a_search_killed_at_random_moments_ends_as_if_nothing_had_happened() {
    random_kills(Work::Search, 1);
}

#[test]
fn a_crawl_killed_at_random_moments_ends_as_if_nothing_had_happened() {
    random_kills(Work::Pages, 2);
}

#[test]
fn a_crawl_in_order_killed_at_random_moments_ends_with_the_very_same_bytes() {
    random_kills(Work::PagesInOrder, 3);
}

#[test]
fn killed_over_and_over_it_still_ends_whole() {
    let work = Work::Pages;
    let (_, expected) = work.uninterrupted();
    let server = work.server();
    let dir = tempfile::tempdir().expect("a directory");
    let mut leased = 0;
    for nth in 1..=12 {
        let mut child = spawn(&mut work.command(&server, dir.path()));
        assert!(server.wait_for(DEADLINE, |counts| counts.requests() >= nth * 20));
        child.kill().expect("killed");
        child.wait().expect("ended");
        leased += leases(dir.path());
    }
    let ran = run(&mut work.command(&server, dir.path()));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_same(
        &work.output(dir.path(), &server),
        &expected,
        "after 12 kills",
    );
    let repeats = repeats(&server.stop());
    assert!(
        repeats <= leased,
        "{repeats} requests again, {leased} leases at the kills"
    );
}

/// Once at every kind of commit, append, sync, truncation and checkpoint.
#[test]
fn killed_at_every_kind_of_step_it_ends_whole() {
    let work = Work::PagesInOrder;
    let (_, expected) = work.uninterrupted();
    for point in KillPoint::ALL {
        let name = point.as_str();
        // Leases are released when an actor dies, which the store's own tests of kills let happen.
        if name.ends_with("release") {
            continue;
        }
        let server = work.server();
        let dir = tempfile::tempdir().expect("a directory");
        // Some steps happen only when a run is gone on with after a kill that left something behind.
        let after_kill = ["truncate", "commit-open"]
            .iter()
            .any(|step| name.ends_with(step));
        if after_kill {
            let mut torn = work.command(&server, dir.path());
            let status = torn
                .env("TEST_KILL_AT", "torn-append:5")
                .output()
                .expect("the binary starts")
                .status;
            assert!(!status.success(), "torn-append was not met before {name}");
        }
        let leased = leases(dir.path());
        let nth = match name {
            _ if name.contains("exchange") || name.contains("append") || name.contains("sync") => 9,
            _ => 1,
        };
        let mut command = work.command(&server, dir.path());
        command.env("TEST_KILL_AT", format!("{name}:{nth}"));
        // So that the log is folded back in a small job too.
        command.args(["--set", "store.wal_bytes=64 KiB"]);
        let died = command.output().expect("the binary starts");
        assert!(
            !died.status.success(),
            "{name} was not met: {:?}",
            sinks(&dir.path().join("out")).keys()
        );
        let leases = leased + leases(dir.path());
        let ran = run(&mut work.command(&server, dir.path()));
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        assert_same(&work.output(dir.path(), &server), &expected, name);
        let repeats = repeats(&server.stop());
        assert!(
            repeats <= leases,
            "{name}: {repeats} requests again, {leases} leases at the kills"
        );
    }
}
