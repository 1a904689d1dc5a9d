//! Crawls through two proxies of which one dies, lies or breaks off, and one that finds none that works.

use std::io::{Read, Write, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use crate::support::{Ran, binary, records, run};

const PAGES: usize = 60;

/// A site of pages that link to each other, one connection a request; what it was asked.
fn site() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let heads = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let heads = heads.clone();
            thread::spawn(move || page(stream, &heads));
        }
    });
    (port, asked)
}

fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

fn page(mut stream: TcpStream, heads: &Mutex<Vec<String>>) {
    let Some(head) = head(&mut stream) else {
        return;
    };
    let found = head.starts_with("GET /p");
    heads.lock().expect("the heads").push(head);
    let links: String = (0..PAGES)
        .map(|n| format!("<a href=/p{n}>{n}</a>"))
        .collect();
    let body = format!("<title>t</title>{links}");
    let status = if found { "200 OK" } else { "404 Not Found" };
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
}

/// What a proxy does with the tunnel of a number.
#[derive(Clone, Copy)]
enum Does {
    /// Leads to the server.
    Opens,
    /// Closes its door for good.
    Ends,
    /// Closes the connection unanswered.
    Hangs,
    /// Breaks the tunnel off in the middle of the answer.
    Breaks,
    /// Says that it cannot reach the server.
    Unreached,
}

/// A CONNECT proxy; and how many tunnels it was asked for.
fn proxy(does: impl Fn(usize) -> Does + Send + 'static) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let tunnels: Arc<AtomicUsize> = Arc::default();
    let count = tunnels.clone();
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let does = does(count.load(Ordering::SeqCst));
            if matches!(does, Does::Ends) {
                return;
            }
            count.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || serve(near, does));
        }
    });
    (port, tunnels)
}

fn serve(mut near: TcpStream, does: Does) -> Option<()> {
    let asked = head(&mut near)?;
    // me:hidden
    if !asked.contains("Proxy-Authorization: Basic bWU6aGlkZGVu\r\n") {
        let _ = near.write_all(b"HTTP/1.1 407 No\r\n\r\n");
        return None;
    }
    match does {
        Does::Opens | Does::Breaks => {}
        Does::Unreached => return near.write_all(b"HTTP/1.1 502 No\r\n\r\n").ok(),
        Does::Ends | Does::Hangs => return None,
    }
    let mut far = TcpStream::connect(asked.split(' ').nth(1)?).ok()?;
    near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    if matches!(does, Does::Breaks) {
        far.write_all(head(&mut near)?.as_bytes()).ok()?;
        let answer = head(&mut far)?;
        return near.write_all(answer.as_bytes()).ok();
    }
    let (mut up, mut to) = (near.try_clone().ok()?, far.try_clone().ok()?);
    thread::spawn(move || copy(&mut up, &mut to));
    let _ = copy(&mut far, &mut near);
    let _ = near.shutdown(Shutdown::Both);
    Some(())
}

/// A crawl of all pages through the proxies `a` and `b`: what it said, and its report.
fn crawl(site: u16, proxies: [u16; 2], vars: &[(&str, &str)]) -> (Ran, Value) {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("out");
    let report = dir.path().join("report.json");
    let mut command = binary(dir.path());
    command
        .args(["crawl", "--mode", "crawl"])
        .args(["--urls", &format!("http://127.0.0.1:{site}/p0")])
        .arg("--out")
        .arg(&out)
        .arg("--report")
        .arg(&report)
        .env("CRAWLER__TEST_TIME_SCALE", "0.05")
        .env("CRAWLER__EXCHANGE__EGRESS", "a,b")
        .envs(vars.iter().copied());
    for (name, port) in ["A", "B"].into_iter().zip(proxies) {
        command
            .env(
                format!("CRAWLER__EGRESS__{name}__URL"),
                format!("http://127.0.0.1:{port}"),
            )
            .env(format!("CRAWLER__EGRESS__{name}__USERNAME"), "me")
            .env(format!("CRAWLER__EGRESS__{name}__PASSWORD"), "hidden");
    }
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(records(&out).len(), PAGES);
    let text = std::fs::read_to_string(&report).expect("the report");
    assert!(!ran.stderr.contains("hidden") && !text.contains("hidden"));
    (ran, serde_json::from_str(&text).expect("JSON"))
}

/// Without cookies there is no session that is bound to one address.
const IN_TURNS: (&str, &str) = ("CRAWLER__EXCHANGE__COOKIES", "off");
const FOUR: (&str, &str) = ("CRAWLER__MAX_CONCURRENCY_NUM", "4");
const ONE: (&str, &str) = ("CRAWLER__MAX_CONCURRENCY_NUM", "1");

#[test]
fn a_proxy_that_dies_in_the_middle_loses_nothing_and_is_told() {
    let (site, asked) = site();
    let (a, a_tunnels) = proxy(|number| if number < 15 { Does::Opens } else { Does::Ends });
    let (b, b_tunnels) = proxy(|_| Does::Opens);
    let loose = ("CRAWLER__EGRESS__A__TLS_VERIFY", "false");
    let (ran, report) = crawl(site, [a, b], &[IN_TURNS, FOUR, loose]);
    let egress = &report["egress"];
    assert!(egress["a"]["failures"].as_u64() >= Some(3), "{egress}");
    assert_eq!(egress["b"]["failures"], 0, "{egress}");
    assert_eq!(egress["a"]["tls_verify"], false);
    for told in ["an egress is left alone", "CERTIFICATES ARE NOT CHECKED"] {
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
    }
    // All of it went through them, none was asked twice, and the site heard nothing of proxies.
    let asked = asked.lock().expect("the heads");
    let tunnels = a_tunnels.load(Ordering::SeqCst) + b_tunnels.load(Ordering::SeqCst);
    assert_eq!(asked.len(), tunnels);
    assert_eq!(asked.len(), PAGES + 1, "and robots.txt");
    assert!(
        asked
            .iter()
            .all(|head| !head.to_lowercase().contains("proxy-"))
    );
}

#[test]
fn a_session_keeps_to_one_egress_and_moves_when_that_dies() {
    let (site, _) = site();
    let through = |most: [usize; 2]| {
        let proxies = most.map(|most| {
            proxy(move |number| {
                if number < most {
                    Does::Opens
                } else {
                    Does::Ends
                }
            })
        });
        crawl(site, [proxies[0].0, proxies[1].0], &[FOUR]);
        proxies.map(|(_, tunnels)| tunnels.load(Ordering::SeqCst))
    };
    let all = PAGES + 1;
    let used = through([usize::MAX; 2]);
    assert!(used == [all, 0] || used == [0, all], "{used:?}");
    let most = used.map(|tunnels| if tunnels == 0 { usize::MAX } else { 15 });
    let moved = through(most);
    assert_eq!(moved.map(|tunnels| tunnels.min(15)), [15, 15], "{moved:?}");
    assert_eq!(moved.iter().sum::<usize>(), all);
}

#[test]
fn a_proxy_that_reaches_nobody_while_another_does_is_left_alone() {
    let (site, _) = site();
    let ((a, _), (b, _)) = (proxy(|_| Does::Unreached), proxy(|_| Does::Opens));
    let (ran, report) = crawl(site, [a, b], &[IN_TURNS, ONE]);
    let egress = &report["egress"];
    assert!(egress["a"]["failures"].as_u64() >= Some(3), "{egress}");
    let why = egress["a"]["last_failure"].as_str().unwrap_or_default();
    assert!(why.contains("another egress works"), "{egress}");
    assert_eq!(egress["b"]["failures"], 0, "{egress}");
    assert!(
        ran.stderr.contains("an egress is left alone"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_tunnel_that_breaks_counts_against_a_proxy_in_doubt() {
    let (site, _) = site();
    let (a, _) = proxy(|number| {
        if number % 2 == 0 {
            Does::Hangs
        } else {
            Does::Breaks
        }
    });
    let (b, _) = proxy(|_| Does::Opens);
    let (ran, report) = crawl(site, [a, b], &[IN_TURNS, ONE]);
    let egress = &report["egress"];
    assert!(egress["a"]["failures"].as_u64() >= Some(3), "{egress}");
    assert_eq!(egress["a"]["exchanges"], 0, "{egress}");
    assert!(ran.stderr.contains("the tunnel broke"), "{}", ran.stderr);
}

#[test]
fn without_an_egress_that_works_nothing_is_asked_and_the_run_is_blocked() {
    let dir = tempfile::tempdir().expect("a directory");
    let (site, asked) = site();
    let ran = run(binary(dir.path())
        .args(["crawl", "--mode", "crawl"])
        .args(["--urls", &format!("http://127.0.0.1:{site}/p0")])
        .env("CRAWLER__TEST_TIME_SCALE", "0.001")
        .env("CRAWLER__EXCHANGE__EGRESS", "gone")
        .env("CRAWLER__EGRESS__GONE__URL", "http://127.0.0.1:9")
        .env("CRAWLER__EGRESS__GONE__EXPIRES", "2020-01-01T00:00:00Z"));
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("an egress has expired"),
        "{}",
        ran.stderr
    );
    assert!(asked.lock().expect("the heads").is_empty());
}
