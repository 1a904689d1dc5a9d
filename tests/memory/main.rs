//! The memory of one exchange is bounded whatever a server sends: measured on the process, so alone in it.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use crawler_node::exchange::{Client, ExchangePermit, Fault};
use crawler_node::model::Request;
use crawler_node::settings::Settings;
use tokio::time::Instant;
use url::Url;

const MIB: u64 = 1024 * 1024;

/// The limit of the body.
const LIMIT: u64 = 10 * MIB;

/// What an exchange may take beyond its body.
const BESIDES: u64 = 8 * MIB;

/// Names the case to a process of its own.
const CASE: &str = "ENDLESS_CASE";

struct Permit;

impl ExchangePermit for Permit {
    type Receipt = ();

    fn deadline(&self) -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn release(self, _: bool) {}
}

/// A server that sends `first` and then `again` for as long as anybody reads.
fn endless(first: Vec<u8>, again: Vec<u8>) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let mut written = stream.write_all(&first);
            while written.is_ok() {
                written = stream.write_all(&again);
            }
        }
    });
    Url::parse(&url).unwrap()
}

/// The line `name` of this process's status, in bytes.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    let number = line.split_ascii_whitespace().nth(1).unwrap();
    number.parse::<u64>().unwrap() * 1024
}

/// How far the process grew while `work` ran, at its peak.
async fn growth(work: impl Future<Output = ()>) -> u64 {
    // 5 sets the peak back to what is in use now.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS");
    work.await;
    status("VmHWM").saturating_sub(before)
}

/// What a server sends first, what again and again, and the fault that ends it; `None`: some `Protocol`.
struct Endless {
    name: &'static str,
    first: Vec<u8>,
    again: Vec<u8>,
    fault: Option<Fault>,
}

fn cases() -> Vec<Endless> {
    let head = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n").into_bytes();
    let open = |more: &[u8]| [b"HTTP/1.1 200 OK\r\n", more].concat();
    let chunked = |more: &[u8]| [&head("Transfer-Encoding: chunked\r\n"), more].concat();
    let block = || vec![b'x'; 65_536];
    let small_chunks = b"f\r\nxxxxxxxxxxxxxxx\r\n".repeat(3000);
    let large_chunks = [b"10000\r\n".to_vec(), block(), b"\r\n".to_vec()].concat();
    let padded = format!("1;{}\r\nx\r\n", "e".repeat(4000)).repeat(16);
    let most_fields = [b"a:\r\n".repeat(19_000), b"\r\n".to_vec()].concat();
    let body = Some(Fault::BodyTooLarge { limit: LIMIT });
    let header = Some(Fault::HeaderTooLarge { limit: MIB });
    let case = |name, first, again, fault: &Option<Fault>| Endless {
        name,
        first,
        again,
        fault: fault.clone(),
    };
    vec![
        case("a body until the close", head(""), block(), &body),
        case(
            "a length of a terabyte",
            head("Content-Length: 1000000000000\r\n"),
            block(),
            &body,
        ),
        case("large chunks", chunked(b""), large_chunks, &body),
        case("small chunks", chunked(b""), small_chunks, &body),
        case(
            "one chunk without end",
            chunked(b"fffffffffffffff\r\n"),
            block(),
            &body,
        ),
        case(
            "the most fields, and a body",
            open(&most_fields),
            block(),
            &body,
        ),
        case("chunk extensions", chunked(b""), padded.into_bytes(), &None),
        case("a size line without end", chunked(b""), block(), &None),
        case(
            "trailers",
            chunked(b"0\r\n"),
            b"X: y\r\n".repeat(10_000),
            &None,
        ),
        case("one field without end", open(b"X: "), block(), &header),
        case(
            "many fields",
            open(b""),
            b"X: y\r\n".repeat(10_000),
            &header,
        ),
        case(
            "empty lines before the head",
            Vec::new(),
            b"\r\n".repeat(30_000),
            &header,
        ),
        case(
            "interim answers",
            Vec::new(),
            b"HTTP/1.1 103 E\r\nX: y\r\n\r\n".repeat(1000),
            &None,
        ),
    ]
}

#[actix_rt::test]
#[ignore = "run by the test below, each case in a process of its own"]
async fn one_endless_answer() {
    let number: usize = std::env::var(CASE).unwrap().parse().unwrap();
    let Endless {
        name,
        first,
        again,
        fault,
    } = cases().swap_remove(number);
    let mut settings = Settings::default().exchange;
    settings.max_body_bytes = LIMIT;
    settings.max_header_bytes = MIB;
    let client = Client::new(&settings, "test").unwrap();
    // What is made once, whatever is asked, is made before.
    let small = endless(
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(),
        b"x".to_vec(),
    );
    client
        .exchange(Permit, &Request::get(small))
        .await
        .result
        .unwrap();
    client.close_idle();
    let url = endless(first, again);
    let grown = growth(async {
        let error = client
            .exchange(Permit, &Request::get(url))
            .await
            .result
            .unwrap_err();
        match fault {
            Some(expected) => assert_eq!(error.fault, expected, "{name}"),
            None => assert!(matches!(error.fault, Fault::Protocol(_)), "{name}: {error}"),
        }
    })
    .await;
    eprintln!("{name}: {} KiB", grown / 1024);
    assert!(grown < LIMIT + BESIDES, "{name}: {} KiB", grown / 1024);
    assert_eq!(client.open_connections(), 0, "{name}");
}

#[test]
fn l51_no_endless_answer_takes_more_than_the_limit_and_eight_mebibytes() {
    // In one process a case would find the memory that another has left behind.
    for number in 0..cases().len() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["one_endless_answer", "--exact", "--ignored", "--nocapture"])
            .env(CASE, number.to_string())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let grown = text.lines().find(|line| line.ends_with("KiB"));
        eprintln!("{}", grown.unwrap_or_default());
        assert!(output.status.success(), "{text}");
    }
}
