//! What other crawlers and the usual building blocks get wrong with bodies and connections, named after the report.

use std::time::Duration;

use crawler_node::exchange::{Fault, RetryClass};
use crawler_node::model::{Outcome, Request};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use url::Url;

use crate::support::{
    Server, TestPermit, Then, client, exchange, get, ok, only, reply, settings, within,
};

const SHORT: Duration = Duration::from_millis(100);

/// A server that sends `first`, then `again` and `again`, with `pause` before each.
async fn dripping(first: &'static str, again: Vec<u8>, pause: Duration) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    actix_rt::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let again = again.clone();
            actix_rt::spawn(async move {
                let mut written = stream.write_all(first.as_bytes()).await;
                while written.is_ok() {
                    tokio::time::sleep(pause).await;
                    written = stream.write_all(&again).await;
                }
            });
        }
    });
    Url::parse(&url).unwrap()
}

#[actix_rt::test]
async fn l28_a_kept_connection_that_went_stale_is_told_apart_and_asked_again_at_once() {
    for then in [Then::Close, Then::Reset] {
        let server = Server::start(vec![ok("first"), reply("", then), ok("again")]).await;
        let client = client(&settings());
        get(&client, server.url("/")).await.unwrap();
        let error = exchange(&client, server.url("/")).await.result.unwrap_err();
        assert_eq!(error.fault, Fault::Disconnected { reused: true });
        assert_eq!(error.retry(), RetryClass::Once);
        let request = Request::get(server.url("/"));
        let again = client.exchange_judged(TestPermit::new(), &request, true, |_| None);
        assert_eq!(within(again).await.result.unwrap().body, "again");
    }
}

#[actix_rt::test]
async fn l28_a_connection_that_was_closed_while_idle_is_not_used_again() {
    let server = Server::start(vec![reply(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        Then::Close,
    )])
    .await;
    let client = client(&settings());
    for _ in 0..3 {
        let mut answer = get(&client, server.url("/")).await;
        // The close may arrive within the next request; never is it counted as a dead page.
        if matches!(answer, Err(Fault::Disconnected { reused: true })) {
            answer = get(&client, server.url("/")).await;
        }
        assert_eq!(answer.unwrap().body, "ok");
    }
}

#[actix_rt::test]
async fn l12_the_permit_comes_back_when_the_connection_is_closed() {
    let mut settings = settings();
    settings.first_byte_timeout = SHORT;
    let server = Server::start(vec![reply("", Then::Hang)]).await;
    let client = client(&settings);
    let exchanged = exchange(&client, server.url("/")).await;
    assert_eq!(exchanged.result.unwrap_err().fault, Fault::FirstByteTimeout);
    assert_eq!(client.open_connections(), 0);
}

#[actix_rt::test]
async fn l51_an_endless_chunked_body_ends_at_the_limit_and_is_not_asked_again() {
    let chunk = format!("ffff\r\n{}\r\n", "x".repeat(0xffff)).into_bytes();
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (head, again) in [
        (head, chunk),
        ("HTTP/1.1 200 OK\r\n\r\n", vec![b'x'; 0xffff]),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n",
            vec![b'x'; 0xffff],
        ),
    ] {
        let url = dripping(head, again, Duration::ZERO).await;
        let client = client(&settings());
        let error = exchange(&client, url).await.result.unwrap_err();
        assert_eq!(
            error.fault,
            Fault::BodyTooLarge {
                limit: 16 * 1024 * 1024
            }
        );
        assert_eq!(
            (error.retry(), error.outcome()),
            (RetryClass::Never, Outcome::Oversize)
        );
        assert_eq!(client.open_connections(), 0);
    }
}

#[actix_rt::test]
async fn l52_a_length_larger_by_ten_is_cut_short_and_may_be_asked_again() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\nbody";
    let server = Server::start(vec![reply(text, Then::Close)]).await;
    let error = exchange(&client(&settings()), server.url("/"))
        .await
        .result
        .unwrap_err();
    let cut = Fault::Truncated {
        received: 4,
        expected: Some(14),
    };
    assert_eq!(
        (error.retry(), error.outcome()),
        (RetryClass::Backoff, Outcome::Truncated)
    );
    assert_eq!(error.fault, cut);
}

#[actix_rt::test]
async fn l52_a_length_smaller_by_ten_gives_what_it_says_and_tells_of_the_rest() {
    let long = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbodyand so on.";
    for (text, surplus) in [(long, true), (&long[..long.len() - 10], false)] {
        let server = Server::start(vec![reply(text, Then::Keep), ok("next")]).await;
        let client = client(&settings());
        let exchanged = exchange(&client, server.url("/")).await;
        assert_eq!(exchanged.result.unwrap().body, "body");
        assert_eq!(exchanged.surplus, surplus);
        assert_eq!(get(&client, server.url("/")).await.unwrap().body, "next");
        assert_eq!(server.connections(), if surplus { 2 } else { 1 });
    }
}

#[actix_rt::test]
async fn l52_two_equal_lengths_are_one_and_two_different_ones_are_none() {
    let answer = |second: &str| {
        let text =
            format!("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: {second}\r\n\r\nbody");
        reply(text, Then::Keep)
    };
    assert_eq!(only(answer("4")).await.unwrap().body, "body");
    assert!(matches!(only(answer("5")).await, Err(Fault::Protocol(_))));
}

#[actix_rt::test]
async fn l52_chunks_without_an_end_and_old_answers_without_a_length() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n";
    let cut = Fault::Truncated {
        received: 4,
        expected: None,
    };
    assert_eq!(only(reply(text, Then::Close)).await.unwrap_err(), cut);
    let old = "HTTP/1.0 200 OK\r\nServer: old\r\n\r\nbody";
    assert_eq!(only(reply(old, Then::Close)).await.unwrap().body, "body");
}

#[actix_rt::test]
async fn l52_a_trickle_in_the_head_ends_at_the_head_clock() {
    let mut settings = settings();
    settings.head_timeout = 3 * SHORT;
    let url = dripping("HTTP/1.1 200 OK\r\nX: ", b"y".to_vec(), SHORT / 10).await;
    let fault = get(&client(&settings), url).await.unwrap_err();
    assert_eq!(fault, Fault::HeadTimeout);
}

#[actix_rt::test]
async fn l52_a_trickle_in_the_body_ends_at_the_least_pace_or_at_the_total_clock() {
    let mut settings = settings();
    settings.min_rate_window = SHORT;
    settings.min_bytes_per_second = Some(1_000_000);
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (head, piece) in [
        (head, &b"y"[..]),
        (chunked, b"1\r\ny\r\n"),
        // Nothing but the padding of chunks: no body comes.
        (chunked, b"1;pad\r\ny\r\n"),
        ("HTTP/1.1 200 OK\r\n\r\n", b"y"),
    ] {
        let url = dripping(head, piece.to_vec(), SHORT / 10).await;
        let error = exchange(&client(&settings), url).await.result.unwrap_err();
        assert_eq!(error.fault, Fault::TooSlow, "{head:?}");
        assert_eq!(
            (error.retry(), error.outcome()),
            (RetryClass::Backoff, Outcome::Timeout)
        );
    }
    settings.min_bytes_per_second = None;
    settings.total_timeout = 3 * SHORT;
    let url = dripping(head, b"y".to_vec(), SHORT / 10).await;
    assert_eq!(
        get(&client(&settings), url).await.unwrap_err(),
        Fault::TotalTimeout
    );
}

#[actix_rt::test]
async fn l52_silence_after_the_head_ends_at_the_idle_clock() {
    let mut settings = settings();
    settings.idle_timeout = SHORT;
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";
    let server = Server::start(vec![reply(head, Then::Hang)]).await;
    let fault = get(&client(&settings), server.url("/")).await.unwrap_err();
    assert_eq!(fault, Fault::IdleTimeout);
}

#[actix_rt::test]
async fn h_a_body_of_another_length_than_announced_is_never_silent() {
    // Too long an announcement is an error in every block; a body longer than announced is cut silently by most.
    let long = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234567890123456789";
    let server = Server::start(vec![reply(long, Then::Close)]).await;
    let exchanged = exchange(&client(&settings()), server.url("/")).await;
    assert_eq!(exchanged.result.unwrap().body, "0123456789");
    assert!(exchanged.surplus);
}
