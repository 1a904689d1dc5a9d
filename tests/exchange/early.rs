//! Answers that come before their time: before the request is asked, or before it is whole.

use std::time::Duration;

use crawler_node::exchange::{Client, Fault};
use crawler_node::model::{Answer, Method, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::Url;

use crate::support::{TestPermit, client, get, settings, within};

const REFUSAL: &[u8] = b"HTTP/1.1 413 Too Large\r\nContent-Length: 6\r\n\r\ntoo big";

/// More than the buffers of two sockets take.
const LARGE: usize = 32 * 1024 * 1024;

#[derive(Clone, Copy, PartialEq)]
enum After {
    Reads,
    Stops,
    Closes,
}

/// A server that reads `first` bytes of a request, answers, and then does as it is told.
async fn server(first: usize, answer: &'static [u8], after: After) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    actix_rt::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; first];
            stream.read_exact(&mut head).await.unwrap();
            stream.write_all(answer).await.unwrap();
            match after {
                After::Closes => {}
                After::Stops => std::future::pending().await,
                After::Reads => {
                    let mut buffer = vec![0; 64 * 1024];
                    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
                }
            }
        }
    });
    Url::parse(&url).unwrap()
}

/// Posts a body that no socket takes at once.
async fn post(client: &Client, url: Url) -> Result<Answer, Fault> {
    let mut request = Request::get(url);
    request.method = Method::Post;
    request.body = "x".repeat(LARGE).into();
    let sent = within(client.exchange(TestPermit::new(), &request)).await;
    sent.result.map_err(|error| error.fault)
}

#[actix_rt::test]
async fn an_answer_to_half_a_request_is_read_whether_the_server_reads_on_or_not() {
    for after in [After::Reads, After::Stops] {
        let url = server(16, &REFUSAL[..REFUSAL.len() - 1], after).await;
        let client = client(&settings());
        let answer = post(&client, url).await.unwrap();
        assert_eq!((answer.status, answer.body.as_ref()), (413, &b"too bi"[..]));
        assert_eq!(client.open_connections(), 0, "half a request is behind it");
    }
}

#[actix_rt::test]
async fn a_server_that_closes_on_half_a_request_leaves_its_answer_or_a_named_error() {
    let url = server(16, REFUSAL, After::Closes).await;
    let client = client(&settings());
    match post(&client, url).await {
        Ok(answer) => assert_eq!(answer.status, 413),
        // The reset that follows unread bytes may overtake the answer: the kernel then drops it.
        Err(fault) => assert!(
            matches!(fault, Fault::Disconnected { .. } | Fault::Truncated { .. }),
            "{fault}"
        ),
    }
    assert_eq!(client.open_connections(), 0);
}

#[actix_rt::test]
async fn garbage_to_half_a_request_is_no_answer() {
    let url = server(16, b"220 mail.example ESMTP\r\n", After::Stops).await;
    let client = client(&settings());
    let fault = post(&client, url).await.unwrap_err();
    assert!(matches!(fault, Fault::Protocol(_)), "{fault}");
}

#[actix_rt::test]
async fn a_server_that_reads_half_a_request_and_is_silent_ends_at_its_clock() {
    let mut settings = settings();
    settings.first_byte_timeout = Duration::from_millis(100);
    let url = server(16, b"", After::Stops).await;
    let client = client(&settings);
    let fault = post(&client, url).await.unwrap_err();
    assert_eq!(fault, Fault::FirstByteTimeout);
}

#[actix_rt::test]
async fn an_answer_before_the_request_is_the_answer_to_it() {
    let greeting =
        b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let url = server(0, greeting, After::Reads).await;
    let answer = get(&client(&settings()), url).await.unwrap();
    assert_eq!(answer.status, 408);
}
