//! Bodies that go to a sink instead of into memory.

use std::time::Duration;

use bytes::Bytes;
use crawler_node::exchange::{BodySink, Fault, Start, Timed};
use crawler_node::model::{Answer, Outcome, Request};
use crawler_node::settings::ExchangeSettings;
use tokio::time::Instant;

use crate::bodies::encoded;
use crate::encoders::gzip;
use crate::support::{
    Reply, Server, TestPermit, Then, client, in_pieces, ok, reply, settings, within,
};

/// Takes what it is told to, and remembers it.
#[derive(Default)]
struct Sink {
    refuses: bool,
    stuck: Option<Duration>,
    start: Option<(usize, Option<u64>)>,
    beginning: Vec<u8>,
    bytes: Vec<u8>,
}

impl BodySink for Sink {
    fn takes(&mut self, start: Start<'_>) -> Result<bool, Fault> {
        self.start = Some((start.received.len(), start.length));
        self.beginning = start.answer.body.to_vec();
        Ok(!self.refuses)
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), Fault> {
        if let Some(stuck) = self.stuck {
            tokio::time::sleep(stuck).await;
        }
        self.bytes.extend_from_slice(&bytes);
        Ok(())
    }
}

struct Done {
    result: Result<Answer, Fault>,
    used: bool,
    judged: Vec<usize>,
    requests: Vec<String>,
}

async fn download(replies: Vec<Reply>, settings: &ExchangeSettings, sink: &mut Sink) -> Done {
    download_within(replies, settings, sink, None).await
}

async fn download_within(
    replies: Vec<Reply>,
    settings: &ExchangeSettings,
    sink: &mut Sink,
    total_timeout: Option<Duration>,
) -> Done {
    let server = Server::start(replies).await;
    let client = client(settings);
    let mut judged = Vec::new();
    let permit = Timed {
        permit: TestPermit::new(),
        total_timeout,
    };
    let request = Request::get(server.url("/file"));
    let exchanged = within(client.download(permit, &request, false, sink, |answer| {
        judged.push(answer.body.len());
        (answer.status >= 400).then(|| (Outcome::Limited, Default::default()))
    }))
    .await;
    Done {
        result: exchanged.result.map_err(|error| error.fault),
        used: exchanged.receipt,
        judged,
        requests: server.requests(),
    }
}

fn file(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 % 251) as u8).collect()
}

fn whole(status: u16, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

#[actix_rt::test]
async fn a_small_body_is_given_back_whole_and_never_reaches_the_sink() {
    let mut sink = Sink::default();
    let done = download(vec![ok("small")], &settings(), &mut sink).await;
    assert_eq!(done.result.unwrap().body, "small");
    assert!(done.used && sink.start.is_none());
    assert_eq!(done.judged, [5]);
    let asked = done.requests[0].to_ascii_lowercase();
    assert!(asked.contains("accept-encoding: identity\r\n"), "{asked}");
}

#[actix_rt::test]
async fn a_large_body_goes_to_the_sink_whole_whatever_its_framing() {
    let body = file(300_000);
    let chunked = body.chunks(1000).fold(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        |text, chunk| {
            let size = format!("{:x}\r\n", chunk.len());
            [&text, size.as_bytes(), chunk, b"\r\n"].concat()
        },
    );
    let chunked = [&chunked[..], b"0\r\n\r\n"].concat();
    let to_the_end = [b"HTTP/1.1 200 OK\r\n\r\n", &body[..]].concat();
    for (text, then, length) in [
        (whole(200, &body), Then::Keep, Some(300_000)),
        (chunked, Then::Keep, None),
        (to_the_end, Then::Close, None),
    ] {
        let mut settings = settings();
        // What goes to the sink is bounded by the sink alone.
        settings.max_body_bytes = 40_000;
        let mut sink = Sink::default();
        let done = download(vec![in_pieces(text, 5000, then)], &settings, &mut sink).await;
        assert!(done.result.unwrap().body.is_empty());
        assert!(sink.bytes == body, "{} bytes", sink.bytes.len());
        let (start, announced) = sink.start.unwrap();
        assert_eq!(announced, length);
        assert!((32 * 1024..200_000).contains(&start), "{start}");
        assert_eq!(done.judged.len(), 1);
    }
}

#[actix_rt::test]
async fn a_body_that_is_cut_is_truncated_and_the_sink_has_what_came() {
    let body = file(200_000);
    let mut text = whole(200, &body);
    text.truncate(text.len() - 50_000);
    for then in [Then::Close, Then::Reset] {
        let mut sink = Sink::default();
        let replies = vec![in_pieces(text.clone(), 10_000, then)];
        let done = download(replies, &settings(), &mut sink).await;
        let fault = done.result.unwrap_err();
        assert!(matches!(fault, Fault::Truncated { .. }), "{fault}");
        assert!(body.starts_with(&sink.bytes));
        if then == Then::Close {
            assert_eq!(sink.bytes.len(), 150_000);
        }
    }
}

#[actix_rt::test]
async fn a_large_refusal_is_judged_by_its_beginning_and_read_no_further() {
    for (status, refuses) in [(429, false), (200, true)] {
        let mut sink = Sink {
            refuses,
            ..Sink::default()
        };
        let text = whole(status, &file(90_000));
        // Only what is judged ever comes.
        let text = &text[..40_000];
        let done = download(vec![reply(text, Then::Hang)], &settings(), &mut sink).await;
        let answer = done.result.unwrap();
        assert_eq!(answer.status, status);
        assert!(file(90_000).starts_with(&answer.body));
        assert_eq!(done.judged, [answer.body.len()]);
        assert!(sink.bytes.is_empty());
        assert_eq!(sink.start.is_some(), refuses);
    }
}

#[actix_rt::test]
async fn a_coded_body_is_judged_decoded_and_handed_on_as_it_came() {
    let page = "prove that you are human ".repeat(20_000);
    let mut coded = gzip(page.as_bytes());
    // Padding that no decoder needs makes it large.
    coded.extend_from_slice(&gzip(&file(100_000)));
    coded.extend_from_slice(&[0; 40_000]);
    let mut sink = Sink::default();
    let text = encoded("gzip", &coded);
    let done = download(
        vec![in_pieces(text, 9000, Then::Keep)],
        &settings(),
        &mut sink,
    )
    .await;
    assert!(done.result.is_ok());
    assert!(page.as_bytes().starts_with(&sink.beginning));
    assert_eq!(sink.beginning.len(), 32 * 1024);
    assert!(sink.bytes == coded);
}

#[actix_rt::test]
async fn a_slow_sink_is_no_silence_of_the_server_but_ends_at_the_total_clock() {
    let mut settings = settings();
    settings.idle_timeout = Duration::from_millis(100);
    settings.total_timeout = Duration::from_secs(10);
    let mut sink = Sink {
        stuck: Some(Duration::from_millis(150)),
        ..Sink::default()
    };
    let text = whole(200, &file(60_000));
    let done = download(vec![reply(&text, Then::Keep)], &settings, &mut sink).await;
    assert!(done.result.is_ok());
    settings.total_timeout = Duration::from_millis(300);
    let mut sink = Sink {
        stuck: Some(Duration::from_secs(3600)),
        ..Sink::default()
    };
    let done = download(vec![reply(&text, Then::Keep)], &settings, &mut sink).await;
    assert_eq!(done.result.unwrap_err(), Fault::TotalTimeout);
    assert!(done.used);
}

#[actix_rt::test]
async fn a_total_time_of_its_own_replaces_that_of_the_settings() {
    let mut settings = settings();
    settings.idle_timeout = Duration::from_secs(10);
    settings.total_timeout = Duration::from_millis(50);
    let text = whole(200, &file(60_000));
    let mut sink = Sink {
        stuck: Some(Duration::from_millis(100)),
        ..Sink::default()
    };
    let longer = Some(Duration::from_secs(15));
    let replies = vec![reply(&text, Then::Keep)];
    let done = download_within(replies, &settings, &mut sink, longer).await;
    assert!(done.result.is_ok());
    let start = Instant::now();
    settings.total_timeout = Duration::from_secs(60);
    let shorter = Some(Duration::from_millis(50));
    let replies = vec![reply(&text[..100], Then::Hang)];
    let done = download_within(replies, &settings, &mut Sink::default(), shorter).await;
    assert_eq!(done.result.unwrap_err(), Fault::TotalTimeout);
    assert!(start.elapsed() < Duration::from_secs(10));
}
