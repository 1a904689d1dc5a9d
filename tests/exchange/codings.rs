//! Content codings over real sockets: true labels, false ones, broken streams, bombs.

use std::rc::Rc;

use crawler_node::exchange::{Fault, FetchError, RetryClass};
use crawler_node::model::{BodyNote, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use url::Url;

use crate::bodies::encoded;
use crate::encoders::{bare_deflate, brotli, brotli_bomb, gzip, gzip_bomb, zlib, zstd, zstd_bomb};
use crate::support::{
    Server, Then, client, exchange, get, in_pieces, ok, only, reply, settings, within,
};

const TEXT: &str = "<p>one two three four five six seven eight nine ten</p>";

/// An answer with these header lines and this body.
fn answer(head: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

async fn error(bytes: Vec<u8>, then: Then) -> FetchError {
    let server = Server::start(vec![reply(bytes, then)]).await;
    let result = exchange(&client(&settings()), server.url("/")).await.result;
    result.unwrap_err()
}

#[actix_rt::test]
async fn l50_every_coding_and_every_odd_label() {
    let text = TEXT.as_bytes();
    let two = [gzip(b"<p>one two three "), gzip(&text[17..])].concat();
    let tail = |body: Vec<u8>| [body, b"rubbish behind the end".to_vec()].concat();
    let plain = |coding| vec![BodyNote::NotEncoded(coding)];
    let behind = || vec![BodyNote::BytesBehind];
    let unknown = |name: &str| vec![BodyNote::UnknownCoding(name.to_owned())];
    for (coding, body, notes) in [
        ("gzip", gzip(text), vec![]),
        ("GZIP", gzip(text), vec![]),
        ("x-gzip", gzip(text), vec![]),
        ("deflate", zlib(text), vec![]),
        ("deflate", bare_deflate(text), vec![]),
        ("br", brotli(text), vec![]),
        ("zstd", zstd(text), vec![]),
        ("gzip, gzip", gzip(&gzip(text)), vec![]),
        ("deflate, br", brotli(&zlib(text)), vec![]),
        (
            "br, zstd, deflate, gzip",
            gzip(&bare_deflate(&zstd(&brotli(text)))),
            vec![],
        ),
        ("gzip", two, vec![]),
        (
            "zstd",
            [zstd(&text[..9]), zstd(&text[9..])].concat(),
            vec![],
        ),
        ("gzip", text.to_vec(), plain("gzip")),
        ("deflate", text.to_vec(), plain("deflate")),
        ("br", text.to_vec(), plain("br")),
        ("zstd", text.to_vec(), plain("zstd")),
        ("gzip", tail(gzip(text)), behind()),
        ("deflate", tail(zlib(text)), behind()),
        ("deflate", tail(bare_deflate(text)), behind()),
        ("br", tail(brotli(text)), behind()),
        ("zstd", tail(zstd(text)), behind()),
        (
            "deflate",
            gzip(text),
            vec![BodyNote::OtherCoding("deflate")],
        ),
        ("utf-8", text.to_vec(), unknown("utf-8")),
        ("gzip, aws-chunked", gzip(text), unknown("aws-chunked")),
        ("none", text.to_vec(), unknown("none")),
        ("identity", text.to_vec(), vec![]),
    ] {
        for size in [1, 50, 100_000] {
            let bytes = encoded(coding, &body);
            let answer = only(in_pieces(bytes, size, Then::Keep)).await.unwrap();
            assert_eq!(answer.body, TEXT, "{coding}");
            assert_eq!(answer.notes, notes, "{coding}");
            assert_eq!(answer.headers.get("content-encoding"), Some(coding));
        }
    }
}

#[actix_rt::test]
async fn l50_gzip_of_gzip_under_one_label_is_undone_where_a_text_is_promised() {
    let twice = gzip(&gzip(TEXT.as_bytes()));
    let html = answer(
        "200 OK\r\nContent-Encoding: gzip\r\nContent-Type: text/html",
        &twice,
    );
    let html = only(reply(html, Then::Keep)).await.unwrap();
    assert_eq!(html.body, TEXT);
    assert_eq!(html.notes, [BodyNote::EncodedTwice]);
    let file = answer(
        "200 OK\r\nContent-Encoding: gzip\r\nContent-Type: application/zip",
        &twice,
    );
    let file = only(reply(file, Then::Keep)).await.unwrap();
    assert_eq!(file.body, gzip(TEXT.as_bytes()));
    let head = "200 OK\r\nContent-Encoding: gzip\r\nContent-Type: application/x-gzip";
    let archive = only(reply(answer(head, &twice), Then::Keep)).await.unwrap();
    assert_eq!(archive.body, twice);
    assert_eq!(archive.notes, [BodyNote::ArchiveKept]);
}

#[actix_rt::test]
async fn l50_a_stream_that_is_cut_is_truncated_and_what_was_read_is_kept_aside() {
    let text: String = (0..3000).map(|n| format!("line {n}\n")).collect();
    for (coding, body) in [
        ("gzip", gzip(text.as_bytes())),
        ("deflate", zlib(text.as_bytes())),
        ("deflate", bare_deflate(text.as_bytes())),
        ("br", brotli(text.as_bytes())),
        ("zstd", zstd(text.as_bytes())),
        ("gzip, gzip", gzip(&gzip(text.as_bytes()))),
    ] {
        for end in [body.len() - 8, body.len() / 2] {
            // A stream that ends too early inside a body that is whole, and a body that does.
            let whole = encoded(coding, &body[..end]);
            let mut cut = encoded(coding, &body);
            cut.truncate(cut.len() - (body.len() - end));
            for (bytes, then) in [(whole, Then::Keep), (cut, Then::Close)] {
                let error = error(bytes, then).await;
                assert!(
                    matches!(error.fault, Fault::Truncated { .. }),
                    "{coding} {error}"
                );
                assert_eq!(error.outcome(), Outcome::Truncated);
                assert_eq!(error.retry(), RetryClass::Backoff);
                let partial = error.partial.expect("what was read");
                let read = &partial.answer().body;
                assert!(text.as_bytes().starts_with(read), "{coding}");
                assert_eq!(partial.answer().status, 200);
                if coding == "gzip" && end == body.len() - 8 {
                    // Only the trailer is missing: a page of the full length, and no whole one all the same.
                    assert_eq!(read.len(), text.len());
                }
                assert!(!format!("{partial:?}").contains("line"));
            }
        }
    }
    let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nthe first part".to_vec();
    let partial = error(plain, Then::Close).await.partial.unwrap();
    assert_eq!(partial.answer().body, "the first part");
}

#[actix_rt::test]
async fn l50_answers_without_a_body_and_redirects_are_not_decoded_in_vain() {
    let target = "302 Found\r\nLocation: /next\r\nContent-Encoding: gzip";
    let cut = gzip(TEXT.as_bytes())[..20].to_vec();
    let corrupt = [&[0x1f, 0x8b, 8, 0][..], &[0xff; 40]].concat();
    let too_many = "302 Found\r\nLocation: /next\r\nContent-Encoding: br, br, br, br, br";
    let replies = [
        answer("200 OK\r\nContent-Encoding: gzip", b""),
        answer("200 OK\r\nContent-Encoding: br", b""),
        b"HTTP/1.1 204 No Content\r\nContent-Encoding: gzip\r\n\r\n".to_vec(),
        b"HTTP/1.1 304 Not Modified\r\nContent-Encoding: zstd\r\nContent-Length: 9\r\n\r\n"
            .to_vec(),
        answer(target, b"<p>moved</p>"),
        answer(target, b""),
        answer(target, &cut),
        answer(target, &corrupt),
        answer(too_many, b"<p>moved</p>"),
    ];
    let statuses = [200, 200, 204, 304, 302, 302, 302, 302, 302];
    let mut served: Vec<_> = replies
        .into_iter()
        .map(|bytes| reply(bytes, Then::Keep))
        .collect();
    served.push(ok("next"));
    let server = Server::start(served).await;
    let client = client(&settings());
    for status in statuses {
        let answer = get(&client, server.url("/")).await.unwrap();
        assert_eq!(answer.status, status);
        assert_eq!(answer.location().is_some(), status == 302);
    }
    assert_eq!(get(&client, server.url("/")).await.unwrap().body, "next");
    assert_eq!(server.connections(), 1);
}

#[actix_rt::test]
async fn what_cannot_be_decoded_is_named() {
    let corrupt = |magic: &[u8]| [magic, &[0xff; 60]].concat();
    for (coding, body) in [
        ("gzip", corrupt(&[0x1f, 0x8b, 8, 0])),
        ("deflate", corrupt(&[0x78, 0x9c])),
        ("br", corrupt(&[])),
        ("zstd", corrupt(&[0x28, 0xb5, 0x2f, 0xfd])),
    ] {
        let error = error(encoded(coding, &body), Then::Keep).await;
        assert!(matches!(error.fault, Fault::Decode(_)), "{coding}: {error}");
        assert!(
            error.to_string().contains(&format!("{coding}: ")),
            "{error}"
        );
        assert_eq!(error.partial, None);
    }
    let error = error(encoded("br, br, br, br, br", b"x"), Then::Keep).await;
    assert!(error.to_string().contains("allowed: at most 4"), "{error}");
}

/// One connection whose answer never ends by itself: `head`, and then `piece` again and again. The receiver learns
/// how many bytes were written before the client closed.
async fn endless(head: &str, piece: Rc<Vec<u8>>) -> (Url, oneshot::Receiver<u64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let head = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n");
    let (closed, wait) = oneshot::channel();
    actix_rt::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            stream.read_buf(&mut request).await.unwrap();
        }
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut written = 0;
        'writing: loop {
            for part in piece.chunks(16 * 1024) {
                if stream.write_all(part).await.is_err() {
                    break 'writing;
                }
                written += part.len() as u64;
            }
            if piece.is_empty() {
                // Nothing to say; the client's end shows when it is read.
                while stream.read_buf(&mut request).await.unwrap_or(0) > 0 {}
                break;
            }
        }
        let _ = closed.send(written);
    });
    let url = Url::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
    (url, wait)
}

const LIMIT: u64 = 10 * 1024 * 1024;

/// A million bytes as one chunk of a chunked body.
fn chunk(data: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

#[actix_rt::test]
async fn l51_what_is_too_large_ends_at_the_limit_and_closes_the_connection() {
    let mut settings = settings();
    settings.max_body_bytes = LIMIT;
    // It is the size that ends them here, not how they grow.
    settings.max_expansion = 1_000_000;
    let chunked = "Transfer-Encoding: chunked";
    let encoded = |coding: &str| format!("Content-Encoding: {coding}\r\nContent-Type: text/html");
    let zeros = chunk(&[0; 1_000_000]);
    let too_large = Fault::BodyTooLarge { limit: LIMIT };
    let bomb = Fault::DecodedTooLarge { limit: LIMIT };
    for (head, piece, fault) in [
        (chunked.to_owned(), zeros.clone(), &too_large),
        (
            "Content-Length: 1000000000000".to_owned(),
            vec![],
            &too_large,
        ),
        (
            "Connection: close".to_owned(),
            vec![7; 1_000_000],
            &too_large,
        ),
        (encoded("gzip"), gzip_bomb(), &bomb),
        (encoded("gzip"), gzip(&gzip_bomb()), &bomb),
        (encoded("gzip, gzip"), gzip(&gzip_bomb()), &bomb),
        (encoded("br"), brotli_bomb(), &bomb),
        (encoded("zstd"), zstd_bomb(), &bomb),
    ] {
        let (url, closed) = endless(&head, Rc::new(piece)).await;
        let client = client(&settings);
        let error = exchange(&client, url).await.result.unwrap_err();
        assert_eq!(&error.fault, fault, "{head}");
        assert_eq!(error.outcome(), Outcome::Oversize);
        assert_eq!(error.retry(), RetryClass::Never);
        assert_eq!(error.partial, None);
        assert_eq!(client.open_connections(), 0, "{head}");
        // What was sent: the limit, and what fits into the buffers of two sockets.
        let written = within(closed).await.unwrap();
        assert!(written < LIMIT + 16 * 1024 * 1024, "{head}: {written}");
    }
}

/// A figure of this process, in bytes.
#[cfg(target_os = "linux")]
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    let kib = line.split_ascii_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

/// Runs in a process of its own, so that the memory is its own too.
#[cfg(target_os = "linux")]
#[actix_rt::test]
async fn l51_memory_stays_below_the_limit_and_8_mib() {
    const CHILD: &str = "CODINGS_MEMORY_TEST";
    const NAME: &str = "codings::l51_memory_stays_below_the_limit_and_8_mib";
    if std::env::var_os(CHILD).is_none() {
        let this = std::env::current_exe().unwrap();
        let output = std::process::Command::new(this)
            .args(["--exact", NAME, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let figures = String::from_utf8_lossy(&output.stderr);
        eprintln!("{figures}");
        assert!(output.status.success(), "{said}");
        assert!(said.contains("1 passed"));
        return;
    }
    let mut settings = settings();
    settings.max_body_bytes = LIMIT;
    // It is the size that ends them here, not how they grow.
    settings.max_expansion = 1_000_000;
    for (coding, bomb) in [
        ("gzip", gzip_bomb()),
        ("gzip, gzip", gzip(&gzip_bomb())),
        ("gzip", gzip(&gzip_bomb())),
        ("br", brotli_bomb()),
        ("zstd", zstd_bomb()),
    ] {
        let head = format!("Content-Encoding: {coding}\r\nContent-Type: text/html");
        let (url, closed) = endless(&head, Rc::new(bomb)).await;
        let client = client(&settings);
        // Forgets the peak so far.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = status("VmRSS:");
        let fault = get(&client, url).await.unwrap_err();
        assert_eq!(fault, Fault::DecodedTooLarge { limit: LIMIT });
        let grown = status("VmHWM:").saturating_sub(before);
        within(closed).await.unwrap();
        eprintln!("{coding}: {} KiB above {} KiB", grown / 1024, before / 1024);
        assert!(grown < LIMIT + 8 * 1024 * 1024, "{coding}: {grown}");
    }
}
