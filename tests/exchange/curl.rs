//! The same hostile answers, read by curl: where the two differ, the reason is written down.

use std::process::Command;
use std::rc::Rc;

use crawler_node::exchange::Fault;
use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::Url;

use crate::cases::{Case, all};
use crate::support::{Then, client, get};
use crate::table::settings_of;

/// Answers that are made by changing others.
const MUTANTS: usize = 200;

/// curl processes at once.
const AT_ONCE: usize = 4;

/// What was read, or `None` for any error.
type Read = Option<(u16, Vec<u8>)>;

/// Serves answer number n at `/n`, once per connection.
async fn serve(answers: Rc<Vec<Case>>) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    actix_rt::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answers = Rc::clone(&answers);
            actix_rt::spawn(async move {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                let text = String::from_utf8_lossy(&request);
                let path = text.split(' ').nth(1).unwrap().trim_start_matches('/');
                let answer = &answers[path.parse::<usize>().unwrap()];
                let _ = stream.write_all(&answer.bytes).await;
                match answer.then {
                    // Who asked closes, or has a clock for it.
                    Then::Hang | Then::Keep => drop(stream.read(&mut [0; 1]).await),
                    Then::Reset => stream.set_zero_linger().unwrap(),
                    Then::Close | Then::Cut => {}
                }
            });
        }
    });
    Url::parse(&url).unwrap()
}

fn read_by_curl(url: &Url) -> Read {
    let output = Command::new("curl")
        .args(["--silent", "--http1.1", "--max-time", "3", "--noproxy", "*"])
        .args(["--write-out", "%{stderr}%{http_code}", url.as_str()])
        .output()
        .unwrap();
    let status = String::from_utf8_lossy(&output.stderr).parse().ok()?;
    output.status.success().then_some((status, output.stdout))
}

/// `case`, changed in one or two places. Only the seed decides.
pub(crate) fn mutant(case: &Case, random: &mut fastrand::Rng) -> Case {
    const ODD: &[u8] = b"\0\x01\t\n\r \x7f\xff09:;,aF-+";
    const LINES: [&[u8]; 8] = [
        b"Content-Length: 7\r\n",
        b"Content-Length: 2\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"X: \xff\r\n",
        b"\r\n",
        b" folded\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ];
    let mut changed = case.clone();
    let bytes = &mut changed.bytes;
    for _ in 0..random.usize(1..=2) {
        let at = random.usize(..bytes.len());
        match random.u8(..5) {
            0 => bytes[at] = ODD[random.usize(..ODD.len())],
            1 => bytes.insert(at, ODD[random.usize(..ODD.len())]),
            2 if bytes.len() > 1 => drop(bytes.remove(at)),
            3 => {
                let line = bytes[at..]
                    .iter()
                    .position(|&b| b == b'\n')
                    .map_or(0, |n| at + n + 1);
                bytes.splice(
                    line..line,
                    LINES[random.usize(..LINES.len())].iter().copied(),
                );
            }
            _ => bytes.truncate(at.max(1)),
        }
    }
    changed.then = Then::Close;
    changed
}

/// Why curl and the exchange may make different things of a changed answer. Most of it is that curl reads on where
/// the exchange would have to guess; the table of cases has one of each.
fn reason(case: &Case, fault: Option<&Fault>) -> Option<&'static str> {
    let of_protocol = [
        (
            "two different values of Content-Length",
            "curl takes the last one",
        ),
        (
            "Content-Length is not a whole number",
            "curl reads the digits it begins with",
        ),
        ("invalid HTTP version", "curl reads a head of any version"),
        ("it does not begin with", "curl reads a head of any version"),
        (
            "invalid response status",
            "curl reads three digits, whatever follows",
        ),
        ("invalid header value", "curl keeps a bare CR in a value"),
        (
            "a chunk is longer than its size",
            "curl skips what follows a chunk up to the line end",
        ),
        (
            "a transfer coding that was not asked for",
            "curl takes off one of two",
        ),
    ];
    match fault {
        Some(Fault::Truncated {
            received: 0,
            expected: None,
        }) => Some("curl takes a head that was cut for a whole one, and a line of CR for its end"),
        Some(Fault::Truncated { .. }) if has(case, b"Transfer-Encoding:\r\n ") => {
            Some("curl does not see a folded Transfer-Encoding")
        }
        Some(Fault::Protocol(text)) => {
            let known = of_protocol.iter().find(|(part, _)| text.contains(part));
            known.map(|(_, reason)| *reason)
        }
        Some(_) => None,
        None if case.bytes.starts_with(b"\r") || case.bytes.starts_with(b"\n") => {
            Some("to curl an answer never begins with an empty line")
        }
        None if odd_line(case) => {
            Some("curl refuses a head with a line that has no name and colon")
        }
        None if has(case, b"Content-Length:\r\n") => Some("curl refuses an empty Content-Length"),
        None => None,
    }
}

fn has(case: &Case, bytes: &[u8]) -> bool {
    case.bytes
        .windows(bytes.len())
        .any(|window| window == bytes)
}

/// Whether some line of the head is no field.
fn odd_line(case: &Case) -> bool {
    let lines = case.bytes.split(|&b| b == b'\n').skip(1);
    let mut head = lines
        .map(<[u8]>::trim_ascii)
        .take_while(|line| !line.is_empty());
    head.any(|line| !line.contains(&b':'))
}

/// The cases, and as many made of them.
fn answers() -> Vec<Case> {
    let cases: Vec<_> = all()
        .into_iter()
        .filter(|case| case.then != Then::Cut)
        .collect();
    let small: Vec<_> = cases
        .iter()
        .filter(|case| (1..500).contains(&case.bytes.len()))
        .cloned()
        .collect();
    let mut random = fastrand::Rng::with_seed(7);
    let mutants = (0..MUTANTS).map(|_| mutant(&small[random.usize(..small.len())], &mut random));
    let mutants: Vec<_> = mutants.collect();
    [cases, mutants].concat()
}

#[actix_rt::test]
async fn curl_reads_the_same_or_the_difference_has_a_reason() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: there is no curl here; `.ci/run` installs it");
        return;
    }
    let answers = Rc::new(answers());
    assert!(answers.len() >= 300);
    let own = answers.len() - MUTANTS;
    let base = serve(Rc::clone(&answers)).await;
    let mut differences = Vec::new();
    let urls = (0..answers.len()).map(|n| base.join(&n.to_string()).unwrap());
    let theirs: Vec<Read> = futures_util::stream::iter(urls.clone())
        .map(|url| async move {
            actix_rt::task::spawn_blocking(move || read_by_curl(&url))
                .await
                .unwrap()
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    for ((index, url), theirs) in urls.enumerate().zip(theirs) {
        let case = &answers[index];
        let answer = get(&client(&settings_of(case)), url).await;
        let fault = answer.as_ref().err().cloned();
        let ours = answer
            .ok()
            .map(|answer| (answer.status, answer.body.to_vec()));
        let known = match index < own {
            true => case.curl.is_some(),
            false => ours != theirs && reason(case, fault.as_ref()).is_some(),
        };
        if (ours != theirs) != known {
            differences.push(format!(
                "{index} {}: {:?}\n  ours {ours:?} {fault:?}\n  curl {theirs:?}",
                case.name,
                String::from_utf8_lossy(&case.bytes[..case.bytes.len().min(300)]),
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
