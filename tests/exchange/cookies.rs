//! Cookies of a client with a session, as a server sees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crawler_node::exchange::Client;
use crawler_node::exchange::cookies::{Jar, MOST_OF_A_DOMAIN, Session};
use crawler_node::model::Request;

use crate::support::{Reply, Server, TestPermit, Then, client, get, ok, reply, settings, within};

fn with_session() -> (Client, Arc<Session>) {
    let session = Arc::new(Session::new(Jar::default(), || {}));
    (client(&settings()).with_session(session.clone()), session)
}

/// An answer that sets cookies.
fn setting(status: &str, lines: &[&[u8]], body: &str, more: &str) -> Reply {
    let mut bytes = format!("HTTP/1.1 {status}\r\n{more}").into_bytes();
    for line in lines {
        bytes.extend_from_slice(b"Set-Cookie: ");
        bytes.extend_from_slice(line);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    reply(bytes, Then::Keep)
}

/// The `Cookie` fields of the nth request.
fn sent(server: &Server, nth: usize) -> Vec<String> {
    let request = &server.requests()[nth];
    let fields = request.lines().filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("cookie")
            .then(|| value.to_owned())
    });
    fields.collect()
}

/// The `Cookie` fields of the request after an answer with `lines`.
async fn after(lines: &[&[u8]]) -> Vec<String> {
    let server = Server::start(vec![setting("200 OK", lines, "", ""), ok("")]).await;
    let (client, _) = with_session();
    get(&client, server.url("/a/b")).await.unwrap();
    get(&client, server.url("/a/c")).await.unwrap();
    assert_eq!(sent(&server, 0), Vec::<String>::new());
    sent(&server, 1)
}

#[actix_rt::test]
async fn several_cookies_go_back_in_one_field_in_their_order() {
    let lines: [&[u8]; 4] = [
        b"root=1; Path=/",
        b"deep=2",
        b"token=a=b==; Path=/; HttpOnly",
        b"gone=3; Max-Age=0",
    ];
    assert_eq!(after(&lines).await, ["deep=2; root=1; token=a=b=="]);
}

#[actix_rt::test]
async fn one_malformed_line_among_three_costs_that_line_only() {
    let lines: [&[u8]; 3] = [
        b"a=1",
        b"b\x01=2; Domain=",
        b"c=3; Expires=never; Secure=no; =",
    ];
    // The last one is for https.
    assert_eq!(after(&lines).await, ["a=1"]);
    let lines: [&[u8]; 3] = [b"a=1", b"=; =", b"c=3; Expires=never"];
    assert_eq!(after(&lines).await, ["a=1; c=3"]);
}

#[actix_rt::test]
async fn octets_beyond_ascii_and_quotes_go_back_as_they_came() {
    let lines: [&[u8]; 2] = ["n=中文 \"x\"".as_bytes(), b"{\"a\":1}"];
    assert_eq!(after(&lines).await, ["n=中文 \"x\"; {\"a\":1}"]);
}

#[actix_rt::test]
async fn cookies_of_errors_redirects_and_broken_bodies_count() {
    let cut = b"HTTP/1.1 200 OK\r\nSet-Cookie: c=3\r\nContent-Length: 10\r\n\r\nhalf";
    let server = Server::start(vec![
        setting("503 Busy", &[b"a=1"], "", ""),
        setting("302 Found", &[b"b=2"], "", "Location: /next\r\n"),
        reply(cut, Then::Close),
        ok(""),
    ])
    .await;
    let (client, _) = with_session();
    for _ in 0..4 {
        // The third is an error, and meant to be.
        let _ = get(&client, server.url("/")).await;
    }
    assert_eq!(sent(&server, 1), ["a=1"]);
    assert_eq!(sent(&server, 2), ["a=1; b=2"]);
    assert_eq!(sent(&server, 3), ["a=1; b=2; c=3"]);
}

#[actix_rt::test]
async fn the_requests_own_pairs_go_first_and_stand_for_the_jars() {
    let first = setting("200 OK", &[b"a=jar", b"b=jar"], "", "");
    let server = Server::start(vec![first, ok("")]).await;
    let (client, _) = with_session();
    get(&client, server.url("/")).await.unwrap();
    let mut request = Request::get(server.url("/"));
    let field = |value: &str| ("cookie".to_owned(), value.to_owned());
    request.headers = vec![field("x=own; a=own=1"), field("y=own")];
    within(client.exchange(TestPermit::new(), &request))
        .await
        .result
        .unwrap();
    assert_eq!(sent(&server, 1), ["x=own; a=own=1; y=own; b=jar"]);
}

#[actix_rt::test]
async fn without_a_session_nothing_is_kept_and_clients_of_two_sessions_are_apart() {
    let first = setting("200 OK", &[b"a=1"], "", "");
    let server = Server::start(vec![first.clone(), first, ok("")]).await;
    let none = client(&settings());
    get(&none, server.url("/")).await.unwrap();
    let (one, _) = with_session();
    get(&one, server.url("/")).await.unwrap();
    let (two, _) = with_session();
    for client in [&none, &two, &one] {
        get(client, server.url("/")).await.unwrap();
    }
    for nth in 0..4 {
        assert_eq!(sent(&server, nth), Vec::<String>::new(), "{nth}");
    }
    assert_eq!(sent(&server, 4), ["a=1"]);
}

#[actix_rt::test]
async fn as_many_lines_as_fit_a_head_are_kept_up_to_the_bound() {
    let lines: Vec<String> = (0..1000).map(|n| format!("n{n}={n}; Path=/")).collect();
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let sent = after(&lines).await;
    assert_eq!(sent[0].split("; ").count(), MOST_OF_A_DOMAIN);
    assert!(sent[0].ends_with("n999=999"), "the latest stay");
}

#[actix_rt::test]
async fn who_writes_cookies_down_is_told_of_changes_alone() {
    let told = Arc::new(AtomicUsize::new(0));
    let counting = told.clone();
    let session = Session::new(Jar::default(), move || {
        counting.fetch_add(1, Ordering::SeqCst);
    });
    let same = setting("200 OK", &[b"a=1", b"b=2"], "", "");
    let other = setting("200 OK", &[b"a=2"], "", "");
    let server = Server::start(vec![same.clone(), same, ok(""), other]).await;
    let client = client(&settings()).with_session(Arc::new(session));
    for count in [1, 1, 1, 2] {
        get(&client, server.url("/")).await.unwrap();
        assert_eq!(told.load(Ordering::SeqCst), count);
    }
}
