//! A stop asked for by a signal is clean, and a second signal ends at once.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crawler_node::sim::{HtmlSite, Knobs, Latency, Server, SimConfig, SiteSpec};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{DEADLINE, binary, records, run, stderr_of};

fn site() -> HtmlSite {
    HtmlSite::new(5, 40)
}

fn server(latency: Duration) -> Server {
    let knobs = Knobs {
        latency: Latency::Fixed(latency),
        ..Knobs::default()
    };
    Server::start(SimConfig::one(SiteSpec::new("web", site()).knobs(knobs))).expect("the site")
}

fn start(server: &Server, dir: &std::path::Path, more: &[&str]) -> Child {
    let url = format!("{}/", server.base_url("web").expect("the site"));
    binary(dir)
        .args([
            "crawl",
            "--urls",
            &url,
            "--max-concurrency-num",
            "2",
            "--out",
            "out",
        ])
        .args(more)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts")
}

fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).expect("a process id");
    kill(Pid::from_raw(pid), signal).expect("sent");
}

fn stops_cleanly(signal: Signal, code: i32) {
    let server = server(Duration::from_millis(20));
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = start(&server, dir.path(), &[]);
    assert!(server.wait_for(DEADLINE, |counts| counts.requests() >= 10));
    send(&child, signal);
    let status = child.wait().expect("ended");
    assert_eq!(status.code(), Some(code), "{}", stderr_of(&mut child));
    let counts = server.counts();
    let seen = &counts.sites["web"];
    assert_eq!(
        seen.aborted, 0,
        "an exchange in flight was cut off within the grace"
    );
    let stored = records(&dir.path().join("out")).len();
    assert!(
        stored >= 5,
        "what was read before the stop is stored: {stored}"
    );

    let url = format!("{}/", server.base_url("web").expect("the site"));
    let ran = run(binary(dir.path()).args([
        "crawl",
        "--urls",
        &url,
        "--max-concurrency-num",
        "8",
        "--out",
        "out",
    ]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(
        records(&dir.path().join("out")).len(),
        site().expected().len()
    );
    let counts = server.stop();
    assert_eq!(counts.sites["web"].repeats, 0, "nothing was asked twice");
}

#[test]
fn sigint_stops_cleanly_and_the_same_command_goes_on() {
    stops_cleanly(Signal::SIGINT, 130);
}

#[test]
fn sigterm_stops_cleanly_and_the_same_command_goes_on() {
    stops_cleanly(Signal::SIGTERM, 143);
}

#[test]
fn a_second_signal_ends_at_once() {
    // Exchanges that would take a minute, and a grace as long.
    let server = server(Duration::from_secs(60));
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = start(&server, dir.path(), &["--set", "shutdown_grace=60s"]);
    assert!(server.wait_for(DEADLINE, |counts| counts.in_flight > 0));
    send(&child, Signal::SIGINT);
    let started = Instant::now();
    // The second is sent until it is heard: the first may still be on its way to the handler.
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        send(&child, Signal::SIGINT);
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "it does not end"
        );
        std::thread::yield_now();
    };
    assert_eq!(status.code(), Some(130), "{}", stderr_of(&mut child));
    server.stop();
}

#[test]
fn what_is_in_flight_at_the_end_of_the_grace_is_cut_off_and_asked_again() {
    let server = server(Duration::from_secs(60));
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = start(&server, dir.path(), &["--set", "shutdown_grace=100ms"]);
    assert!(server.wait_for(DEADLINE, |counts| counts.in_flight > 0));
    let started = Instant::now();
    send(&child, Signal::SIGTERM);
    let status = child.wait().expect("ended");
    assert_eq!(status.code(), Some(143), "{}", stderr_of(&mut child));
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "the grace is 100 ms"
    );
    server.stop();
}
