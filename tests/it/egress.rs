//! A crawl through two proxies of which one dies in the middle, and one that finds none that works.

use std::io::{Read, Write, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use crate::support::{binary, records, run};

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

/// A CONNECT proxy that closes its door after `most` tunnels, and cuts the next.
fn proxy(most: usize) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let tunnels: Arc<AtomicUsize> = Arc::default();
    let count = tunnels.clone();
    thread::spawn(move || {
        for mut near in listener.incoming().flatten() {
            if count.load(Ordering::SeqCst) >= most {
                return;
            }
            let count = count.clone();
            thread::spawn(move || {
                let asked = head(&mut near)?;
                // me:hidden
                if !asked.contains("Proxy-Authorization: Basic bWU6aGlkZGVu\r\n") {
                    let _ = near.write_all(b"HTTP/1.1 407 No\r\n\r\n");
                    return None;
                }
                count.fetch_add(1, Ordering::SeqCst);
                let mut far = TcpStream::connect(asked.split(' ').nth(1)?).ok()?;
                near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
                let (mut up, mut to) = (near.try_clone().ok()?, far.try_clone().ok()?);
                thread::spawn(move || copy(&mut up, &mut to));
                let _ = copy(&mut far, &mut near);
                let _ = near.shutdown(Shutdown::Both);
                Some(())
            });
        }
    });
    (port, tunnels)
}

#[test]
fn a_proxy_that_dies_in_the_middle_loses_nothing_and_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let (site, asked) = site();
    let ((a, a_tunnels), (b, b_tunnels)) = (proxy(15), proxy(usize::MAX));
    let out = dir.path().join("out");
    let report = dir.path().join("report.json");
    let mut command = binary(dir.path());
    command
        .args(["crawl", "--mode", "crawl", "--max_concurrency_num", "4"])
        .args(["--urls", &format!("http://127.0.0.1:{site}/p0")])
        .arg("--out")
        .arg(&out)
        .arg("--report")
        .arg(&report)
        .env("CRAWLER__TEST_TIME_SCALE", "0.05")
        .env("CRAWLER__EXCHANGE__EGRESS", "a,b");
    for (name, port) in [("A", a), ("B", b)] {
        command
            .env(
                format!("CRAWLER__EGRESS__{name}__URL"),
                format!("http://127.0.0.1:{port}"),
            )
            .env(format!("CRAWLER__EGRESS__{name}__USERNAME"), "me")
            .env(format!("CRAWLER__EGRESS__{name}__PASSWORD"), "hidden")
            .env(
                format!("CRAWLER__EGRESS__{name}__TLS_VERIFY"),
                if name == "A" { "false" } else { "true" },
            );
    }
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(records(&out).len(), PAGES);
    let text = std::fs::read_to_string(&report).expect("the report");
    let told: Value = serde_json::from_str(&text).expect("JSON");
    let egress = &told["egress"];
    assert!(egress["a"]["failures"].as_u64() >= Some(3), "{egress}");
    assert_eq!(egress["b"]["failures"], 0, "{egress}");
    assert_eq!(egress["a"]["tls_verify"], false);
    assert!(
        ran.stderr.contains("an egress is left alone"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("CERTIFICATES ARE NOT CHECKED"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("hidden") && !text.contains("hidden"));
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
