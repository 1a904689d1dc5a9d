//! Where awc loses, mixes up or refuses answers.

use crawler_node::exchange::Fault;
use crawler_node::model::{Method, Request};

use crate::support::{
    Reply, Server, TestPermit, Then, client, get, in_pieces, ok, only, reply, settings, within,
};

/// What awc alone makes of the only reply of a server: status and body, or `None` for an error.
async fn bare(reply: Reply) -> Option<(u16, String)> {
    let server = Server::start(vec![reply]).await;
    let client = awc::Client::builder().disable_redirects().finish();
    let mut answer = client.get(server.url("/").as_str()).send().await.ok()?;
    let body = answer.body().await.ok()?;
    let text = String::from_utf8_lossy(&body).into_owned();
    Some((answer.status().as_u16(), text))
}

#[actix_rt::test]
async fn a_short_body_is_truncated() {
    let cut = reply(
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnine byte",
        Then::Close,
    );
    assert_eq!(bare(cut.clone()).await, Some((200, "nine byte".to_owned())));
    let fault = only(cut).await.unwrap_err();
    assert_eq!(
        fault,
        Fault::Truncated {
            received: 9,
            expected: Some(100)
        }
    );

    let reset = reply(
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnine byte",
        Then::Reset,
    );
    assert!(matches!(
        only(reset).await,
        Err(Fault::Truncated {
            expected: Some(100),
            ..
        })
    ));

    let nothing = reply(
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
        Then::Close,
    );
    let fault = only(nothing).await.unwrap_err();
    assert_eq!(
        fault,
        Fault::Truncated {
            received: 0,
            expected: Some(100)
        }
    );

    let old = reply(
        "HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        Then::Close,
    );
    assert!(matches!(
        only(old).await,
        Err(Fault::Truncated { received: 3, .. })
    ));
}

#[actix_rt::test]
async fn a_chunked_body_without_its_end_is_truncated() {
    let cut = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    assert_eq!(
        bare(reply(cut, Then::Close)).await,
        Some((200, "hello".to_owned()))
    );
    let received = Fault::Truncated {
        received: 5,
        expected: None,
    };
    assert_eq!(only(reply(cut, Then::Close)).await.unwrap_err(), received);
    let zero = format!("{cut}0\r\n");
    assert_eq!(only(reply(zero, Then::Close)).await.unwrap_err(), received);
    let middle = &cut[..cut.len() - 4];
    assert!(matches!(
        only(reply(middle, Then::Close)).await,
        Err(Fault::Truncated { received: 3, .. })
    ));
    assert!(matches!(
        only(reply(cut, Then::Reset)).await,
        Err(Fault::Truncated { .. })
    ));
}

#[actix_rt::test]
async fn a_body_that_ends_at_close_is_whole() {
    for head in [
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nX: y\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\n",
    ] {
        let whole = reply(format!("{head}all of it"), Then::Close);
        if head.starts_with("HTTP/1.1") {
            assert_eq!(bare(whole.clone()).await, Some((200, String::new())));
        }
        assert_eq!(only(whole).await.unwrap().body, "all of it", "{head:?}");
    }
    let large = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(300_000));
    assert_eq!(
        only(in_pieces(large, 50_000, Then::Close))
            .await
            .unwrap()
            .body
            .len(),
        300_000
    );
    let empty = only(reply("HTTP/1.1 200 OK\r\n\r\n", Then::Close))
        .await
        .unwrap();
    assert_eq!(empty.body, "");
    let reset = reply("HTTP/1.1 200 OK\r\n\r\npart", Then::Reset);
    assert!(matches!(
        only(reset).await,
        Err(Fault::Truncated { expected: None, .. })
    ));
}

#[actix_rt::test]
async fn interim_answers_are_dropped_and_answers_never_change_places() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
    let body = |text: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{text}");
    let replies = vec![
        in_pieces(format!("{interim}{}", body("one")), 25, Then::Keep),
        reply(format!("{interim}{}", body("two")), Then::Keep),
        in_pieces(
            format!("HTTP/1.1 102 Processing\r\n\r\n{}", body("thr")),
            1,
            Then::Keep,
        ),
        reply(body("fou"), Then::Keep),
    ];
    let (status, _) = bare(replies[0].clone()).await.unwrap();
    assert_eq!(
        status, 100,
        "awc alone takes the interim answer for the answer"
    );
    let server = Server::start(replies).await;
    let client = client(&settings());
    for text in ["one", "two", "thr", "fou"] {
        let answer = get(&client, server.url(&format!("/{text}"))).await.unwrap();
        assert_eq!(
            (answer.status, answer.body.as_ref()),
            (200, text.as_bytes())
        );
    }
    assert_eq!(server.connections(), 1);
}

#[actix_rt::test]
async fn a_switch_of_protocol_and_endless_interim_answers_are_refused() {
    let switch = reply(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        Then::Hang,
    );
    assert!(matches!(only(switch).await, Err(Fault::Protocol(_))));
    let endless = reply("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100), Then::Hang);
    assert!(matches!(only(endless).await, Err(Fault::Protocol(_))));
}

#[actix_rt::test]
async fn answers_without_a_body_end_at_once_and_keep_the_connection() {
    let replies = vec![
        reply(
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\nETag: \"a\"\r\n\r\n",
            Then::Keep,
        ),
        reply(
            "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
            Then::Keep,
        ),
        reply(
            "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
            Then::Keep,
        ),
        reply("HTTP/1.1 204 No Content\r\n\r\n", Then::Keep),
        reply("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Then::Keep),
        ok("last"),
    ];
    let server = Server::start(replies).await;
    let client = client(&settings());
    for status in [304, 204, 304, 204, 200] {
        let answer = get(&client, server.url("/")).await.unwrap();
        assert_eq!((answer.status, answer.body.len()), (status, 0));
        if status == 304 && answer.headers.get("etag").is_some() {
            assert_eq!(answer.headers.get("content-length"), Some("500"));
        }
    }
    assert_eq!(get(&client, server.url("/")).await.unwrap().body, "last");
    assert_eq!(server.connections(), 1);
}

#[actix_rt::test]
async fn odd_heads_are_read() {
    for head in [
        "HTTP/1.1 200 OK\r\nX-Fold: a\r\n b\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nBad Name: x\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 2\n\n",
        "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: \u{e9}\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n2;a=b\r\n",
    ] {
        let tail = if head.contains("chunked") {
            "ok\r\n0\r\nT: 1\r\n\r\n"
        } else {
            "ok"
        };
        for size in [1, 7, 10_000] {
            let answer = only(in_pieces(format!("{head}{tail}"), size, Then::Keep)).await;
            assert_eq!(answer.unwrap().body, "ok", "{head:?}");
        }
    }
    let odd = only(reply(
        "HTTP/1.1 999 Go Away\r\nContent-Length: 0\r\n\r\n",
        Then::Keep,
    ))
    .await;
    assert_eq!(odd.unwrap().status, 999);
}

#[actix_rt::test]
async fn many_headers_arrive_in_order() {
    let mut head = String::from("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n");
    for n in 0..300 {
        head.push_str(&format!("X-{n}: {n}\r\n"));
    }
    head.push_str(&format!("{}: long\r\n", "n".repeat(70_000)));
    let many = reply(format!("{head}\r\nok"), Then::Keep);
    assert_eq!(bare(many.clone()).await, None);
    let answer = only(many).await.unwrap();
    let names: Vec<_> = answer
        .headers
        .0
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names.len(), 301);
    assert_eq!((names[1], names[300]), ("x-0", "x-299"));
}

#[actix_rt::test]
async fn what_is_not_an_answer_is_a_protocol_error() {
    for bytes in [
        "GARBAGE\r\n\r\n",
        "\u{15}\u{3}\u{1}",
        "HTTP/2.0 200 OK\r\n\r\n",
        "<html>no head at all",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello",
    ] {
        // The server goes on holding the connection: the error does not wait for its close.
        let fault = only(reply(bytes, Then::Hang)).await.unwrap_err();
        assert!(matches!(fault, Fault::Protocol(_)), "{bytes:?}: {fault}");
    }
}

#[actix_rt::test]
async fn a_head_that_ends_early_is_truncated() {
    let fault = only(reply("HTTP/1.1 200 OK\r\nContent-Le", Then::Close))
        .await
        .unwrap_err();
    assert_eq!(
        fault,
        Fault::Truncated {
            received: 0,
            expected: None
        }
    );
    let fault = only(reply("HTTP/1.1 103 Early Hints\r\n\r\n", Then::Close))
        .await
        .unwrap_err();
    assert_eq!(
        fault,
        Fault::Truncated {
            received: 0,
            expected: None
        }
    );
}

#[actix_rt::test]
async fn surplus_bytes_are_never_taken_for_the_next_answer() {
    let forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
    for first in [
        format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok{forged}"),
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n{forged}"
        ),
        format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n{forged}"),
        format!("HTTP/1.1 304 Not Modified\r\n\r\n{forged}"),
    ] {
        let server = Server::start(vec![reply(&first, Then::Keep), ok("true")]).await;
        let client = client(&settings());
        assert!(get(&client, server.url("/1")).await.unwrap().body.len() <= 2);
        assert_eq!(
            get(&client, server.url("/2")).await.unwrap().body,
            "true",
            "{first:?}"
        );
        assert_eq!(server.connections(), 2);
    }
}

#[actix_rt::test]
async fn connections_are_kept_as_the_server_says() {
    for (head, connections) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 1),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            1,
        ),
        (
            "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok",
            1,
        ),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 3),
        (
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
            3,
        ),
    ] {
        let server = Server::start(vec![reply(head, Then::Keep)]).await;
        let client = client(&settings());
        for _ in 0..3 {
            assert_eq!(get(&client, server.url("/")).await.unwrap().body, "ok");
        }
        assert_eq!(server.connections(), connections, "{head:?}");
        client.close_idle();
        assert_eq!(client.open_connections(), 0);
    }
}

#[actix_rt::test]
async fn a_close_before_the_answer_tells_kept_from_fresh_connections() {
    let fault = only(reply("", Then::Close)).await.unwrap_err();
    assert_eq!(fault, Fault::Disconnected { reused: false });
    for then in [Then::Close, Then::Reset] {
        let server = Server::start(vec![ok("first"), reply("", then), ok("third")]).await;
        let client = client(&settings());
        get(&client, server.url("/")).await.unwrap();
        let fault = get(&client, server.url("/")).await.unwrap_err();
        assert_eq!(fault, Fault::Disconnected { reused: true });
        assert_eq!(get(&client, server.url("/")).await.unwrap().body, "third");
        assert_eq!(server.connections(), 2);
    }
}

#[actix_rt::test]
async fn requests_say_what_they_are_asked_to() {
    let server = Server::start(vec![ok("")]).await;
    let client = client(&settings());
    let mut request = Request::get(server.url("/a%20b?q=1#fragment"));
    request.headers.push(("X-Two".to_owned(), "1".to_owned()));
    request.headers.push(("X-Two".to_owned(), "2".to_owned()));
    request
        .headers
        .push(("Accept".to_owned(), "application/json".to_owned()));
    within(client.exchange(TestPermit::new(), &request))
        .await
        .result
        .unwrap();
    request.method = Method::Post;
    request.body = "a=1".into();
    within(client.exchange(TestPermit::new(), &request))
        .await
        .result
        .unwrap();
    let [get, post] = server.requests().try_into().unwrap();
    let count = |text: &str, line: &str| text.matches(line).count();
    assert!(get.starts_with("GET /a%20b?q=1 HTTP/1.1\r\n"), "{get}");
    assert_eq!(
        count(&get, &format!("Host: 127.0.0.1:{}\r\n", server.port)),
        1,
        "{get}"
    );
    assert_eq!(count(&get, "User-Agent: test-agent/1.0\r\n"), 1, "{get}");
    assert_eq!(
        count(&get, "Accept-Encoding: gzip, deflate, br, zstd\r\n"),
        1,
        "{get}"
    );
    assert_eq!(count(&get, "Accept: application/json\r\n"), 1, "{get}");
    assert_eq!(count(&get, "Accept: */*"), 0, "{get}");
    assert_eq!(count(&get, "X-Two: "), 2, "{get}");
    assert_eq!(count(&get.to_lowercase(), "content-length"), 0, "{get}");
    assert!(
        post.starts_with("POST ") && post.ends_with("\r\n\r\na=1"),
        "{post}"
    );
    assert_eq!(
        count(&post.to_lowercase(), "content-length: 3\r\n"),
        1,
        "{post}"
    );
}

#[actix_rt::test]
async fn requests_that_cannot_be_sent_are_refused_before_the_network() {
    let client = client(&settings());
    let url = "http://127.0.0.1:1/".parse::<url::Url>().unwrap();
    for (name, value) in [
        ("X", "a\r\nInjected: 1"),
        ("X Y", "a"),
        ("Host", "b"),
        ("content-length", "7"),
    ] {
        let mut request = Request::get(url.clone());
        request.headers.push((name.to_owned(), value.to_owned()));
        let exchanged = within(client.exchange(TestPermit::new(), &request)).await;
        assert!(!exchanged.receipt);
        let error = exchanged.result.unwrap_err();
        assert!(matches!(&error.fault, Fault::InvalidHeader { name: n, .. } if n == name));
        assert!(!error.to_string().contains("Injected"));
    }
    for url in ["http://user:secret@127.0.0.1:1/", "ftp://127.0.0.1/"] {
        let exchanged = crate::support::exchange(&client, url.parse().unwrap()).await;
        assert!(!exchanged.receipt);
        let error = exchanged.result.unwrap_err();
        assert!(matches!(error.fault, Fault::InvalidUrl(_)));
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
}
