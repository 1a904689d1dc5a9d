//! Limits and decoding.

use crawler_node::exchange::Fault;

use crate::encoders::gzip;
use crate::support::{Server, Then, client, get, in_pieces, ok, only, reply, settings};

pub(crate) fn encoded(coding: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

#[actix_rt::test]
async fn gzip_is_decoded_and_wrong_labels_are_forgiven() {
    let text = "all work and no play ".repeat(5000);
    let body = gzip(text.as_bytes());
    let answer = only(in_pieces(encoded("gzip", &body), 1000, Then::Keep))
        .await
        .unwrap();
    assert_eq!(answer.body, text);
    assert_eq!(answer.headers.get("content-encoding"), Some("gzip"));
    let plain = only(reply(encoded("gzip", b"plain"), Then::Keep))
        .await
        .unwrap();
    assert_eq!(plain.body, "plain");
}

#[actix_rt::test]
async fn broken_codings_are_named() {
    let body = gzip(b"some text");
    let cut = encoded("gzip", &body[..body.len() - 3]);
    assert!(matches!(
        only(reply(cut, Then::Keep)).await,
        Err(Fault::Truncated { .. })
    ));
    let corrupt = only(reply(encoded("br", &[0xff; 40]), Then::Keep))
        .await
        .unwrap_err();
    assert!(corrupt.to_string().contains("br: "), "{corrupt}");
}

#[actix_rt::test]
async fn a_bomb_ends_at_the_limit_and_the_client_goes_on() {
    let mut settings = settings();
    settings.max_body_bytes = 1024 * 1024;
    let bomb = gzip(&vec![0; 16 * 1024 * 1024]);
    let replies = vec![reply(encoded("gzip", &bomb), Then::Keep), ok("next")];
    let server = Server::start(replies).await;
    let client = client(&settings);
    let fault = get(&client, server.url("/")).await.unwrap_err();
    assert_eq!(fault, Fault::DecodedTooLarge { limit: 1024 * 1024 });
    assert_eq!(get(&client, server.url("/")).await.unwrap().body, "next");
}

#[actix_rt::test]
async fn a_body_has_a_limit_as_it_arrives_and_one_as_it_is_decoded() {
    let body = gzip(&[7; 50_000]);
    let server = Server::start(vec![reply(encoded("gzip", &body), Then::Keep)]).await;
    for (arrives, decoded, fault) in [
        (1024, Some(50_000), None),
        (
            1024,
            Some(49_999),
            Some(Fault::DecodedTooLarge { limit: 49_999 }),
        ),
        (1024, None, Some(Fault::DecodedTooLarge { limit: 1024 })),
        (20, Some(50_000), Some(Fault::BodyTooLarge { limit: 20 })),
    ] {
        let mut settings = settings();
        settings.max_body_bytes = arrives;
        settings.max_decoded_bytes = decoded;
        let answer = get(&client(&settings), server.url("/")).await;
        assert_eq!(answer.err(), fault, "{arrives} {decoded:?}");
    }
}

#[actix_rt::test]
async fn large_bodies_end_at_the_limit_however_they_are_framed() {
    let mut settings = settings();
    settings.max_body_bytes = 1000;
    let x = "x".repeat(1001);
    for (text, then) in [
        // A length says it at once: no byte of the body is waited for.
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n".to_owned(),
            Then::Hang,
        ),
        (format!("HTTP/1.1 200 OK\r\n\r\n{x}"), Then::Hang),
        (
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n{x}"),
            Then::Hang,
        ),
    ] {
        let server = Server::start(vec![reply(&text, then)]).await;
        let client = client(&settings);
        let fault = get(&client, server.url("/")).await.unwrap_err();
        assert_eq!(fault, Fault::BodyTooLarge { limit: 1000 });
        assert_eq!(client.open_connections(), 0);
    }
    let server = Server::start(vec![ok(&x[1..])]).await;
    assert_eq!(
        get(&client(&settings), server.url("/"))
            .await
            .unwrap()
            .body
            .len(),
        1000
    );
}

#[actix_rt::test]
async fn large_heads_end_at_the_limit() {
    let mut settings = settings();
    settings.max_header_bytes = 1000;
    let long = "x".repeat(1000);
    for text in [
        format!("HTTP/1.1 200 OK\r\nX: {long}\r\nContent-Length: 0\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\nX: {long}"),
    ] {
        let server = Server::start(vec![in_pieces(text, 100, Then::Hang)]).await;
        let fault = get(&client(&settings), server.url("/")).await.unwrap_err();
        assert_eq!(fault, Fault::HeaderTooLarge { limit: 1000 });
    }
}

#[actix_rt::test]
async fn the_bytes_are_the_same_however_they_are_split() {
    let text: String = (0..20_000)
        .map(|n| char::from(b'a' + (n % 23) as u8))
        .collect();
    let known = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    );
    let mut chunked = String::from("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for part in text.as_bytes().chunks(777) {
        let part = std::str::from_utf8(part).unwrap();
        chunked.push_str(&format!("{:x};ext\r\n{part}\r\n", part.len()));
    }
    chunked.push_str("0\r\nTrailer: 1\r\n\r\n");
    let close = format!("HTTP/1.1 200 OK\r\n\r\n{text}");
    for (bytes, then) in [
        (known, Then::Keep),
        (chunked, Then::Keep),
        (close, Then::Close),
    ] {
        for size in [13, 511, 4096, 8192, 100_000] {
            let answer = only(in_pieces(&bytes, size, then)).await.unwrap();
            assert!(answer.body == text, "{size}");
        }
    }
}
