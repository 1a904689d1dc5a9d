//! Raw bytes against everything that reads what a server sent, through the public face.
//!
//! Bounded here; `PROPTEST_CASES=100000` makes a long run of it.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use crawler_node::exchange::{Client, Fault, Robots, resolve};
use crawler_node::governor::hints::{hints, retry_after};
use crawler_node::model::{Headers, UnixMillis};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::Url;

use crate::cases::{Case, all};
use crate::curl::mutant;
use crate::support::{client, get, settings};

/// What the server of a fuzz run says next, in pieces.
type Script = Rc<RefCell<Vec<Vec<u8>>>>;

async fn scripted() -> (Url, Script) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let script = Script::default();
    let said = Rc::clone(&script);
    actix_rt::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let pieces = said.borrow().clone();
            actix_rt::spawn(async move {
                let mut request = [0; 4096];
                if stream.read(&mut request).await.is_ok_and(|count| count > 0) {
                    for piece in pieces {
                        let _ = stream.write_all(&piece).await;
                        tokio::task::yield_now().await;
                    }
                }
            });
        }
    });
    (Url::parse(&url).unwrap(), script)
}

/// The whole way from the socket to the answer, on a fresh connection.
async fn read(
    client: &Client,
    url: &Url,
    script: &Script,
    pieces: Vec<Vec<u8>>,
) -> Result<(u16, Bytes), Fault> {
    script.replace(pieces);
    let answer = get(client, url.clone()).await;
    client.close_idle();
    answer.map(|answer| (answer.status, answer.body))
}

/// A case of the table, changed.
fn changed(small: &[Case], index: prop::sample::Index, seed: u64) -> Vec<u8> {
    let case = &small[index.index(small.len())];
    mutant(case, &mut fastrand::Rng::with_seed(seed)).bytes
}

#[test]
fn fuzz_response_path() {
    let small: Vec<_> = all()
        .into_iter()
        .filter(|case| (1..500).contains(&case.bytes.len()))
        .collect();
    let coding = prop::sample::select(vec![
        "",
        "Content-Encoding: gzip\r\n",
        "Content-Encoding: deflate, gzip\r\n",
    ]);
    let strategy = (
        any::<prop::sample::Index>(),
        any::<u64>(),
        coding,
        1usize..60,
    );
    let system = actix_rt::System::new();
    let (url, script) = system.block_on(scripted());
    let client = client(&settings());
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    TestRunner::new(config)
        .run(&strategy, |(index, seed, coding, piece)| {
            let mut raw = changed(&small, index, seed);
            let line = raw.iter().position(|&b| b == b'\n').map_or(0, |at| at + 1);
            raw.splice(line..line, coding.bytes());
            let pieces = raw.chunks(piece).map(<[u8]>::to_vec).collect();
            let (whole, split) = system.block_on(async {
                let whole = read(&client, &url, &script, vec![raw.clone()]).await;
                (whole, read(&client, &url, &script, pieces).await)
            });
            prop_assert_eq!(whole, split);
            Ok(())
        })
        .unwrap();
}

proptest! {
    #[test]
    fn fuzz_location(location in prop::collection::vec(any::<u8>(), 0..60), near in "[a-z:/?#@.%\\\\ \\[\\]0-9é]{0,30}") {
        let base = Url::parse("https://example.com/a/b?c#d").unwrap();
        for text in [String::from_utf8_lossy(&location).into_owned(), near] {
            if let Ok(target) = resolve(&base, &text) {
                prop_assert!(matches!(target.scheme(), "http" | "https"));
                prop_assert!(target.username().is_empty() && target.password().is_none());
            }
        }
    }

    #[test]
    fn fuzz_limit_headers(
        fields in prop::collection::vec(
            (
                prop::sample::select(vec!["retry-after", "ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "date"]),
                prop::collection::vec(any::<u8>(), 0..40),
            ),
            0..6,
        ),
        now in any::<i32>(),
    ) {
        let named = |(name, value): (&str, Vec<u8>)| (name.to_owned(), Bytes::from(value));
        let texts: Vec<_> = fields.iter().map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect();
        let headers = Headers(fields.into_iter().map(named).collect());
        let now = UnixMillis(i64::from(now) * 1000);
        let _ = hints(&headers, now);
        for text in texts {
            let _ = retry_after(&text, now);
        }
    }

    #[test]
    fn fuzz_robots(
        body in prop::collection::vec(any::<u8>(), 0..300),
        lines in prop::collection::vec("(User-agent|Allow|Disallow|Crawl-delay|Sitemap|):? ?[*a-z/$%0-9?=.]{0,12}", 0..12),
        path in "/[a-z%0-9*$?]{0,12}",
    ) {
        let url = Url::parse("https://example.com").unwrap().join(&path).unwrap();
        for body in [body, lines.join("\n").into_bytes()] {
            let _ = Robots::from_answer(200, &body, "bot/1.0").allows(&url);
        }
    }
}
