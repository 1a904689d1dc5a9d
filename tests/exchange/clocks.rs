//! Each clock has its own error; none needs the server to do anything.

use std::time::Duration;

use crawler_node::exchange::Fault;
use crawler_node::model::Request;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::support::{
    Server, TestPermit, Then, client, exchange, get, ok, reply, settings, within,
};

const SHORT: Duration = Duration::from_millis(50);

#[actix_rt::test]
async fn no_tls_answer_ends_at_the_connect_clock() {
    // The kernel accepts the TCP connection; nobody answers the handshake.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let mut settings = settings();
    settings.connect_timeout = SHORT;
    let exchanged = exchange(&client(&settings), url.parse().unwrap()).await;
    assert_eq!(exchanged.result.unwrap_err().fault, Fault::ConnectTimeout);
    assert!(exchanged.receipt, "a connection was begun");
}

#[actix_rt::test]
async fn no_head_ends_at_the_head_clock() {
    let mut settings = settings();
    settings.head_timeout = SHORT;
    for bytes in [
        "",
        "HTTP/1.1 200 OK\r\nX: y\r\n",
        "HTTP/1.1 103 Early Hints\r\n\r\n",
    ] {
        let server = Server::start(vec![reply(bytes, Then::Hang)]).await;
        let fault = get(&client(&settings), server.url("/")).await;
        assert_eq!(fault.unwrap_err(), Fault::HeadTimeout, "{bytes:?}");
    }
}

#[actix_rt::test]
async fn a_silent_body_ends_at_the_idle_clock() {
    let mut settings = settings();
    settings.idle_timeout = SHORT;
    for head in [
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ] {
        let server = Server::start(vec![reply(head, Then::Hang)]).await;
        let fault = get(&client(&settings), server.url("/")).await;
        assert_eq!(fault.unwrap_err(), Fault::IdleTimeout, "{head:?}");
    }
}

#[actix_rt::test]
async fn everything_ends_at_the_total_clock() {
    let mut settings = settings();
    settings.total_timeout = SHORT;
    for bytes in ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"] {
        let server = Server::start(vec![reply(bytes, Then::Hang)]).await;
        let fault = get(&client(&settings), server.url("/")).await;
        assert_eq!(fault.unwrap_err(), Fault::TotalTimeout, "{bytes:?}");
    }
}

#[actix_rt::test]
async fn the_permits_deadline_ends_the_exchange() {
    let server = Server::start(vec![reply("", Then::Hang)]).await;
    let client = client(&settings());
    let mut permit = TestPermit::new();
    permit.deadline = Instant::now() + SHORT;
    let exchanged = within(client.exchange(permit, &Request::get(server.url("/")))).await;
    assert_eq!(exchanged.result.unwrap_err().fault, Fault::TotalTimeout);
    assert!(exchanged.receipt);
    assert_eq!(
        client.open_connections(),
        0,
        "no socket outlives the permit"
    );

    let mut late = TestPermit::new();
    late.deadline = Instant::now();
    let exchanged = within(client.exchange(late, &Request::get(server.url("/")))).await;
    assert_eq!(exchanged.result.unwrap_err().fault, Fault::TotalTimeout);
    assert!(!exchanged.receipt, "nothing was sent");
    assert_eq!(server.connections(), 1);
}

#[actix_rt::test]
async fn times_are_measured_from_the_first_byte_sent() {
    let server = Server::start(vec![ok("body")]).await;
    let client = client(&settings());
    let before = Instant::now();
    let answer = get(&client, server.url("/")).await.unwrap();
    assert!(answer.head_time > Duration::ZERO);
    assert!(answer.head_time <= answer.total_time && answer.total_time <= before.elapsed());
}

#[actix_rt::test]
async fn nobody_listening_and_no_such_name() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/secret?token=1", listener.local_addr().unwrap());
    drop(listener);
    let client = client(&settings());
    let exchanged = exchange(&client, url.parse().unwrap()).await;
    assert!(
        exchanged.receipt,
        "an attempt to connect costs the server too"
    );
    let error = exchanged.result.unwrap_err();
    assert!(matches!(error.fault, Fault::Connect(_)));
    assert!(!error.to_string().contains("token"), "{error}");
    assert!(error.to_string().starts_with("127.0.0.1:"), "{error}");

    // An empty label is no name: no resolver has to be asked.
    let exchanged = exchange(&client, "http://a..b/".parse().unwrap()).await;
    assert!(!exchanged.receipt);
    assert!(matches!(exchanged.result.unwrap_err().fault, Fault::Dns(_)));
}
